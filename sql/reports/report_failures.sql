create or replace function tasker.report_failures(
  p_from  timestamptz,
  p_until timestamptz
) returns setof tasker.audit_action
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
  perform tasker.refuse_bound_login('a report covers all of them');
  return query
  select x.*
    from (select s.*
            from tasker.workflow_step_result_audit a
           cross join lateral (select r.* from tasker.audit_rows r
                                where r.log = 'step' and not r.is_archived and r.row_uuid = a.workflow_step_transition_uuid limit 1) r
           cross join lateral tasker.with_session(r::tasker.audit_rows) s
           where a.success = false and a.recorded_at >= p_from and a.recorded_at < p_until
          union all
          select s.*
            from tasker.archived_rows o
           cross join lateral (select r.* from tasker.audit_rows r where r.is_archived and r.row_uuid = o.row_uuid limit 1) r
           cross join lateral tasker.with_session(r::tasker.audit_rows) s
           where o.success = false and o.recorded_at >= p_from and o.recorded_at < p_until
          union all
          select j.created_at, 'rejection', j.rejected_transition_uuid, coalesce(j.entity_uuid::text, j.entity_kind), j.task_uuid, j.namespace,
                 j.code, null, null, j.detail ->> 'requested_by', j.message, null, j.login, null, j.application_name, j.client_address, false,
                 j.detail
            from tasker.rejected_transitions j
           where j.created_at >= p_from and j.created_at < p_until) x
   order by x.at, x.row_uuid;
end
$$;
comment on function tasker.report_failures(timestamptz, timestamptz) is
  'Results that report a failure, and refused attempts, from p_from until before p_until.';
