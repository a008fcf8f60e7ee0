create or replace function tasker.guard_blocked_by_failures(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).failed_critical_steps > 0
       or ((p_facts).failed_steps > 0 and (p_facts).ready_steps = 0 and (p_facts).in_flight_steps = 0
           and (p_facts).waiting_retry_steps = 0);
comment on function tasker.guard_blocked_by_failures(tasker.task_facts) is
  'A critical step failed, or steps failed and nothing that is left can start.';
