create or replace function tasker.step_guard_holds(p_guard text, p_facts tasker.step_facts) returns boolean
language sql
immutable
return case p_guard
  when 'always'                 then true
  when 'dependencies_satisfied' then tasker.guard_dependencies_satisfied(p_facts)
  when 'not_in_progress'        then tasker.guard_not_in_progress(p_facts)
  when 'startable'              then tasker.guard_startable(p_facts)
  when 'work_succeeded'         then tasker.guard_work_succeeded(p_facts)
  when 'work_failed'            then tasker.guard_work_failed(p_facts)
  when 'retries_left'           then tasker.guard_retries_left(p_facts)
  when 'can_be_retried'         then tasker.guard_can_be_retried(p_facts)
  when 'retries_exhausted' then tasker.guard_retries_exhausted(p_facts)
  else false
end;
comment on function tasker.step_guard_holds(text, tasker.step_facts) is
  'Whether the named guard holds for these facts. A plain CASE, so that it costs a branch and no dynamic SQL.';
