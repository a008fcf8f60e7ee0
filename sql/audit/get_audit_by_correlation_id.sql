create or replace function tasker.get_audit_by_correlation_id(p_correlation_id uuid) returns setof tasker.audit_record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.*
    from tasker.audit_records a
   where a.correlation_id = p_correlation_id
     and ((select tasker.bound_namespaces()) is null or (select t.namespace from tasker.tasks t where t.task_uuid = a.task_uuid) = any ((select tasker.bound_namespaces())::text[]))
 order by a.recorded_at desc, a.workflow_step_result_audit_uuid desc
$$;
comment on function tasker.get_audit_by_correlation_id(uuid) is 'Seed 004: everything with one correlation id, newest first.';
