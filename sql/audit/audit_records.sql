create or replace view tasker.audit_records as
select a.workflow_step_result_audit_uuid, a.workflow_step_uuid, a.workflow_step_transition_uuid, a.task_uuid, a.recorded_at,
       a.worker_uuid, a.correlation_id, a.success, a.execution_time_ms, a.is_backfilled,
       s.name as step_name, t.from_state, t.to_state, t.event, t.metadata, t.created_at as transition_created_at
  from tasker.workflow_step_result_audit a
  join tasker.workflow_step_transitions t on t.workflow_step_transition_uuid = a.workflow_step_transition_uuid
  join tasker.workflow_steps s on s.workflow_step_uuid = a.workflow_step_uuid;
comment on view tasker.audit_records is 'The audit with the transitions it refers to.';
comment on column tasker.audit_records.workflow_step_result_audit_uuid is 'Key of the audit row.';
comment on column tasker.audit_records.workflow_step_uuid is 'The step.';
comment on column tasker.audit_records.workflow_step_transition_uuid is 'The transition that persisted the result.';
comment on column tasker.audit_records.task_uuid is 'The task.';
comment on column tasker.audit_records.recorded_at is 'When the result was persisted.';
comment on column tasker.audit_records.worker_uuid is 'The worker.';
comment on column tasker.audit_records.correlation_id is 'Correlation id of the task.';
comment on column tasker.audit_records.success is 'Whether the work succeeded.';
comment on column tasker.audit_records.execution_time_ms is 'How long the handler ran, in milliseconds.';
comment on column tasker.audit_records.is_backfilled is 'True for results older than the audit.';
comment on column tasker.audit_records.step_name is 'Name of the step.';
comment on column tasker.audit_records.from_state is 'State before the result.';
comment on column tasker.audit_records.to_state is 'State after it.';
comment on column tasker.audit_records.event is 'The event.';
comment on column tasker.audit_records.metadata is 'The full result or error with its attribution.';
comment on column tasker.audit_records.transition_created_at is 'When the transition was written.';
