create or replace function tasker.look_at_limits(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limit record;
begin
  for v_limit in
    select t.limit_uuid, min(t.sort_key) as round from unnest(p_timers) t where t.kind = 'limit' group by 1 order by 1
  loop
    perform tasker.hold_limits();
    perform tasker.hand_on_slots(array[v_limit.limit_uuid], tasker.clock(), v_limit.round + 1);
  end loop;
end
$$;
comment on function tasker.look_at_limits(tasker.timers[]) is 'Gives what has become free by itself to those who wait.';
