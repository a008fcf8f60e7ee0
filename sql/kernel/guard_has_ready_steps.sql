create or replace function tasker.guard_has_ready_steps(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).ready_steps > 0 and (p_facts).failed_critical_steps = 0;
comment on function tasker.guard_has_ready_steps(tasker.task_facts) is 'At least one step can be handed out now, and no critical one stands failed.';
