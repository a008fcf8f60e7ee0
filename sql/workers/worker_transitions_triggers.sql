-- The log of workers is append-only.
create or replace trigger refuse_update
  before update on tasker.worker_transitions
  for each row
  when (not (old.most_recent and not new.most_recent)
        or (old.worker_transition_uuid, old.worker_uuid, old.lifecycle, old.to_state, old.from_state, old.event, old.metadata, old.sort_key, old.created_at, old.recorded_xid)
           is distinct from
           (new.worker_transition_uuid, new.worker_uuid, new.lifecycle, new.to_state, new.from_state, new.event, new.metadata, new.sort_key, new.created_at, new.recorded_xid))
  execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.worker_transitions is 'Rows do not change, but for losing most_recent.';
alter table tasker.worker_transitions enable always trigger refuse_update;

create or replace trigger refuse_delete
  before delete on tasker.worker_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_delete on tasker.worker_transitions is 'Rows are not removed.';
alter table tasker.worker_transitions enable always trigger refuse_delete;

create or replace trigger refuse_truncate
  before truncate on tasker.worker_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.worker_transitions is 'Rows are not removed.';
alter table tasker.worker_transitions enable always trigger refuse_truncate;
