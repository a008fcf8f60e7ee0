create or replace function tasker.record_attached_changes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into tasker.changes (log, transition_uuids)
  select 'attached', array_agg(a.attached_transition_uuid order by a.attachment_uuid, a.entity_key, a.sort_key)
    from appended a
  having count(*) > 0;

  if exists (select from tasker.task_namespaces n where n.notifications in ('tasks', 'all')) then
    -- keys and names are long here: 6 events stay below the 8,000 bytes that NOTIFY takes
    perform pg_notify('tasker_attached_state', chunk.payload)
       from (select jsonb_agg(e.event order by e.position)::text as payload
               from (select jsonb_build_object('table', a.attached_table, 'key', a.entity_key, 'namespace', a.namespace,
                                               'from_state', a.from_state, 'to_state', a.to_state, 'event', a.event,
                                               'sort_key', a.sort_key) as event,
                            row_number() over (order by a.attachment_uuid, a.entity_key, a.sort_key) as position
                       from appended a
                       join tasker.task_namespaces n on n.namespace = a.namespace and n.notifications in ('tasks', 'all')) e
              group by (e.position - 1) / 6) chunk;
  end if;
  return null;
end
$$;
comment on function tasker.record_attached_changes() is
  'Publishes transitions of rows of attached tables: the change feed, and channel tasker_attached_state where the namespace wants it.';

create or replace trigger record_changes
  after insert on tasker.attached_transitions
  referencing new table as appended
  for each statement execute function tasker.record_attached_changes();
comment on trigger record_changes on tasker.attached_transitions is 'Publishes what was appended.';
