create or replace function tasker.guard_any_step_failed(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_steps > 0 and not coalesce((p_facts).cleans_up, false);
comment on function tasker.guard_any_step_failed(tasker.task_facts) is 'A step failed for good (seed 001), and no step is left that runs however the others end.';
