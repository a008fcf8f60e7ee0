create or replace function tasker.guard_cooldown_over(p_facts tasker.breaker_facts) returns boolean
language sql
immutable
return (p_facts).cooled;
comment on function tasker.guard_cooldown_over(tasker.breaker_facts) is 'Seed 001 cooldown_seconds: the breaker was open long enough.';
