create or replace function tasker.guard_batch_finished(p_facts tasker.task_facts) returns boolean
language sql
immutable
return (p_facts).in_flight_steps = 0;
comment on function tasker.guard_batch_finished(tasker.task_facts) is 'No step is under way.';
