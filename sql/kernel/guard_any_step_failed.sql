create or replace function tasker.guard_any_step_failed(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_steps > 0;
comment on function tasker.guard_any_step_failed(tasker.task_facts) is 'A step failed for good (seed 001).';
