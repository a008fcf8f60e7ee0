create or replace view tasker.counted_rows as
select 'result' as kind, a.recorded_at as at, a.workflow_step_result_audit_uuid as row_uuid, a.workflow_step_transition_uuid as log_row_uuid,
       a.task_uuid, a.success, false as is_archived
  from tasker.workflow_step_result_audit a
union all
select 'result', r.recorded_at, (r.audit_content::jsonb ->> 2)::uuid, r.row_uuid, r.task_uuid, r.success, true
  from tasker.archived_rows r
 where r.recorded_at is not null
union all
select 'task', t.created_at, t.task_uuid, t.task_transition_uuid, t.task_uuid, null, false
  from tasker.task_transitions t
 where t.sort_key = 1
union all
select 'task', r.at, r.task_uuid, r.row_uuid, r.task_uuid, null, true
  from tasker.archived_rows r
 where r.log = 'task' and (r.content::jsonb ->> 11) = '1'
union all
select 'unaudited', t.created_at, t.workflow_step_transition_uuid, t.workflow_step_transition_uuid, t.task_uuid, null, false
  from tasker.workflow_step_transitions t
 where exists (select from tasker.lifecycle_transitions x
                where x.lifecycle = t.lifecycle and x.from_state = t.from_state and x.event = t.event and x.to_state = t.to_state and x.reports_result)
   and not exists (select from tasker.workflow_step_result_audit a where a.workflow_step_transition_uuid = t.workflow_step_transition_uuid)
union all
select 'unaudited', r.at, r.row_uuid, r.row_uuid, r.task_uuid, null, true
  from tasker.archived_rows r
 cross join lateral (select r.content::jsonb as content) c
 where r.log = 'step' and r.audit_content is null
   and exists (select from tasker.lifecycle_transitions x
                where x.lifecycle = c.content ->> 6 and x.from_state = c.content ->> 8 and x.event = c.content ->> 9
                  and x.to_state = c.content ->> 7 and x.reports_result);
comment on view tasker.counted_rows is 'What audit_counts counts besides statements and rows, here and in the archive: results, tasks, and results without an audit row.';
comment on column tasker.counted_rows.kind is 'result, task or unaudited.';
comment on column tasker.counted_rows.at is 'When: of a result recorded_at of its audit row, else created_at of the row in the log.';
comment on column tasker.counted_rows.row_uuid is 'Key of the audit row, the task, the row in the log.';
comment on column tasker.counted_rows.log_row_uuid is 'Key of the row in the log.';
comment on column tasker.counted_rows.task_uuid is 'The task.';
comment on column tasker.counted_rows.success is 'Of a result.';
comment on column tasker.counted_rows.is_archived is 'It stands in the archive.';
