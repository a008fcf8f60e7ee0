create or replace function tasker.may_be_met(p_step_uuid uuid) returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from tasker.workflow_step_edges e
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = e.from_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
     where e.to_step_uuid = p_step_uuid and x.counts_as <> 'failed' and x.phase <> 'circuit_open')
$$;
comment on function tasker.may_be_met(uuid) is 'Whether a dependency of a step ended well or still may.';
