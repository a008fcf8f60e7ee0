create or replace function tasker.guard_validated(p_facts tasker.task_facts) returns boolean
language sql
immutable
return tasker.guard_all_steps_satisfied(p_facts) and not (p_facts).awaits_validation;
comment on function tasker.guard_validated(tasker.task_facts) is
  'Every step is satisfied, and no verdict on the whole is waited for (seed 000: final validation successful).';
