create or replace function tasker.queued_steps(out queue_name text, out workflow_step_uuid uuid) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  c_uuid constant text := '^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$';
begin
  for queue_name in
    select n.queue_name from tasker.task_namespaces n union all select 'orchestration_step_results'
  loop
    if to_regclass('pgmq.' || quote_ident('q_' || queue_name)) is not null then
      for workflow_step_uuid in execute format(
        $query$
          select u.step_uuid::uuid
            from pgmq.%I q
           cross join lateral (
              select q.message ->> 'step_uuid' as step_uuid
              union all
              select e.step_uuid
                from jsonb_array_elements_text(case when jsonb_typeof(q.message -> 'step_uuids') = 'array'
                                                    then q.message -> 'step_uuids' else '[]' end) as e(step_uuid)) u
           where u.step_uuid ~ $1
        $query$, 'q_' || queue_name) using c_uuid
      loop
        return next;
      end loop;
    end if;
  end loop;
end
$$;
comment on function tasker.queued_steps() is 'Every step that a message stands for, in the queues of the namespaces and in that of reported results.';
