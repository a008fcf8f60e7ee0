-- Format v1: one JSON array a row, columns in the order of the table when the format was made. Times are whole microseconds
-- since 1970, so that no setting of a session changes a digest. What may change later is left out: most_recent and
-- updated_at (check_consistency and verify_audit look at the former). A new column needs a new format.

create or replace function tasker.audit_content(p_row tasker.task_transitions) returns text
language sql stable
return json_build_array('v1', 'task', p_row.task_transition_uuid, p_row.task_uuid, p_row.namespace, p_row.lifecycle,
                        p_row.to_state, p_row.from_state, p_row.event, p_row.processor_uuid, p_row.metadata, p_row.sort_key,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.task_transitions) is 'What is digested of a log row of a task.';

create or replace function tasker.audit_content(p_row tasker.workflow_step_transitions) returns text
language sql stable
return json_build_array('v1', 'step', p_row.workflow_step_transition_uuid, p_row.workflow_step_uuid, p_row.task_uuid,
                        p_row.namespace, p_row.lifecycle, p_row.to_state, p_row.from_state, p_row.event, p_row.metadata,
                        p_row.sort_key, (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.workflow_step_transitions) is 'What is digested of a log row of a step.';

create or replace function tasker.audit_content(p_row tasker.worker_transitions) returns text
language sql stable
return json_build_array('v1', 'worker', p_row.worker_transition_uuid, p_row.worker_uuid, p_row.lifecycle, p_row.to_state,
                        p_row.from_state, p_row.event, p_row.metadata, p_row.sort_key,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.worker_transitions) is 'What is digested of a log row of a worker.';

create or replace function tasker.audit_content(p_row tasker.circuit_breaker_transitions) returns text
language sql stable
return json_build_array('v1', 'circuit_breaker', p_row.circuit_breaker_transition_uuid, p_row.circuit_breaker_uuid,
                        p_row.lifecycle, p_row.to_state, p_row.from_state, p_row.event, p_row.metadata, p_row.sort_key,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.circuit_breaker_transitions) is 'What is digested of a log row of a circuit breaker.';

create or replace function tasker.audit_content(p_row tasker.attached_transitions) returns text
language sql stable
return json_build_array('v1', 'attached', p_row.attached_transition_uuid, p_row.attachment_uuid, p_row.attached_table,
                        p_row.entity_key, p_row.namespace, p_row.lifecycle, p_row.to_state, p_row.from_state, p_row.event,
                        p_row.metadata, p_row.sort_key, p_row.login,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.attached_transitions) is 'What is digested of a log row of an attached table.';

create or replace function tasker.audit_content(p_row tasker.workflow_step_result_audit) returns text
language sql stable
return json_build_array('v1', 'result_audit', p_row.workflow_step_result_audit_uuid, p_row.workflow_step_uuid,
                        p_row.workflow_step_transition_uuid, p_row.task_uuid, p_row.namespace,
                        (extract(epoch from p_row.recorded_at) * 1000000)::bigint, p_row.worker_uuid, p_row.correlation_id,
                        p_row.success, p_row.execution_time_ms, p_row.is_backfilled,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint,
                        (extract(epoch from p_row.updated_at) * 1000000)::bigint)::text;
comment on function tasker.audit_content(tasker.workflow_step_result_audit) is 'What is digested of an audit row.';

create or replace function tasker.audit_content(p_row tasker.rejected_transitions) returns text
language sql stable
return json_build_array('v1', 'rejection', p_row.rejected_transition_uuid, p_row.entity_kind, p_row.entity_uuid,
                        p_row.task_uuid, p_row.namespace, p_row.code, p_row.message, p_row.detail, p_row.login,
                        p_row.application_name, host(p_row.client_address),
                        (extract(epoch from p_row.created_at) * 1000000)::bigint)::text;
comment on function tasker.audit_content(tasker.rejected_transitions) is 'What is digested of a refusal.';

create or replace function tasker.audit_content(p_row tasker.audit_events) returns text
language sql stable
return json_build_array('v1', 'event', p_row.audit_event_uuid, p_row.event, p_row.subject, p_row.namespace,
                        p_row.requested_by, p_row.reason, p_row.detail,
                        (extract(epoch from p_row.created_at) * 1000000)::bigint, p_row.recorded_xid::text)::text;
comment on function tasker.audit_content(tasker.audit_events) is 'What is digested of an event.';

create or replace function tasker.audit_content(p_row tasker.login_binding_changes) returns text
language sql stable
return json_build_array('v1', 'binding', p_row.login_binding_change_uuid, p_row.login, p_row.action, p_row.namespaces,
                        p_row.previous_namespaces, p_row.reason, p_row.requested_by, p_row.done_by, p_row.application_name,
                        host(p_row.client_address), (extract(epoch from p_row.created_at) * 1000000)::bigint)::text;
comment on function tasker.audit_content(tasker.login_binding_changes) is 'What is digested of the binding of a login.';

create or replace function tasker.audit_content(p_row tasker.changes) returns text
language sql stable
return json_build_array('v1', 'change', p_row.change_id, p_row.recorded_xid::text, p_row.log, p_row.transition_uuids,
                        (extract(epoch from p_row.recorded_at) * 1000000)::bigint, p_row.login, p_row.acting_role,
                        p_row.application_name, host(p_row.client_address), p_row.backend_pid)::text;
comment on function tasker.audit_content(tasker.changes) is 'What is digested of a change: the session that wrote, and which rows.';

create or replace function tasker.audit_hash(p_content text) returns bytea
language sql immutable strict
return sha256(convert_to(p_content, 'UTF8'));
comment on function tasker.audit_hash(text) is 'sha256 of a row''s content.';
