create or replace function tasker.refuse_lease(p_lease interval) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- a moment that the server can't tell any more would stop whoever looks for what is due next
  if p_lease is null or p_lease <= interval '0' or p_lease > interval '366 days' then
    perform tasker.raise_error('TK400', 'a lease must be longer than nothing and not longer than 366 days', jsonb_build_object('lease', p_lease));
  end if;
end
$$;
comment on function tasker.refuse_lease(interval) is 'Raises TK400 for a lease that nobody could mean.';
