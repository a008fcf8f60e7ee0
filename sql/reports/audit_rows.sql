create or replace view tasker.audit_rows as
select t.created_at as at, 'task' as log, t.task_transition_uuid as row_uuid, t.task_uuid::text as subject, t.task_uuid, t.namespace,
       t.event, t.from_state, t.to_state, t.metadata ->> 'requested_by' as requested_by, t.metadata ->> 'reason' as reason,
       null::uuid as worker_uuid, t.metadata ? 'manual' as is_manual, t.recorded_xid, false as is_archived, coalesce(t.metadata, '{}') as detail
  from tasker.task_transitions t
union all
select t.created_at, 'step', t.workflow_step_transition_uuid, t.workflow_step_uuid::text, t.task_uuid, t.namespace,
       t.event, t.from_state, t.to_state, t.metadata ->> 'requested_by', t.metadata ->> 'reason',
       (t.metadata ->> 'worker_uuid')::uuid, t.metadata ? 'manual', t.recorded_xid, false, coalesce(t.metadata, '{}') - 'result'
  from tasker.workflow_step_transitions t
union all
select t.created_at, 'worker', t.worker_transition_uuid, t.worker_uuid::text, null, null,
       t.event, t.from_state, t.to_state, t.metadata ->> 'requested_by', t.metadata ->> 'reason',
       t.worker_uuid, t.metadata ? 'manual', t.recorded_xid, false, coalesce(t.metadata, '{}')
  from tasker.worker_transitions t
union all
select t.created_at, 'circuit_breaker', t.circuit_breaker_transition_uuid, b.tool, null, null,
       t.event, t.from_state, t.to_state, t.metadata ->> 'requested_by', t.metadata ->> 'reason',
       null, t.metadata ? 'manual', t.recorded_xid, false, coalesce(t.metadata, '{}')
  from tasker.circuit_breaker_transitions t
  join tasker.circuit_breakers b on b.circuit_breaker_uuid = t.circuit_breaker_uuid
union all
select t.created_at, 'attached', t.attached_transition_uuid, t.attached_table || '/' || t.entity_key, null, t.namespace,
       t.event, t.from_state, t.to_state, t.metadata ->> 'requested_by', t.metadata ->> 'reason',
       null, t.metadata ? 'requested_by', t.recorded_xid, false, coalesce(t.metadata, '{}')
  from tasker.attached_transitions t
union all
select t.created_at, 'event', t.audit_event_uuid, t.subject, null, t.namespace,
       t.event, null, null, t.requested_by, t.reason, null, true, t.recorded_xid, false, t.detail
  from tasker.audit_events t
union all
select t.created_at, 'binding', t.login_binding_change_uuid, t.login, null, null,
       t.action, array_to_string(t.previous_namespaces, ', '), array_to_string(t.namespaces, ', '), t.requested_by, t.reason,
       null, true, null, false, jsonb_build_object('done_by', t.done_by)
  from tasker.login_binding_changes t
union all
select t.at, t.log, t.row_uuid, c.content ->> 3, t.task_uuid, case t.log when 'task' then c.content ->> 4 else c.content ->> 5 end,
       case t.log when 'task' then c.content ->> 8 else c.content ->> 9 end,
       case t.log when 'task' then c.content ->> 7 else c.content ->> 8 end,
       case t.log when 'task' then c.content ->> 6 else c.content ->> 7 end,
       coalesce(t.requested_by, c.content -> 10 ->> 'requested_by'), c.content -> 10 ->> 'reason',
       (c.content -> 10 ->> 'worker_uuid')::uuid, t.requested_by is not null, (c.content ->> 13)::xid8, true, coalesce(nullif(c.content -> 10, 'null'), '{}') - 'result'
  from tasker.archived_rows t
 cross join lateral (select t.content::jsonb as content) c;
comment on view tasker.audit_rows is 'All evidence but refusals, here and in the archive, without results. The reports are made of it.';
comment on column tasker.audit_rows.at is 'When.';
comment on column tasker.audit_rows.log is 'Which log.';
comment on column tasker.audit_rows.row_uuid is 'Key of the row.';
comment on column tasker.audit_rows.subject is 'What it happened to: task, step, worker, tool, row of an attached table, what was set up.';
comment on column tasker.audit_rows.task_uuid is 'The task, where there is one.';
comment on column tasker.audit_rows.namespace is 'The namespace, where there is one.';
comment on column tasker.audit_rows.event is 'What happened.';
comment on column tasker.audit_rows.from_state is 'State before.';
comment on column tasker.audit_rows.to_state is 'State after.';
comment on column tasker.audit_rows.requested_by is 'Who asked, as the caller said.';
comment on column tasker.audit_rows.reason is 'Why.';
comment on column tasker.audit_rows.worker_uuid is 'The worker, where one did it.';
comment on column tasker.audit_rows.is_manual is 'Done by hand.';
comment on column tasker.audit_rows.recorded_xid is 'The writing transaction.';
comment on column tasker.audit_rows.is_archived is 'It stands in the archive.';
comment on column tasker.audit_rows.detail is 'What belongs to the event, without a result.';
