create or replace function tasker.untold_steps(p_task_uuid uuid default null, out task_uuid uuid, out workflow_step_uuid uuid) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select w.task_uuid, w.workflow_step_uuid
    from tasker.event_waits w
    join tasker.events e on e.namespace = w.namespace and e.event = w.event and e.key = w.key
   where w.ended_at is null and (p_task_uuid is null or w.task_uuid = p_task_uuid)
     and not exists (select from pgmq.q_orchestration_step_results m
                      where m.message ->> 'namespace' = w.namespace and m.message -> 'events' @> jsonb_build_array(jsonb_build_array(w.event, w.key)))
   union all
  select s.task_uuid, s.workflow_step_uuid
    from tasker.child_tasks c
    join tasker.workflow_steps s on s.workflow_step_uuid = c.workflow_step_uuid and s.claim_uuid = c.claim_uuid
    join tasker.tasks k on k.task_uuid = c.task_uuid and k.completed_at is not null
   where (p_task_uuid is null or s.task_uuid = p_task_uuid)
     and not exists (select from pgmq.q_orchestration_step_results m where m.message -> 'engine_steps' ? s.workflow_step_uuid::text)
$$;
comment on function tasker.untold_steps(uuid) is
  'Steps whose event is there, or whose task has ended, and no message is under way that would tell: somebody took it out of the queue.';
