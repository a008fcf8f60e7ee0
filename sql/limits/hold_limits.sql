create or replace function tasker.hold_limits(p_change boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_change then
    perform pg_advisory_xact_lock(hashtext('tasker.limits'), 0);
  else
    perform pg_advisory_xact_lock_shared(hashtext('tasker.limits'), 0);
  end if;
end
$$;
comment on function tasker.hold_limits(boolean) is
  'Slots are taken and given back by any number at once, but not while a limit is being changed. The lock stands in no row, so it is written nowhere.';
