-- The log is append-only, as those of tasks and steps.
create or replace trigger refuse_update
  before update on tasker.attached_transitions
  for each row
  when (not (old.most_recent and not new.most_recent)
        or (old.attached_transition_uuid, old.attachment_uuid, old.attached_table, old.entity_key, old.namespace, old.lifecycle, old.to_state, old.from_state, old.event, old.metadata, old.sort_key, old.login, old.created_at, old.recorded_xid)
           is distinct from
           (new.attached_transition_uuid, new.attachment_uuid, new.attached_table, new.entity_key, new.namespace, new.lifecycle, new.to_state, new.from_state, new.event, new.metadata, new.sort_key, new.login, new.created_at, new.recorded_xid))
  execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.attached_transitions is 'Rows do not change, but for losing most_recent.';
alter table tasker.attached_transitions enable always trigger refuse_update;

create or replace trigger refuse_delete
  before delete on tasker.attached_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_delete on tasker.attached_transitions is 'Rows are not removed.';
alter table tasker.attached_transitions enable always trigger refuse_delete;

create or replace trigger refuse_truncate
  before truncate on tasker.attached_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.attached_transitions is 'Rows are not removed.';
alter table tasker.attached_transitions enable always trigger refuse_truncate;
