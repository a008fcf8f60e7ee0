create or replace function tasker.task_state(p_task_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.to_state from tasker.task_transitions t where t.task_uuid = p_task_uuid and t.most_recent
$$;
comment on function tasker.task_state(uuid) is 'The current state of a task: its most recent transition (seed 004, Current State Resolution).';
