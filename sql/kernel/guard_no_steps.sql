create or replace function tasker.guard_no_steps(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).total_steps = 0;
comment on function tasker.guard_no_steps(tasker.task_facts) is 'The task has no steps.';
