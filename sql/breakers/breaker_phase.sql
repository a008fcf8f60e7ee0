create or replace function tasker.breaker_phase(p_circuit_breaker_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select s.phase
    from tasker.circuit_breaker_transitions t
    join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
   where t.circuit_breaker_uuid = p_circuit_breaker_uuid and t.most_recent
$$;
comment on function tasker.breaker_phase(uuid) is 'The canonical phase of a breaker''s current state.';
