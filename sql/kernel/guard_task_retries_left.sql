create or replace function tasker.guard_task_retries_left(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).retries_left > 0;
comment on function tasker.guard_task_retries_left(tasker.task_facts) is 'The task itself may be retried (seed 001: retry_count < max_retries).';
