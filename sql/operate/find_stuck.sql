create or replace function tasker.find_stuck(
  p_older_than interval default '10 minutes',
  out task_uuid     uuid,
  out namespace     text,
  out name          text,
  out state         text,
  out since         timestamptz,
  out why           text,
  out proposed_call text
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select o.task_uuid, o.namespace, o.name, o.state, o.state_since, (tasker.explain_task(o.task_uuid)) ->> 'summary',
         format('select tasker.explain_task(%L)', o.task_uuid)
    -- by key: of the logs, only what belongs to unfinished tasks is read
    from tasker.tasks t
   cross join lateral (select o.* from tasker.task_overview o where o.task_uuid = t.task_uuid limit 1) o
   where t.completed_at is null
     and ((select tasker.bound_namespaces()) is null or t.namespace = any ((select tasker.bound_namespaces())::text[]))
     and greatest(o.state_since, (select max(c.created_at)
                                    from tasker.workflow_steps s
                                   cross join lateral (select c.created_at from tasker.workflow_step_transitions c
                                                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
                                   where s.task_uuid = t.task_uuid)) < clock_timestamp() - p_older_than
     -- what waits for an event is not stuck, unless it is blocked beside that
     and (o.phase = 'blocked' or tasker.open_waits(t.task_uuid) = 0)
     -- nor is what waits for a task that goes on; that one is looked at itself
     and not exists (select from tasker.workflow_steps s
                       join tasker.child_tasks c on c.workflow_step_uuid = s.workflow_step_uuid and c.claim_uuid = s.claim_uuid
                       join tasker.tasks k on k.task_uuid = c.task_uuid and k.completed_at is null
                      where s.task_uuid = t.task_uuid)
   order by o.state_since
$$;
comment on function tasker.find_stuck(interval) is 'Unfinished tasks in which nothing has moved for so long, and why.';
