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
    from tasker.task_overview o
   where not o.is_terminal
   and ((select tasker.bound_namespaces()) is null or o.namespace = any ((select tasker.bound_namespaces())::text[]))
     and greatest(o.state_since, (select max(t.created_at) from tasker.workflow_step_transitions t
                                    join tasker.workflow_steps s on s.workflow_step_uuid = t.workflow_step_uuid
                                   where s.task_uuid = o.task_uuid and t.most_recent)) < clock_timestamp() - p_older_than
   order by o.state_since
$$;
comment on function tasker.find_stuck(interval) is 'Unfinished tasks in which nothing has moved for so long, and why.';
