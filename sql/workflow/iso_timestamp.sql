create or replace function tasker.iso_timestamp(p_text text) returns timestamptz
language plpgsql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_text !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' then
    return null;
  end if;
  return p_text::timestamptz;
exception when data_exception then
  return null;
end
$$;
comment on function tasker.iso_timestamp(text) is 'Reads a time such as 2026-03-01T06:30:00Z, with its offset; null where it is none.';
