create or replace function tasker.guard_task_retries_exhausted(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).retries_left <= 0;
comment on function tasker.guard_task_retries_exhausted(tasker.task_facts) is 'The task may not be retried again (seed 001: retry_count >= max_retries).';
