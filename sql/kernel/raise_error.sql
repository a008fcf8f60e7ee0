create or replace function tasker.raise_error(
  p_code    text,
  p_message text,
  p_detail  jsonb default '{}',
  p_hint    text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using
    errcode = p_code,
    message = p_message,
    detail  = coalesce(p_detail, '{}')::text,
    hint    = coalesce(p_hint, (select e.description from tasker.error_catalogue e where e.code = p_code), '');
end
$$;
comment on function tasker.raise_error(text, text, jsonb, text) is
  'The only place that raises: an SQLSTATE of the catalogue, MESSAGE in the caller''s words, DETAIL one JSON object, HINT what would be right.';
