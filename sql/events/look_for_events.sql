create or replace function tasker.look_for_events(p_namespace text, p_events jsonb) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select pgmq.send('orchestration_step_results', jsonb_build_object('namespace', p_namespace, 'events', p_events))
$$;
comment on function tasker.look_for_events(text, jsonb) is
  'Asks orchestration to look, once this transaction has committed, which steps wait for these events: [[event, key]]. Whoever tells an event asks, and whoever begins to wait for one: when the later of the two has committed, its question finds both.';
