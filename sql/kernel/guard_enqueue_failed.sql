create or replace function tasker.guard_enqueue_failed(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).enqueue_failed;
comment on function tasker.guard_enqueue_failed(tasker.task_facts) is 'The queue did not take the ready steps.';
