create or replace function tasker.reveal(p_entity_uuid uuid, p_part text, p_document jsonb) returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hidden record;
begin
  for v_hidden in
    select h.key, h.value
      from tasker.sensitive_values v cross join lateral jsonb_each(v.hidden) as h(key, value)
     where v.entity_uuid = p_entity_uuid and v.part = p_part
     order by cardinality(tasker.json_path(h.key))
  loop
    p_document := case when v_hidden.key = '' then v_hidden.value
                       else jsonb_set(p_document, tasker.json_path(v_hidden.key), v_hidden.value, false) end;
  end loop;
  return p_document;
end
$$;
comment on function tasker.reveal(uuid, text, jsonb) is 'The document as it was before redact, for the worker that claims its step.';
