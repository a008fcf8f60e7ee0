create or replace function tasker.take_over_tasks(p_task_uuids uuid[], p_processor_uuid uuid) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select tasker.append_task_transitions(array_agg((c.task_uuid, c.namespace, c.lifecycle, c.to_state, r.event, r.to_state, c.sort_key + 1,
                                                   true, p_processor_uuid,
                                                   jsonb_build_object('taken_over_from', c.processor_uuid))::tasker.task_move))
    from unnest(p_task_uuids) as asked(task_uuid)
    join tasker.task_transitions c on c.task_uuid = asked.task_uuid and c.most_recent
    join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'take_over'
    join tasker.processors p on p.processor_uuid = c.processor_uuid
   where p.lease_expires_at <= tasker.clock()
$$;
comment on function tasker.take_over_tasks(uuid[], uuid) is
  'Writes into the log of each task that its owner''s lease ended and who has it now (seed 004: ProcessorCrashed).';
