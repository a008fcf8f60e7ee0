create or replace function tasker.breaker_state(p_tool text) returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.to_state
    from tasker.circuit_breakers b
    join tasker.circuit_breaker_transitions t on t.circuit_breaker_uuid = b.circuit_breaker_uuid and t.most_recent
   where b.tool = p_tool and tasker.bound_namespaces() is null
$$;
comment on function tasker.breaker_state(text) is 'The current state of the circuit breaker of a tool; null when it has none.';
