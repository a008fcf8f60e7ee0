create or replace function tasker.guard_retries_exhausted(p_facts tasker.step_facts) returns boolean
language sql
immutable
return not (p_facts).retryable or (p_facts).attempts >= (p_facts).max_attempts or (p_facts).error_category is not distinct from 'permanent';
comment on function tasker.guard_retries_exhausted(tasker.step_facts) is 'The failure is permanent, the step is not retryable, or no attempts are left.';
