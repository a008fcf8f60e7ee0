create or replace function tasker.start_attached_keys(p_attachment tasker.attached_lifecycles, p_keys text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key text;
begin
  select k.key into v_key from unnest(p_keys) as k(key)
   where octet_length(k.key) not between 1 and 200 or k.key ~ '[[:cntrl:]]' limit 1;
  if found then
    perform tasker.raise_error('TK400', format('%L can''t be the key of a row with a lifecycle', v_key),
                               jsonb_build_object('table', p_attachment.table_name, 'key', v_key),
                               'A key takes 1 to 200 bytes and holds no control characters.');
  end if;
  select k.key into v_key
    from unnest(p_keys) as k(key)
   cross join lateral (select from tasker.attached_transitions t
                        where t.attachment_uuid = p_attachment.attachment_uuid and t.entity_key = k.key and t.sort_key = 1 limit 1) known
   limit 1;
  if found then
    perform tasker.raise_error('TK409', format('%s %s has a log already: a row with this key was deleted', p_attachment.table_name, v_key),
                               jsonb_build_object('table', p_attachment.table_name, 'key', v_key),
                               'Logs stay when rows are deleted, so a key is used once. Insert the row under a new key.');
  end if;
  insert into tasker.attached_transitions
    (attachment_uuid, attached_table, entity_key, namespace, lifecycle, event, to_state, sort_key, most_recent)
  select p_attachment.attachment_uuid, p_attachment.attached_table::text, k.key, p_attachment.namespace, l.lifecycle, 'create',
         l.initial_state, 1, true
    from unnest(p_keys) as k(key)
    join tasker.lifecycles l on l.lifecycle = p_attachment.lifecycle;
end
$$;
comment on function tasker.start_attached_keys(tasker.attached_lifecycles, text[]) is
  'Starts the logs of rows in the initial state of their lifecycle. A key that was used before is refused (TK409).';
