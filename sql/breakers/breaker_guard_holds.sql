create or replace function tasker.breaker_guard_holds(p_guard text, p_facts tasker.breaker_facts) returns boolean
language sql
immutable
return case p_guard
  when 'always'                     then true
  when 'failure_threshold_exceeded' then tasker.guard_failure_threshold_exceeded(p_facts)
  when 'success_threshold_reached'  then tasker.guard_success_threshold_reached(p_facts)
  when 'cooldown_over'              then tasker.guard_cooldown_over(p_facts)
  else false
end;
comment on function tasker.breaker_guard_holds(text, tasker.breaker_facts) is 'Whether the named guard holds for these facts.';
