create or replace function tasker.reset_task(
  p_task_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'reset_task', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
  v_metadata jsonb := jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true, 'attempts_reset', true);
  v_steps    uuid[];
  v_moves    tasker.step_move[];
  v_lost     text[];
  v_other    uuid;
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.command_task(p_task_uuid, 'reset_task', p_reason, p_requested_by);
  perform tasker.refuse_compensated(p_task_uuid);
  v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = p_task_uuid);
  perform tasker.lock_steps(v_steps);
  v_lost := array(select o.name from tasker.step_overview o
                    join tasker.workflow_steps s on s.workflow_step_uuid = o.workflow_step_uuid
                    join tasker.lifecycle_states x on x.lifecycle = s.lifecycle and x.state = o.state
                   where o.task_uuid = p_task_uuid and tasker.counts_as(x.counts_as, s.on_failure, s.left_out) = 'failed'
                     and o.workflow_step_uuid not in (select m.workflow_step_uuid from tasker.step_moves(v_steps, 'retry_step') m)
                   order by o.ordinal);
  if cardinality(v_lost) > 0 then
    perform tasker.raise_error('TK409', format('task %s can''t be started again: %s of its steps ended for good, %s among them',
                                               p_task_uuid, cardinality(v_lost), v_lost[1]),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'steps', to_jsonb(v_lost[1:20])),
                               'resume_task goes on with a new task that runs what is unfinished.');
  end if;
  v_other := (select t.task_uuid from tasker.tasks t where t.resumes_task_uuid = p_task_uuid);
  if v_other is not null then
    perform tasker.raise_error('TK409', format('task %s was resumed as task %s', p_task_uuid, v_other),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'resumed_as', v_other), 'Work on that one.');
  end if;
  v_steps := array(select m.workflow_step_uuid from tasker.step_moves(v_steps, 'retry_step') m);
  update tasker.workflow_steps s set attempts = 0 where s.workflow_step_uuid = any (v_steps);
  v_moves := array(select m from tasker.step_moves(v_steps, 'retry_step', v_metadata) m);
  perform tasker.append_step_transitions(v_moves);
  perform tasker.release_dependents(v_moves);
  perform tasker.wait_again(v_moves);
  perform tasker.drive_tasks(array[p_task_uuid]);
  return tasker.end_request(p_request_id, tasker.task_state(p_task_uuid));
end
$$;
comment on function tasker.reset_task(uuid, text, text, text) is
  'Starts a failed task again (seed 004: Reset): its failed steps go back to work with all their attempts, finished ones stay finished.';
