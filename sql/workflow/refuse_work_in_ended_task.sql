create or replace function tasker.refuse_work_in_ended_task(p_task_uuid uuid, p_step_uuid uuid, p_lifecycle text, p_to_state text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  select c.to_state into v_state
    from tasker.task_transitions c
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
   where c.task_uuid = p_task_uuid and c.most_recent and s.is_terminal
     and not exists (select from tasker.lifecycle_states t
                      where t.lifecycle = p_lifecycle and t.state = p_to_state and t.is_terminal);
  if found then
    perform tasker.raise_error(
      'TK409', format('task %s is %s: step %s can''t become %s', p_task_uuid, v_state, p_step_uuid, p_to_state),
      jsonb_build_object('kind', 'step', 'uuid', p_step_uuid, 'task_uuid', p_task_uuid, 'task_state', v_state, 'to_state', p_to_state),
      'Steps of a task that has ended do not go back to work. A failed task can be started again with reset_task.');
  end if;
end
$$;
comment on function tasker.refuse_work_in_ended_task(uuid, uuid, text, text) is
  'Raises TK409 when a step would go on although its task has ended: nobody would ever finish it.';
