create or replace function tasker.guard_all_steps_satisfied(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).satisfied_steps = (p_facts).total_steps;
comment on function tasker.guard_all_steps_satisfied(tasker.task_facts) is 'Every step is satisfied.';
