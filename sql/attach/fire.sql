create or replace function tasker.fire(
  p_table        regclass,
  p_key          text,
  p_event        text,
  p_metadata     jsonb default '{}',
  p_requested_by text default null
) returns text
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into tasker.attached_transitions (attached_table, entity_key, event, metadata)
  values (p_table::text, p_key, p_event,
          coalesce(p_metadata, '{}') || jsonb_strip_nulls(jsonb_build_object('requested_by', p_requested_by)))
  returning to_state
$$;
comment on function tasker.fire(regclass, text, text, jsonb, text) is
  'Moves a row of an attached table by an event and answers its new state. Who may change the row may move it. TK404: no such row; TK409: no such move from here; TK422: its guard does not hold.';
