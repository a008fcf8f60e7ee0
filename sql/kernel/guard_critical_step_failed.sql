create or replace function tasker.guard_critical_step_failed(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_critical_steps > 0;
comment on function tasker.guard_critical_step_failed(tasker.task_facts) is 'A critical step failed (seed 000).';
