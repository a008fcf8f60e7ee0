create or replace function tasker.get_step_audit_history(p_task_uuid uuid, p_step_uuid uuid) returns setof tasker.audit_record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.*
    from tasker.audit_records a
   where a.task_uuid = p_task_uuid and a.workflow_step_uuid = p_step_uuid
     and ((select tasker.bound_namespaces()) is null or (select t.namespace from tasker.tasks t where t.task_uuid = a.task_uuid) = any ((select tasker.bound_namespaces())::text[]))
 order by a.recorded_at desc, a.workflow_step_result_audit_uuid desc
$$;
comment on function tasker.get_step_audit_history(uuid, uuid) is 'Seed 004: the audit history of a step with full transition details, newest first.';
