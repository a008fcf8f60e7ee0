create or replace function tasker.guard_not_blocked(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_critical_steps = 0
       and ((p_facts).failed_steps = 0 or (p_facts).ready_steps > 0 or (p_facts).in_flight_steps > 0
            or (p_facts).waiting_retry_steps > 0);
comment on function tasker.guard_not_blocked(tasker.task_facts) is 'No critical step stands failed, and something can move again or every step is satisfied.';
