create or replace function tasker.step_state(p_step_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.to_state from tasker.workflow_step_transitions t where t.workflow_step_uuid = p_step_uuid and t.most_recent
$$;
comment on function tasker.step_state(uuid) is 'The current state of a step: its most recent transition (seed 004, Current State Resolution).';
