create or replace function tasker.guard_no_checks(p_facts tasker.step_facts) returns boolean
language sql
immutable
return not (p_facts).has_checks;
comment on function tasker.guard_no_checks(tasker.step_facts) is 'Nothing has to be validated (seed 000: no post_execution rules).';
