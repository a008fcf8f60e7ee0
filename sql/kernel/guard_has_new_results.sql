create or replace function tasker.guard_has_new_results(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).new_results > 0;
comment on function tasker.guard_has_new_results(tasker.task_facts) is 'Results were settled that the task has not evaluated yet.';
