create or replace function tasker.lock_work(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps uuid[];
begin
  perform tasker.lock_tasks(p_task_uuids);
  v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = any (p_task_uuids));
  perform tasker.lock_steps(v_steps);
  perform tasker.lock_claims(v_steps);
end
$$;
comment on function tasker.lock_work(uuid[]) is
  'Locks tasks with all their steps and the claims on them: for what may end several tasks, whose steps workers report in one call.';
