create or replace function tasker.get_audit_by_worker(p_worker_uuid uuid, p_limit int default 100) returns setof tasker.audit_record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.*
    from tasker.audit_records a
   where a.worker_uuid = p_worker_uuid
     and ((select tasker.bound_namespaces()) is null or (select t.namespace from tasker.tasks t where t.task_uuid = a.task_uuid) = any ((select tasker.bound_namespaces())::text[]))
 order by a.recorded_at desc, a.workflow_step_result_audit_uuid desc
   limit p_limit
$$;
comment on function tasker.get_audit_by_worker(uuid, int) is 'Seed 004: what a worker reported, newest first.';
