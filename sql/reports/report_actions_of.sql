create or replace function tasker.report_actions_of(
  p_name  text,
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
    from (select r.* from tasker.audit_rows r
           where r.is_manual and r.requested_by = p_name and r.at >= p_from and r.at < p_until
          union
          -- or in a session of that login, whatever it said
          select r.*
            from tasker.changes c
           cross join lateral unnest(c.transition_uuids) as u(row_uuid)
           cross join lateral (select r.* from tasker.audit_rows r where r.log = c.log and r.row_uuid = u.row_uuid limit 1) r
           where c.login = p_name and c.recorded_at >= p_from and c.recorded_at < p_until) r
   cross join lateral tasker.with_session(r::tasker.audit_rows) a
   order by r.at, r.row_uuid;
end
$$;
comment on function tasker.report_actions_of(text, timestamptz, timestamptz) is
  'All actions of one person or service from p_from until before p_until: what was asked for in that name, and what sessions of the login of that name wrote.';
