create or replace function tasker.condition_path(p_text text) returns jsonpath
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_path jsonpath;
begin
  -- strict: lists are gone through only where the path says so
  v_path := (case when p_text ~* '^\s*(strict|lax)\M' then p_text else 'strict ' || p_text end)::jsonpath;
  if v_path::text like 'strict %'
     -- one list in another, or two compared with each other, would take the square of their lengths
     and tasker.list_walks(v_path) <= 1 then
    return v_path;
  end if;
  return null;
exception when syntax_error or data_exception or feature_not_supported then
  return null;
end
$$;
comment on function tasker.condition_path(text) is
  'The condition of a step as an SQL/JSON path in strict mode; null for what can''t be read, is lax, or goes through more than one list.';
