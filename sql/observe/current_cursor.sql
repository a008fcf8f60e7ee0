create or replace function tasker.current_cursor() returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select pg_snapshot_xmin(pg_current_snapshot())::text || ':0:0'
$$;
comment on function tasker.current_cursor() is 'The cursor from which changes_after reads what happens from now on.';
