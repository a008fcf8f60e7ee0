create or replace function tasker.text_array(p_list jsonb) returns text[]
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select nullif(array(select jsonb_array_elements_text(case when jsonb_typeof(p_list) = 'array' then p_list else '[]' end)), '{}')
$$;
comment on function tasker.text_array(jsonb) is 'A JSON array of strings as text[]; null when there is none or it is empty.';
