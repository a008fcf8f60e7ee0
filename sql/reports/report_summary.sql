create or replace function tasker.report_summary(
  p_from   timestamptz,
  p_until  timestamptz,
  p_verify boolean default false,
  out section text,
  out item    text,
  out value   text
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_utc       text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
  v_rows      bigint;
  v_sealed    bigint;
  v_tasks     bigint;
  v_results   bigint;
  v_failures  bigint;
  v_unaudited bigint;
begin
  perform tasker.refuse_bound_login('a report covers all of them');
  select coalesce(sum(c.rows), 0), coalesce(sum(c.sealed_rows), 0), coalesce(sum(c.tasks), 0), coalesce(sum(c.results), 0),
         coalesce(sum(c.failures), 0), coalesce(sum(c.unaudited), 0)
    into v_rows, v_sealed, v_tasks, v_results, v_failures, v_unaudited
    from tasker.report_counts(p_from, p_until) c;
  return query
  -- what an auditor asks of information that the audited party produced: whence, when, by whom, with which parameters
  select 'origin', o.item, o.value
    from (values
      (1, 'report', 'tasker.report_summary'),
      (2, 'from', to_char(p_from at time zone 'UTC', v_utc)),
      (3, 'until (not included)', to_char(p_until at time zone 'UTC', v_utc)),
      (4, 'database', current_database()::text),
      (5, 'server', 'PostgreSQL ' || current_setting('server_version')),
      (6, 'cluster', (select s.system_identifier::text from pg_control_system() s)),
      (7, 'schema version', tasker.schema_version()),
      (8, 'checksum of the logic', (select i.value from tasker.schema_info i where i.key = 'sql_tree_checksum')),
      (9, 'made at', to_char(clock_timestamp() at time zone 'UTC', v_utc)),
      (10, 'made by', session_user::text),
      (11, 'snapshot', pg_current_snapshot()::text)) as o(place, item, value)
   order by o.place;

  return query
  select 'counts', c.item, c.n::text
    from (
      select 1 as place, 'tasks created' as item, v_tasks as n
      union all
      select 2, 'results reported', v_results
      union all
      select 3, 'results that report a failure', v_failures
      union all
      select 4, 'done by hand', (select count(*) from tasker.audit_rows r where r.is_manual and r.at >= p_from and r.at < p_until)
      union all
      select 5, 'done by hand without a reason, set-up aside',
             (select count(*) from tasker.audit_rows r
               where r.is_manual and r.log <> 'event' and coalesce(r.reason, '') = '' and r.at >= p_from and r.at < p_until)
      union all
      select 6, 'refused', (select count(*) from tasker.rejected_transitions j where j.created_at >= p_from and j.created_at < p_until)
      union all
      select 7, 'tasks archived', (select coalesce(sum((e.detail ->> 'tasks')::bigint), 0) from tasker.audit_events e
                                    where e.event = 'tasks_archived' and e.created_at >= p_from and e.created_at < p_until)
      union all
      select 8, 'tasks purged', (select coalesce(sum((e.detail ->> 'tasks')::bigint), 0) from tasker.audit_events e
                                  where e.event = 'tasks_purged' and e.created_at >= p_from and e.created_at < p_until)
      union all
      select 9, 'tasks on legal hold now', (select count(*) from tasker.legal_holds)) c
   order by c.place;

  return query
  select 'coverage', x.item, x.value
    from (values
      (1, 'rows of evidence', v_rows::text),
      (2, 'of these under a seal', v_sealed::text),
      (3, 'not sealed yet', (v_rows - v_sealed)::text),
      (4, 'results in the log', (v_results + v_unaudited)::text),
      (5, 'of these with their audit row', v_results::text)) as x(place, item, value)
   order by x.place;

  return query
  select 'integrity', x.item, x.value
    from (select count(*) as seals from tasker.audit_seals) n
    left join lateral (select s.* from tasker.audit_seals s order by s.seal_number desc limit 1) s on true
   cross join lateral (values
      (1, 'seals', n.seals::text),
      (2, 'rows under seals', coalesce(s.total_rows, 0)::text),
      (3, 'newest seal made at', to_char(s.sealed_at at time zone 'UTC', v_utc)),
      (4, 'digest of the newest seal', encode(s.digest, 'hex')),
      (5, 'seals computed again', case when not p_verify then 'no'
                                       when (select count(*) from tasker.verify_audit()) = 0 then 'yes, nothing was found'
                                       else 'yes, TAMPERING WAS FOUND: see verify_audit()' end)) as x(place, item, value)
   order by x.place;

  return query
  select 'access', x.item, x.n::text
    from (values (1, 'logins with a role', (select count(distinct m.login) from tasker.access_members m)),
                 (2, 'warnings', (select count(*) from tasker.access_warnings)),
                 (3, 'bindings changed', (select count(*) from tasker.login_binding_changes b
                                           where b.created_at >= p_from and b.created_at < p_until))) as x(place, item, n)
   order by x.place;
end
$$;
comment on function tasker.report_summary(timestamptz, timestamptz, boolean) is
  'The page that is signed: where the report comes from, what happened from p_from until before p_until, how much of it is under seal, state of the seals, access. p_verify computes all seals again, which reads everything.';
