create or replace function tasker.guard_dependencies_ready(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).ready_steps > 0 or (p_facts).satisfied_steps = (p_facts).total_steps or (p_facts).failed_critical_steps > 0
       or ((p_facts).failed_steps > 0 and (p_facts).in_flight_steps = 0 and (p_facts).waiting_retry_steps = 0);
comment on function tasker.guard_dependencies_ready(tasker.task_facts) is 'A step is ready, a critical one failed, or everything that can run has run.';
