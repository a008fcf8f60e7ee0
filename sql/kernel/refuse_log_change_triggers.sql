-- The logs and the audit are append-only. On a transition log one change is let through: most_recent going from true to
-- false (WHEN is judged by the executor, so the hot path pays no function call). Deny triggers are ENABLE ALWAYS; a
-- statement trigger guards TRUNCATE, since row triggers do not fire for it. How rows may leave: audit/refuse_log_delete.

create or replace trigger refuse_update
  before update on tasker.task_transitions
  for each row
  when (not (old.most_recent and not new.most_recent)
        or (old.task_transition_uuid, old.task_uuid, old.namespace, old.lifecycle, old.to_state, old.from_state, old.event, old.processor_uuid, old.metadata, old.sort_key, old.created_at, old.recorded_xid)
           is distinct from
           (new.task_transition_uuid, new.task_uuid, new.namespace, new.lifecycle, new.to_state, new.from_state, new.event, new.processor_uuid, new.metadata, new.sort_key, new.created_at, new.recorded_xid))
  execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.task_transitions is 'Rows do not change, but for losing most_recent.';
alter table tasker.task_transitions enable always trigger refuse_update;

create or replace trigger refuse_update
  before update on tasker.workflow_step_transitions
  for each row
  when (not (old.most_recent and not new.most_recent)
        or (old.workflow_step_transition_uuid, old.workflow_step_uuid, old.task_uuid, old.namespace, old.lifecycle, old.to_state, old.from_state, old.event, old.metadata, old.sort_key, old.created_at, old.recorded_xid)
           is distinct from
           (new.workflow_step_transition_uuid, new.workflow_step_uuid, new.task_uuid, new.namespace, new.lifecycle, new.to_state, new.from_state, new.event, new.metadata, new.sort_key, new.created_at, new.recorded_xid))
  execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.workflow_step_transitions is 'Rows do not change, but for losing most_recent.';
alter table tasker.workflow_step_transitions enable always trigger refuse_update;

create or replace trigger refuse_update
  before update on tasker.workflow_step_result_audit
  for each row execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.workflow_step_result_audit is 'Audit rows do not change.';
alter table tasker.workflow_step_result_audit enable always trigger refuse_update;

create or replace trigger refuse_update
  before update on tasker.events
  for each row execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.events is 'The first to tell an event wins.';
alter table tasker.events enable always trigger refuse_update;

create or replace trigger refuse_truncate
  before truncate on tasker.task_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.task_transitions is 'Rows are not removed.';
alter table tasker.task_transitions enable always trigger refuse_truncate;

create or replace trigger refuse_truncate
  before truncate on tasker.workflow_step_transitions
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.workflow_step_transitions is 'Rows are not removed.';
alter table tasker.workflow_step_transitions enable always trigger refuse_truncate;

create or replace trigger refuse_truncate
  before truncate on tasker.workflow_step_result_audit
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.workflow_step_result_audit is 'Rows are not removed.';
alter table tasker.workflow_step_result_audit enable always trigger refuse_truncate;

-- What records the recording does not change either.
do $make$
declare
  v_table text;
begin
  foreach v_table in array array['changes', 'rejected_transitions', 'audit_events', 'audit_seals', 'purged_tasks'] loop
    execute format(
      $ddl$
        create or replace trigger refuse_update before update on tasker.%1$I
          for each row execute function tasker.refuse_log_change();
        comment on trigger refuse_update on tasker.%1$I is 'Rows do not change.';
        alter table tasker.%1$I enable always trigger refuse_update;
        create or replace trigger refuse_delete before delete on tasker.%1$I
          for each statement execute function tasker.refuse_log_change();
        comment on trigger refuse_delete on tasker.%1$I is 'Rows are not removed.';
        alter table tasker.%1$I enable always trigger refuse_delete;
        create or replace trigger refuse_truncate before truncate on tasker.%1$I
          for each statement execute function tasker.refuse_log_change();
        comment on trigger refuse_truncate on tasker.%1$I is 'Rows are not removed.';
        alter table tasker.%1$I enable always trigger refuse_truncate;
      $ddl$, v_table);
  end loop;
end
$make$;
