create or replace function tasker.guard_can_be_retried(p_facts tasker.step_facts) returns boolean
language sql
immutable
return not (p_facts).is_claimed;
comment on function tasker.guard_can_be_retried(tasker.step_facts) is 'Seed 004 StepCanBeRetriedGuard: the failed step is free, so an operator may send it back to work.';
