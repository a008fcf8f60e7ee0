create or replace function tasker.sensitive_parts(p_document jsonb, p_pointers text[]) returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_object_agg(p.pointer, p_document #> tasker.json_path(p.pointer)), '{}')
    from (select distinct u.pointer from unnest(p_pointers) as u(pointer)) p
   where p_document #> tasker.json_path(p.pointer) is not null
$$;
comment on function tasker.sensitive_parts(jsonb, text[]) is 'What redact takes out of the document: value by key or JSON Pointer.';
