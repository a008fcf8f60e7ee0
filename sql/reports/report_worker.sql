create or replace function tasker.report_worker(
  p_worker_uuid uuid,
  p_from        timestamptz,
  p_until       timestamptz,
  p_after_at    timestamptz default null,
  p_after       uuid default null,
  p_limit       int default null
) returns setof tasker.audit_action
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_first timestamptz := greatest(p_from, p_after_at);
begin
  perform tasker.refuse_bound_login('a report covers all of them');
  return query
  select k.at, s.log, s.row_uuid, s.subject, s.task_uuid, s.namespace, s.event, s.from_state, s.to_state, s.requested_by, s.reason, s.worker_uuid,
         s.login, s.acting_role, s.application_name, s.client_address, s.is_archived, s.detail
    from (select k.*
            from (select 'result' as kind, a.recorded_at as at, a.workflow_step_transition_uuid as row_uuid
                    from tasker.workflow_step_result_audit a
                   where a.worker_uuid = p_worker_uuid and a.recorded_at >= v_first and a.recorded_at < p_until
                  union all
                  select 'archived', o.recorded_at, o.row_uuid
                    from tasker.archived_rows o
                   where o.worker_uuid = p_worker_uuid and o.recorded_at >= v_first and o.recorded_at < p_until
                  union all
                  select 'worker', t.created_at, t.worker_transition_uuid
                    from tasker.worker_transitions t
                   where t.worker_uuid = p_worker_uuid and t.created_at >= v_first and t.created_at < p_until) k
           where p_after is null or (k.at, k.row_uuid) > (p_after_at, p_after)
           order by k.at, k.row_uuid
           limit p_limit) k
   cross join lateral (
     select r.* from tasker.audit_rows r where k.kind = 'result' and r.log = 'step' and not r.is_archived and r.row_uuid = k.row_uuid
     union all
     select r.* from tasker.audit_rows r where k.kind = 'archived' and r.is_archived and r.row_uuid = k.row_uuid
     union all
     select r.* from tasker.audit_rows r where k.kind = 'worker' and r.log = 'worker' and r.row_uuid = k.row_uuid) r
   cross join lateral tasker.with_session(r::tasker.audit_rows) s
   order by k.at, k.row_uuid;
end
$$;
comment on function tasker.report_worker(uuid, timestamptz, timestamptz, timestamptz, uuid, int) is
  'All that a worker reported and all that became of it from p_from until before p_until, oldest first; at is when the result was recorded. In pages: p_limit rows after the one whose at and row_uuid are p_after_at and p_after.';
