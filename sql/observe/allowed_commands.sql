create or replace function tasker.allowed_commands(
  p_kind   text,
  p_target text,
  out command text,
  out says    text
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_uuid      uuid;
  v_lifecycle text;
  v_state     text;
begin
  case p_kind
    when 'task' then
      v_uuid := p_target::uuid;
      select c.lifecycle, c.to_state into v_lifecycle, v_state
        from tasker.task_transitions c where c.task_uuid = v_uuid and c.most_recent and tasker.may_see(c.namespace);
    when 'step' then
      -- what would go back to work in a task that has ended is refused
      v_uuid := p_target::uuid;
      select c.lifecycle, c.to_state into v_lifecycle, v_state
        from tasker.workflow_step_transitions c
        join tasker.task_transitions t on t.task_uuid = c.task_uuid and t.most_recent
        join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state and not s.is_terminal
       where c.workflow_step_uuid = v_uuid and c.most_recent and tasker.may_see(c.namespace);
    when 'worker' then
      v_uuid := p_target::uuid;
      select c.lifecycle, c.to_state into v_lifecycle, v_state
        from tasker.worker_transitions c where c.worker_uuid = v_uuid and c.most_recent and tasker.may_see_worker(v_uuid);
    when 'circuit_breaker' then
      select c.lifecycle, c.to_state into v_lifecycle, v_state
        from tasker.circuit_breakers b
        join tasker.circuit_breaker_transitions c on c.circuit_breaker_uuid = b.circuit_breaker_uuid and c.most_recent
       where b.tool = p_target and tasker.bound_namespaces() is null;
    else
      perform tasker.raise_error('TK400', format('%L is not a kind of entity', p_kind), jsonb_build_object('kind', p_kind),
                                 'Ask for task, step, worker or circuit_breaker.');
  end case;

  return query
  select k.command, k.says
    from (values
      ('task', 'cancel_task', '{cancel_task}', 'Cancel the task, its open steps and its children', 4),
      ('task', 'resolve_task', '{resolve_task}', 'Declare the task settled by hand', 2),
      ('task', 'give_up_task', '{give_up_task}', 'Let the task end in failure', 3),
      ('task', 'reset_task', '{reset_task}', 'Let the task begin anew', 1),
      ('task', 'pass_validation', '{fail_validation}', 'Accept the task as a whole', 6),
      ('task', 'fail_validation', '{fail_validation}', 'Reject the task as a whole', 7),
      ('task', 'resume_task', null, 'Go on in a new task with what is unfinished', 5),
      ('step', 'retry_step', '{retry_step,retry_due}', 'Try again now', 1),
      ('step', 'reset_step', '{retry_step,retry_due}', 'Begin anew with all attempts', 2),
      ('step', 'resolve_step', '{resolve_step}', 'Declare the step settled by hand', 3),
      ('step', 'skip_step', '{skip_step}', 'Leave the step out', 4),
      ('step', 'cancel_step', '{cancel_step}', 'Cancel the step', 5),
      ('worker', 'start_worker', '{worker_allocate}', 'Start the worker', 1),
      ('worker', 'pause_worker', '{worker_pause}', 'Suspend the worker: it claims nothing', 2),
      ('worker', 'resume_worker', '{worker_resume}', 'Let the worker go on', 3),
      ('worker', 'drain_worker', '{worker_shutdown}', 'Let its process finish what it holds and stop', 4),
      ('worker', 'terminate_worker', '{worker_terminate}', 'Stop the worker by force', 5),
      ('circuit_breaker', 'reset_breaker', '{breaker_reset}', 'Close the breaker; what it held back goes on', 1)
    ) as k(kind, command, operations, says, ordinal)
   where k.kind = p_kind
     and (exists (select from tasker.lifecycle_transitions r
                   where r.lifecycle = v_lifecycle and r.from_state = v_state and r.operation = any (k.operations::text[]))
          or k.operations is null
             and exists (select from tasker.lifecycle_states s
                          where s.lifecycle = v_lifecycle and s.state = v_state and s.is_terminal and not s.satisfies_dependencies)
             and not exists (select from tasker.tasks n where n.resumes_task_uuid = v_uuid))
     and not (k.command in ('reset_task', 'resume_task') and exists (select from tasker.tasks n where n.compensates_task_uuid = v_uuid))
   order by k.ordinal;
end
$$;
comment on function tasker.allowed_commands(text, text) is
  'The manual actions of attempt_command that the rules know from the current state of a task, step, worker or circuit breaker (named by its tool), in words. What a guard says of them is found out by whoever tries.';
