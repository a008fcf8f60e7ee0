-- The log of workers: checked, append-only, published. Little traffic, so the shared check serves it.
create or replace trigger check_transitions
  after insert on tasker.worker_transitions
  referencing new table as appended
  for each statement execute function tasker.check_log_transitions('worker', 'workers', 'worker_uuid');
comment on trigger check_transitions on tasker.worker_transitions is 'The last wall: no illegal transition can be stored.';
alter table tasker.worker_transitions enable always trigger check_transitions;

create or replace trigger check_current
  after update on tasker.worker_transitions
  referencing new table as flipped
  for each statement execute function tasker.check_log_current('worker', 'workers', 'worker_uuid');
comment on trigger check_current on tasker.worker_transitions is 'Every entity keeps exactly one current row.';
alter table tasker.worker_transitions enable always trigger check_current;

create or replace trigger record_changes
  after insert on tasker.worker_transitions
  referencing new table as appended
  for each statement execute function tasker.record_log_changes('worker', 'workers', 'worker_uuid');
comment on trigger record_changes on tasker.worker_transitions is 'Publishes what was appended.';

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
