create or replace function tasker.refuse_transition(
  p_kind        text,
  p_entity_uuid uuid,
  p_lifecycle   text,
  p_from_state  text,
  p_event       text,
  p_to_state    text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.raise_error(
    'TK409',
    format('%s %s is %s: %s is not allowed', p_kind, p_entity_uuid, coalesce(p_from_state, 'new'),
           case when p_to_state is null then p_event else format('%s to %s', p_event, p_to_state) end),
    jsonb_build_object(
      'kind', p_kind, 'uuid', p_entity_uuid, 'lifecycle', p_lifecycle, 'from_state', p_from_state, 'event', p_event,
      -- where the event or operation leads, if that is one place
      'to_state', coalesce(p_to_state, (select min(r.to_state)
                                          from tasker.lifecycle_transitions r
                                         where r.lifecycle = p_lifecycle and (r.event = p_event or r.operation = p_event)
                                        having count(distinct r.to_state) = 1)),
      'allowed', (select coalesce(jsonb_agg(distinct r.event), '[]')
                    from tasker.lifecycle_transitions r
                   where r.lifecycle = p_lifecycle and r.from_state = p_from_state)),
    tasker.allowed_events_hint(p_lifecycle, p_from_state));
end
$$;
comment on function tasker.refuse_transition(text, uuid, text, text, text, text) is
  'Raises TK409 and tells which events would be allowed.';
