create or replace function tasker.allowed_events_hint(p_lifecycle text, p_state text) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case when p_state is null then 'A new entity starts in its initial state with the event ''create''.'
              else coalesce('Allowed from ' || p_state || ': '
                            || string_agg(distinct r.event || ' (to ' || r.to_state || ')', ', ') || '.',
                            p_state || ' is terminal: no event is allowed. Create a new one instead.') end
    from tasker.lifecycle_transitions r
   where r.lifecycle = p_lifecycle
     and r.from_state = p_state
$$;
comment on function tasker.allowed_events_hint(text, text) is 'The HINT of a refused transition: what would be allowed from this state.';
