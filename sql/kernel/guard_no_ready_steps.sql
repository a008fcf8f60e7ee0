create or replace function tasker.guard_no_ready_steps(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).ready_steps = 0 or (p_facts).failed_critical_steps > 0;
comment on function tasker.guard_no_ready_steps(tasker.task_facts) is 'No step can be handed out now: none is ready, or a critical one stands failed.';
