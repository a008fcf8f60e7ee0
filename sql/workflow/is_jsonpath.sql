create or replace function tasker.is_jsonpath(p_text text) returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform p_text::jsonpath;
  return true;
exception when syntax_error or data_exception or feature_not_supported then
  return false;
end
$$;
comment on function tasker.is_jsonpath(text) is 'Whether this text can be read as an SQL/JSON path.';
