create or replace function tasker.lock_step_or_refuse(p_step_uuid uuid) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task uuid;
begin
  select s.task_uuid into v_task from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid and tasker.may_see(s.namespace);
  if not found then
    perform tasker.raise_error('TK404', format('there is no step %s', coalesce(p_step_uuid::text, 'null')),
                               jsonb_build_object('step_uuid', p_step_uuid), 'See them in tasker.step_overview.');
  end if;
  perform tasker.lock_task_or_refuse(v_task);
  if exists (select from tasker.tasks t join tasker.lifecycles l on l.lifecycle = t.lifecycle
              where t.task_uuid = v_task and not l.has_enqueuing_phase) then
    perform tasker.lock_work(array[v_task]);  -- where a failure ends the task on the spot, its other steps are cancelled too
  else
    -- Those that wait for it are counted down. They may run already, where one of several is enough or one was sent back to work, and their
    -- worker may be about to report both.
    perform tasker.lock_steps(p_step_uuid || array(select e.to_step_uuid from tasker.workflow_step_edges e where e.from_step_uuid = p_step_uuid));
  end if;
  return v_task;
end
$$;
comment on function tasker.lock_step_or_refuse(uuid) is 'Locks the task of a step, then the step with those that wait for it, or raises TK404. Returns the task.';
