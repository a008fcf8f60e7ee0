create or replace function tasker.cool_breakers(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tool text;
begin
  for v_tool in select distinct t.tool from unnest(p_timers) t where t.kind = 'breaker_cooldown' order by 1 loop
    perform tasker.lock_breaker_or_refuse(v_tool);
    perform tasker.move_breaker(v_tool, 'breaker_cool');  -- the guard looks at the clock: an old timer does nothing
  end loop;
end
$$;
comment on function tasker.cool_breakers(tasker.timers[]) is 'Breakers whose cooldown is over become half open.';
