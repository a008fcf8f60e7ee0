create or replace function tasker.retry_tasks(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task  record;
  v_steps uuid[];
  v_moves tasker.step_move[];
begin
  for v_task in
    select t.task_uuid, r.event, r.to_state
      from unnest(p_timers) t
      join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent and c.sort_key = t.sort_key
      join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'task_retry_due'
     where t.kind = 'task_retry'
     order by t.task_uuid
  loop
    perform tasker.append_task_event(v_task.task_uuid, v_task.event, v_task.to_state, null, '{}');
    v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = v_task.task_uuid);
    perform tasker.lock_steps(v_steps);
    v_steps := array(select s.workflow_step_uuid
                       from tasker.workflow_steps s
                       join tasker.workflow_step_transitions c on c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent
                       join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
                      where s.workflow_step_uuid = any (v_steps) and x.phase in ('failed', 'circuit_open'));
    update tasker.workflow_steps s set attempts = 0 where s.workflow_step_uuid = any (v_steps);
    -- the way of a retry if the lifecycle has one from there, else that of an operator who sends it back
    v_moves := array(select m from tasker.step_moves(v_steps, 'settle_failure', '{"reason": "the whole task is retried"}') m);
    v_moves := v_moves || array(
      select m from tasker.step_moves(array(select s from unnest(v_steps) s where s not in (select m.workflow_step_uuid from unnest(v_moves) m)),
                                      'retry_step', '{"reason": "the whole task is retried"}') m);
    perform tasker.append_step_transitions(v_moves);
    perform tasker.release_dependents(v_moves);
    perform tasker.wait_again(v_moves);
    perform tasker.resend_steps(v_steps);
    perform tasker.drive_tasks(array[v_task.task_uuid]);
  end loop;
end
$$;
comment on function tasker.retry_tasks(tasker.timers[]) is
  'Starts tasks again whose backoff is over: their failed steps go back to work (seed 001: S_RETRYING to S_RUNNING).';
