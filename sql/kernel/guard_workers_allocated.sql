create or replace function tasker.guard_workers_allocated(p_facts tasker.task_facts) returns boolean
language sql
immutable
return coalesce((p_facts).workers_allocated, true);
comment on function tasker.guard_workers_allocated(tasker.task_facts) is 'The job was given the workers it asked for (seed 003: resources available).';
