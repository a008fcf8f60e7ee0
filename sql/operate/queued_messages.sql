create or replace function tasker.queued_messages(out queue_name text, out step_uuid uuid) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
begin
  for v_queue in
    select n.queue_name from tasker.task_namespaces n union select c.queue_name from tasker.work_queues c
  loop
    if to_regclass('pgmq.' || quote_ident('q_' || v_queue)) is not null then
      return query execute format(
        'select %L::text, (m.message ->> ''step_uuid'')::uuid from pgmq.%I m where tasker.is_uuid(m.message ->> ''step_uuid'')',
        v_queue, 'q_' || v_queue);
    end if;
  end loop;
  return query select 'handler_waits', w.workflow_step_uuid from tasker.handler_waits w
    join tasker.workflow_step_transitions c on c.workflow_step_uuid = w.workflow_step_uuid and c.most_recent and c.sort_key = w.sort_key;
  if to_regclass('pgmq.q_orchestration_step_results') is not null then
    return query
    select 'orchestration_step_results', u.step_uuid::uuid
      from pgmq.q_orchestration_step_results m
     cross join lateral (select coalesce(m.message -> 'step_uuids', m.message -> 'engine_steps') as list) s
     cross join lateral jsonb_array_elements_text(case when jsonb_typeof(s.list) = 'array' then s.list else '[]' end) as u(step_uuid)
     where tasker.is_uuid(u.step_uuid);
  end if;
end
$$;
comment on function tasker.queued_messages() is 'Which steps stand in which queue now, or wait for a worker with their handler.';
