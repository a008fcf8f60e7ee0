create or replace function tasker.redact(p_document jsonb, p_pointers text[]) returns jsonb
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_pointer text;
begin
  if '' = any (p_pointers) then
    return '"[sensitive]"'::jsonb;
  end if;
  foreach v_pointer in array coalesce(p_pointers, '{}') loop
    if p_document #> tasker.json_path(v_pointer) is not null then
      p_document := jsonb_set(p_document, tasker.json_path(v_pointer), '"[sensitive]"');
    end if;
  end loop;
  return p_document;
end
$$;
comment on function tasker.redact(jsonb, text[]) is 'The document with a mark in place of what these keys or JSON Pointers name.';
