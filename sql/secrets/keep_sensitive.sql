create or replace function tasker.keep_sensitive(
  p_entity_uuid uuid,
  p_part        text,
  p_task_uuid   uuid,
  p_namespace   text,
  p_document    jsonb,
  p_pointers    text[]
) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into tasker.sensitive_values (entity_uuid, part, task_uuid, namespace, hidden)
  values (p_entity_uuid, p_part, p_task_uuid, p_namespace, tasker.sensitive_parts(p_document, p_pointers))
      on conflict (entity_uuid, part) do update set hidden = excluded.hidden;
  return tasker.redact(p_document, p_pointers);
end
$$;
comment on function tasker.keep_sensitive(uuid, text, uuid, text, jsonb, text[]) is
  'Puts the sensitive values of a document where nobody reads them, and returns the document without them.';
