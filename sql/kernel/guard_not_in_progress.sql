create or replace function tasker.guard_not_in_progress(p_facts tasker.step_facts) returns boolean
language sql
immutable
return not (p_facts).is_claimed;
comment on function tasker.guard_not_in_progress(tasker.step_facts) is 'Seed 004 StepNotInProgressGuard: no worker holds the step.';
