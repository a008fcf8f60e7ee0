create or replace function tasker.lock_for_report(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tasks uuid[];
begin
  -- where a report settles the step at once, its task comes first
  v_tasks := array(
    select distinct s.task_uuid
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
     cross join lateral (select s.task_uuid, s.lifecycle from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
      join tasker.lifecycles l on l.lifecycle = s.lifecycle and l.settles_at_report);
  if cardinality(v_tasks) > 0 then
    perform tasker.lock_tasks(v_tasks);
  end if;
  perform tasker.lock_steps(p_step_uuids);
  if cardinality(v_tasks) > 0 then
    -- a failure may end the task, and with it what others hold
    perform tasker.lock_claims(p_step_uuids || array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = any (v_tasks)));
  end if;
end
$$;
comment on function tasker.lock_for_report(uuid[]) is 'Locks steps that are about to be reported, and first their tasks where those will move too.';
