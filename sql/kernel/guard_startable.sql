create or replace function tasker.guard_startable(p_facts tasker.step_facts) returns boolean
language sql
immutable
return (p_facts).unmet_dependencies <= 0 and not (p_facts).is_claimed;
comment on function tasker.guard_startable(tasker.step_facts) is 'Both guards of a start without a queue: dependencies satisfied, nobody holds it.';
