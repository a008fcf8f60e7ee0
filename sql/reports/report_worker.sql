create or replace function tasker.report_worker(
  p_worker_uuid uuid,
  p_from        timestamptz,
  p_until       timestamptz
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
  select a.*
    from (select r.*
            from tasker.workflow_step_result_audit a
           cross join lateral (select r.* from tasker.audit_rows r
                                where r.log = 'step' and not r.is_archived and r.row_uuid = a.workflow_step_transition_uuid limit 1) r
           where a.worker_uuid = p_worker_uuid and a.recorded_at >= p_from and a.recorded_at < p_until
          union all
          select r.* from tasker.audit_rows r
           where r.log = 'worker' and r.worker_uuid = p_worker_uuid and r.at >= p_from and r.at < p_until
          union all
          select r.*
            from tasker.archived_rows o
           cross join lateral (select r.* from tasker.audit_rows r where r.is_archived and r.row_uuid = o.row_uuid limit 1) r
           where o.worker_uuid = p_worker_uuid and o.at >= p_from and o.at < p_until) r
   cross join lateral tasker.with_session(r::tasker.audit_rows) a
   order by r.at, r.row_uuid;
end
$$;
comment on function tasker.report_worker(uuid, timestamptz, timestamptz) is
  'All that a worker reported and all that became of it from p_from until before p_until.';
