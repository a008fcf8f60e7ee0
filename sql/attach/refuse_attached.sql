create or replace function tasker.refuse_attached(
  p_table      text,
  p_key        text,
  p_lifecycle  text,
  p_from_state text,
  p_event      text,
  p_to_state   text
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.raise_error(
    'TK409',
    format('%s %s is %s: %s is not allowed', p_table, p_key, coalesce(p_from_state, 'new'),
           case when p_to_state is null then p_event else format('%s to %s', p_event, p_to_state) end),
    jsonb_build_object('kind', 'custom', 'table', p_table, 'key', p_key, 'lifecycle', p_lifecycle, 'from_state', p_from_state,
                       'event', p_event, 'to_state', p_to_state,
                       'allowed', (select coalesce(jsonb_agg(distinct r.event), '[]') from tasker.lifecycle_transitions r
                                    where r.lifecycle = p_lifecycle and r.from_state = p_from_state)),
    tasker.allowed_events_hint(p_lifecycle, p_from_state));
end
$$;
comment on function tasker.refuse_attached(text, text, text, text, text, text) is 'Raises TK409 for a row of an attached table and tells which events would be allowed.';
