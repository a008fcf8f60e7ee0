create or replace function tasker.guard_failure_threshold_exceeded(p_facts tasker.breaker_facts) returns boolean
language sql
immutable
return (p_facts).failures >= (p_facts).failure_threshold or coalesce((p_facts).error_repeats > (p_facts).max_error_repeats, false);
comment on function tasker.guard_failure_threshold_exceeded(tasker.breaker_facts) is 'Seeds 001 and 002: failures in a row reach the threshold, or the same error is repeated more often than allowed.';
