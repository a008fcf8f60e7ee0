create or replace function tasker.guard_retries_left(p_facts tasker.step_facts) returns boolean
language sql
immutable
return (p_facts).retryable and (p_facts).attempts < (p_facts).max_attempts and (p_facts).error_category is distinct from 'permanent';
comment on function tasker.guard_retries_left(tasker.step_facts) is 'The failure is not permanent, the step is retryable and has attempts left.';
