create or replace function tasker.event_input(p_step_uuid uuid) returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select jsonb_build_object(w.event, case when w.timed_out then 'null' else e.payload end)
    from tasker.event_waits w
    left join tasker.events e on e.namespace = w.namespace and e.event = w.event and e.key = w.key
   where w.workflow_step_uuid = p_step_uuid
$$;
comment on function tasker.event_input(uuid) is
  'The payload of the event for which a step waited, under the event''s name; null when it did not come in time.';
