create or replace function tasker.population_record(p_kind text, p_row_uuid uuid, p_log_row_uuid uuid) returns jsonb
language sql
stable
return case p_kind
  when 'result' then coalesce(
    (select to_jsonb(a) from tasker.workflow_step_result_audit a where a.workflow_step_result_audit_uuid = p_row_uuid),
    (select jsonb_build_object('archived', r.audit_content::jsonb) from tasker.archived_rows r
      where r.row_uuid = p_log_row_uuid and r.month = tasker.uuid_month(p_log_row_uuid)))
  when 'task' then coalesce(
    (select to_jsonb(t) - array['context'] from tasker.tasks t where t.task_uuid = p_row_uuid),
    (select (t.content -> 'task') - array['context'] from tasker.archived_tasks t where t.task_uuid = p_row_uuid))
end;
comment on function tasker.population_record(text, uuid, uuid) is 'What is told of a result or a task in a population.';
