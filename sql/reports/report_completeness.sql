create or replace function tasker.report_completeness(
  p_from  timestamptz,
  p_until timestamptz,
  out day            date,
  out log            text,
  out changes        bigint,
  out rows           bigint,
  out sealed_rows    bigint,
  out results        bigint,
  out audited        bigint,
  out is_complete    boolean
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  perform tasker.refuse_bound_login('a report covers all of them');
  return query
  with changed as (
    select (c.recorded_at at time zone 'UTC')::date as day, c.log, c.transition_uuids,
           exists (select from tasker.audit_seals s where s.change_ids @> c.change_id) as is_sealed
      from tasker.changes c
     where c.recorded_at >= p_from and c.recorded_at < p_until
  ), reported as (
    select (t.created_at at time zone 'UTC')::date as day, count(*) as results, count(a.workflow_step_transition_uuid) as audited
      from tasker.workflow_step_transitions t
      join tasker.lifecycle_transitions r on r.lifecycle = t.lifecycle and r.from_state = t.from_state and r.event = t.event
                                         and r.to_state = t.to_state and r.reports_result
      left join tasker.workflow_step_result_audit a
        on a.workflow_step_uuid = t.workflow_step_uuid and a.workflow_step_transition_uuid = t.workflow_step_transition_uuid
     where t.created_at >= p_from and t.created_at < p_until
     group by 1
  )
  select c.day, c.log, count(*), sum(cardinality(c.transition_uuids))::bigint,
         coalesce(sum(cardinality(c.transition_uuids)) filter (where c.is_sealed), 0)::bigint,
         case when c.log = 'step' then coalesce(max(r.results), 0) end, case when c.log = 'step' then coalesce(max(r.audited), 0) end,
         bool_and(c.is_sealed) and coalesce(max(r.results) filter (where c.log = 'step') = max(r.audited), true)
    from changed c
    left join reported r on r.day = c.day and c.log = 'step'
   group by c.day, c.log
   order by c.day, c.log;
end
$$;
comment on function tasker.report_completeness(timestamptz, timestamptz) is
  'For each day (UTC) and log: statements, rows, rows under a seal, and of the results that still stand in the log how many have their audit row. is_complete: all sealed, all audited.';
