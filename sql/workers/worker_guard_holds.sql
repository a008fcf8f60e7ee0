create or replace function tasker.worker_guard_holds(p_guard text, p_facts tasker.worker_facts) returns boolean
language sql
immutable
return case p_guard
  when 'always'        then true
  when 'holds_nothing' then tasker.guard_holds_nothing(p_facts)
  else false
end;
comment on function tasker.worker_guard_holds(text, tasker.worker_facts) is 'Whether the named guard holds for these facts.';
