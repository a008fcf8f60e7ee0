create or replace function tasker.guard_steps_enqueued(p_facts tasker.task_facts) returns boolean
language sql
immutable
return not (p_facts).enqueue_failed;
comment on function tasker.guard_steps_enqueued(tasker.task_facts) is 'The ready steps are in the queue.';
