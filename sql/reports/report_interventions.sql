create or replace function tasker.report_interventions(
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
  select a.*
    from tasker.audit_rows r
   cross join lateral tasker.with_session(r) a
   where r.is_manual and r.at >= p_from and r.at < p_until
   order by r.at, r.row_uuid;
end
$$;
comment on function tasker.report_interventions(timestamptz, timestamptz) is
  'What was done by hand from p_from until before p_until: commands, what was set up, bindings, holds, purges; who asked for it and which session did it.';
