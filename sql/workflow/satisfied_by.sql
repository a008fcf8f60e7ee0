create or replace function tasker.satisfied_by(p_moves tasker.step_move[]) returns uuid[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(m.workflow_step_uuid), '{}')
    from unnest(p_moves) m
    join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state
    join tasker.lifecycle_states o on o.lifecycle = m.lifecycle and o.state = m.from_state
   where n.satisfies_dependencies and not o.satisfies_dependencies
$$;
comment on function tasker.satisfied_by(tasker.step_move[]) is 'The steps that satisfy their dependents since these moves.';
