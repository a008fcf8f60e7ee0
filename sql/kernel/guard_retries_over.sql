create or replace function tasker.guard_retries_over(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).ready_steps > 0 or (p_facts).waiting_retry_steps = 0;
comment on function tasker.guard_retries_over(tasker.task_facts) is 'A step is ready, or no retry is waited for any more.';
