create or replace function tasker.task_guard_holds(p_guard text, p_facts tasker.task_facts) returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  return case p_guard
    when 'always'              then true
    when 'no_steps'            then tasker.guard_no_steps(p_facts)
    when 'has_ready_steps'     then tasker.guard_has_ready_steps(p_facts)
    when 'no_ready_steps'      then tasker.guard_no_ready_steps(p_facts)
    when 'enqueue_failed'      then tasker.guard_enqueue_failed(p_facts)
    when 'steps_enqueued'      then tasker.guard_steps_enqueued(p_facts)
    when 'batch_finished'      then tasker.guard_batch_finished(p_facts)
    when 'has_new_results'     then tasker.guard_has_new_results(p_facts)
    when 'only_retries_left'   then tasker.guard_only_retries_left(p_facts)
    when 'retries_over'        then tasker.guard_retries_over(p_facts)
    when 'dependencies_ready'  then tasker.guard_dependencies_ready(p_facts)
    when 'all_steps_satisfied' then tasker.guard_all_steps_satisfied(p_facts)
    when 'validated'           then tasker.guard_validated(p_facts)
    when 'blocked_by_failures' then tasker.guard_blocked_by_failures(p_facts)
    when 'not_blocked'         then tasker.guard_not_blocked(p_facts)
    when 'critical_step_failed' then tasker.guard_critical_step_failed(p_facts)
    when 'any_step_failed' then tasker.guard_any_step_failed(p_facts)
    when 'task_retries_left' then tasker.guard_task_retries_left(p_facts)
    when 'task_retries_exhausted' then tasker.guard_task_retries_exhausted(p_facts)
    when 'workers_allocated' then tasker.guard_workers_allocated(p_facts)
    else false
  end;
end
$$;
comment on function tasker.task_guard_holds(text, tasker.task_facts) is
  'Whether the named guard holds for these facts. A plain CASE, so that it costs a branch and no dynamic SQL; not inlined, since it is asked once or twice a query and the guards would be set up each time.';
