create or replace function tasker.breaker_allows(p_tool text) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_permit record;
begin
  select * into v_permit from tasker.breaker_permit(p_tool) p;
  if not v_permit.allowed then
    perform tasker.raise_error('TK503', format('the circuit of %s is %s, retry at %s', p_tool, v_permit.state, v_permit.retry_at),
                               jsonb_build_object('tool', p_tool, 'state', v_permit.state, 'retry_at', v_permit.retry_at),
                               format('Wait, or reset it: select tasker.reset_breaker(%L, p_reason => ''...'', p_requested_by => ''...'')', p_tool));
  end if;
  return true;
end
$$;
comment on function tasker.breaker_allows(text) is 'breaker_permit for callers who want an error: true, or TK503 with the time to try again.';
