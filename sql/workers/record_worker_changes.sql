create or replace function tasker.record_worker_changes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into tasker.changes (log, transition_uuids)
  select 'worker', array_agg(a.worker_transition_uuid order by a.sort_key) from appended a having count(*) > 0;
  perform pg_notify('tasker_worker_state', jsonb_build_object('kind', 'worker', 'uuid', a.worker_uuid, 'from_state', a.from_state,
                                                              'to_state', a.to_state, 'event', a.event, 'sort_key', a.sort_key)::text)
     from appended a;
  return null;
end
$$;
comment on function tasker.record_worker_changes() is 'Publishes transitions of workers: change feed and tasker_worker_state.';

create or replace trigger record_changes
  after insert on tasker.worker_transitions
  referencing new table as appended
  for each statement execute function tasker.record_worker_changes();
comment on trigger record_changes on tasker.worker_transitions is 'Publishes what was appended.';
