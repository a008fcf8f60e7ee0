-- Evidence that is no transition is named in changes as well, with what is known of the session, and is sealed with the rest.
create or replace function tasker.record_evidence() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into tasker.changes (log, transition_uuids)
  select tg_argv[0], array_agg((to_jsonb(a) ->> tg_argv[1])::uuid) from appended a having count(*) > 0;
  return null;
end
$$;
comment on function tasker.record_evidence() is 'Names new rows in changes. Arguments: what they are called there, their key.';

create or replace trigger record_changes
  after insert on tasker.rejected_transitions
  referencing new table as appended
  for each statement execute function tasker.record_evidence('rejection', 'rejected_transition_uuid');
comment on trigger record_changes on tasker.rejected_transitions is 'Records which session was refused.';

create or replace trigger record_changes
  after insert on tasker.audit_events
  referencing new table as appended
  for each statement execute function tasker.record_evidence('event', 'audit_event_uuid');
comment on trigger record_changes on tasker.audit_events is 'Records which session made it.';

create or replace trigger record_changes
  after insert on tasker.login_binding_changes
  referencing new table as appended
  for each statement execute function tasker.record_evidence('binding', 'login_binding_change_uuid');
comment on trigger record_changes on tasker.login_binding_changes is 'Records which session bound a login.';
