create or replace function tasker.guard_holds_nothing(p_facts tasker.worker_facts) returns boolean
language sql
immutable
return (p_facts).held_steps = 0;
comment on function tasker.guard_holds_nothing(tasker.worker_facts) is 'The worker holds no step (seed 000: after_task_complete).';
