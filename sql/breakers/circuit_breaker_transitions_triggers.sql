-- The log of circuit breakers: checked, append-only, published. Little traffic, so the shared check serves it.
create or replace trigger check_transitions
  after insert on tasker.circuit_breaker_transitions
  referencing new table as appended
  for each statement execute function tasker.check_log_transitions('circuit_breaker', 'circuit_breakers', 'circuit_breaker_uuid');
comment on trigger check_transitions on tasker.circuit_breaker_transitions is 'The last wall: no illegal transition can be stored.';
alter table tasker.circuit_breaker_transitions enable always trigger check_transitions;

create or replace trigger check_current
  after update on tasker.circuit_breaker_transitions
  referencing new table as flipped
  for each statement execute function tasker.check_log_current('circuit_breaker', 'circuit_breakers', 'circuit_breaker_uuid');
comment on trigger check_current on tasker.circuit_breaker_transitions is 'Every entity keeps exactly one current row.';
alter table tasker.circuit_breaker_transitions enable always trigger check_current;

create or replace trigger record_changes
  after insert on tasker.circuit_breaker_transitions
  referencing new table as appended
  for each statement execute function tasker.record_log_changes('circuit_breaker', 'circuit_breakers', 'circuit_breaker_uuid');
comment on trigger record_changes on tasker.circuit_breaker_transitions is 'Publishes what was appended.';

create or replace trigger refuse_update
  before update on tasker.circuit_breaker_transitions
  for each row
  when (not (old.most_recent and not new.most_recent)
        or (old.circuit_breaker_transition_uuid, old.circuit_breaker_uuid, old.lifecycle, old.to_state, old.from_state, old.event, old.metadata, old.sort_key, old.created_at, old.recorded_xid)
           is distinct from
           (new.circuit_breaker_transition_uuid, new.circuit_breaker_uuid, new.lifecycle, new.to_state, new.from_state, new.event, new.metadata, new.sort_key, new.created_at, new.recorded_xid))
  execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.circuit_breaker_transitions is 'Rows do not change, but for losing most_recent.';
alter table tasker.circuit_breaker_transitions enable always trigger refuse_update;

create or replace trigger refuse_delete
  before delete on tasker.circuit_breaker_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_delete on tasker.circuit_breaker_transitions is 'Rows are not removed.';
alter table tasker.circuit_breaker_transitions enable always trigger refuse_delete;

create or replace trigger refuse_truncate
  before truncate on tasker.circuit_breaker_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.circuit_breaker_transitions is 'Rows are not removed.';
alter table tasker.circuit_breaker_transitions enable always trigger refuse_truncate;
