create or replace function tasker.start_tasks(p_task_uuids uuid[], p_step_uuids uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select tasker.append_task_transitions(array_agg((c.task_uuid, c.namespace, c.lifecycle, c.to_state, r.event, r.to_state, c.sort_key + 1,
                                                   true, null, '{}')::tasker.task_move order by c.task_uuid))
    from tasker.task_transitions c
    join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'first_start'
   where c.task_uuid = any (p_task_uuids) and c.most_recent
     and exists (select from tasker.workflow_steps s where s.workflow_step_uuid = any (p_step_uuids) and s.task_uuid = c.task_uuid)
$$;
comment on function tasker.start_tasks(uuid[], uuid[]) is 'Locked tasks of which one of these steps has just been claimed are under way (seed 000: first_task_started).';
