create or replace function tasker.guard_success_threshold_reached(p_facts tasker.breaker_facts) returns boolean
language sql
immutable
return (p_facts).successes >= (p_facts).success_threshold;
comment on function tasker.guard_success_threshold_reached(tasker.breaker_facts) is 'Seed 001 success_threshold: enough trials succeeded.';
