create or replace function tasker.get_audit_by_correlation_id(p_correlation_id uuid) returns setof tasker.audit_record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.*
    from tasker.audit_records a
   where a.correlation_id = p_correlation_id
   order by a.recorded_at desc, a.workflow_step_result_audit_uuid desc
$$;
comment on function tasker.get_audit_by_correlation_id(uuid) is 'Seed 004: everything with one correlation id, newest first.';
