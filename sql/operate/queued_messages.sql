create or replace function tasker.queued_messages(out queue_name text, out step_uuid uuid) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  c_uuid constant text := '^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$';
  v_queue text;
begin
  for v_queue in
    select n.queue_name from tasker.task_namespaces n union select c.queue_name from tasker.work_queues c
  loop
    if to_regclass('pgmq.' || quote_ident('q_' || v_queue)) is not null then
      return query execute format(
        'select %L::text, (m.message ->> ''step_uuid'')::uuid from pgmq.%I m where coalesce(m.message ->> ''step_uuid'', '''') ~ %L',
        v_queue, 'q_' || v_queue, c_uuid);
    end if;
  end loop;
  if to_regclass('pgmq.q_orchestration_step_results') is not null then
    return query execute format(
      'select ''orchestration_step_results''::text, u.step_uuid::uuid
         from pgmq.q_orchestration_step_results m
        cross join lateral jsonb_array_elements_text(
           case when jsonb_typeof(m.message -> ''step_uuids'') = ''array'' then m.message -> ''step_uuids'' else ''[]'' end) as u(step_uuid)
        where u.step_uuid ~ %L', c_uuid);
  end if;
end
$$;
comment on function tasker.queued_messages() is 'Which steps stand in which queue now.';
