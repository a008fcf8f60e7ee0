create or replace function tasker.report_correlation(
  p_correlation_id uuid
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
            from tasker.tasks k
           cross join lateral (
             select r.* from tasker.task_transitions t
              cross join lateral (select r.* from tasker.audit_rows r where r.log = 'task' and not r.is_archived and r.row_uuid = t.task_transition_uuid limit 1) r
              where t.task_uuid = k.task_uuid
             union all
             select r.* from tasker.workflow_steps s
               join tasker.workflow_step_transitions t on t.workflow_step_uuid = s.workflow_step_uuid
              cross join lateral (select r.* from tasker.audit_rows r where r.log = 'step' and not r.is_archived and r.row_uuid = t.workflow_step_transition_uuid limit 1) r
              where s.task_uuid = k.task_uuid) r
           where k.correlation_id = p_correlation_id
          union all
          select r.*
            from tasker.archived_tasks k
           cross join lateral (select r.* from tasker.audit_rows r where r.is_archived and r.task_uuid = k.task_uuid) r
           where k.correlation_id = p_correlation_id) r
   cross join lateral tasker.with_session(r::tasker.audit_rows) a
   order by r.at, r.row_uuid;
end
$$;
comment on function tasker.report_correlation(uuid) is
  'Everything that happened under one correlation id, here and in the archive.';
