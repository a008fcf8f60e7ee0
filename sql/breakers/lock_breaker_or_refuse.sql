create or replace function tasker.lock_breaker_or_refuse(p_tool text) returns tasker.circuit_breakers
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_breaker tasker.circuit_breakers;
begin
  select * into v_breaker from tasker.circuit_breakers b where b.tool = p_tool for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no circuit breaker for %s', coalesce(p_tool, 'null')),
                               jsonb_build_object('tool', p_tool), 'Make it with configure_breaker.');
  end if;
  return v_breaker;
end
$$;
comment on function tasker.lock_breaker_or_refuse(text) is 'Locks the breaker of a tool, or raises TK404. Breakers are locked last.';
