create or replace function tasker.guard_only_retries_left(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_critical_steps = 0 and (p_facts).waiting_retry_steps > 0 and (p_facts).in_flight_steps = 0 and (p_facts).ready_steps = 0;
comment on function tasker.guard_only_retries_left(tasker.task_facts) is 'Steps wait for a retry, and nothing else is under way or ready.';
