create or replace function tasker.record_attachment(
  p_table     regclass,
  p_key       text,
  p_lifecycle text,
  p_namespace text,
  p_keys      text[]
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_attachment tasker.attached_lifecycles;
begin
  if not exists (select from pg_trigger t where t.tgrelid = p_table and t.tgfoid = 'tasker.start_attached()'::regprocedure) then
    perform tasker.raise_error('TK403', format('%s does not start lifecycles', p_table), jsonb_build_object('table', p_table),
                               'Call attach_lifecycle, which puts its triggers on the table.');
  end if;
  update tasker.attached_lifecycles a set detached_at = clock_timestamp(), detached_by = session_user
   where a.detached_at is null and not exists (select from pg_class c where c.oid = a.attached_table);  -- dropped since
  perform tasker.ensure_namespace(p_namespace);
  insert into tasker.attached_lifecycles (attached_table, table_name, key_column, key_type, lifecycle, namespace)
  select p_table, p_table::text, p_key, a.atttypid, p_lifecycle, p_namespace
    from pg_attribute a where a.attrelid = p_table and a.attname = p_key
  returning * into v_attachment;
  perform tasker.start_attached_keys(v_attachment, p_keys);
  return v_attachment.attachment_uuid;
end
$$;
comment on function tasker.record_attachment(regclass, text, text, text, text[]) is
  'The part of attach_lifecycle that needs the owner''s rights: notes the attachment and starts the logs of the rows that are there.';
