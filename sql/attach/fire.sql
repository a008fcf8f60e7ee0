create or replace function tasker.fire(
  p_table        regclass,
  p_key          text,
  p_event        text,
  p_metadata     jsonb default '{}',
  p_requested_by text default null,
  p_request_id   text default null
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  insert into tasker.attached_transitions (attached_table, entity_key, event, metadata)
  values (p_table::text, p_key, p_event,
          coalesce(p_metadata, '{}') || jsonb_strip_nulls(jsonb_build_object('requested_by', p_requested_by, 'request_id', p_request_id)))
  returning to_state into v_state;
  if not found then  -- this request moved it before: its answer stands in the log
    select t.to_state into v_state
      from tasker.attached_transitions t
      join tasker.attached_lifecycles a on a.attachment_uuid = t.attachment_uuid and a.detached_at is null
     where a.attached_table = p_table and t.entity_key = p_key and t.metadata ->> 'request_id' = p_request_id;
  end if;
  return v_state;
end
$$;
comment on function tasker.fire(regclass, text, text, jsonb, text, text) is
  'Moves a row of an attached table by an event and answers its new state. Who may change the row may move it. The same request id again answers the state that it led to then. TK404: no such row; TK409: no such move from here; TK422: its guard does not hold; TK423: the id was used for another move of this row.';
