create or replace function tasker.schema_version() returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select i.value from tasker.schema_info i where i.key = 'schema_version'
$$;
comment on function tasker.schema_version() is 'The installed version of the schema.';
