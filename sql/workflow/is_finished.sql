create or replace function tasker.is_finished(p_step_uuid uuid) returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select x.counts_as in ('satisfied', 'failed')
    from (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c where c.workflow_step_uuid = p_step_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
$$;
comment on function tasker.is_finished(uuid) is 'Whether a step has ended, however.';
