create or replace function tasker.cool_breakers(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_timer record;
begin
  for v_timer in
    select distinct on (t.tool) t.tool, t.sort_key from unnest(p_timers) t
     where t.kind = 'breaker_cooldown' order by t.tool, t.sort_key desc
  loop
    perform from tasker.circuit_breakers b where b.tool = v_timer.tool for no key update skip locked;
    if found then
      perform tasker.move_breaker(v_timer.tool, 'breaker_cool');  -- the guard looks at the clock: an old timer does nothing
    else
      -- tick holds other locks and waits for none: whoever has it may cool it, or the next tick does
      insert into tasker.timers (due_at, kind, tool, sort_key) values (tasker.clock(), 'breaker_cooldown', v_timer.tool, v_timer.sort_key);
    end if;
  end loop;
end
$$;
comment on function tasker.cool_breakers(tasker.timers[]) is 'Breakers whose cooldown is over become half open.';
