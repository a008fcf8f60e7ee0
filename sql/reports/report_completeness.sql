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
  select c.day, c.log, c.changes, c.rows, c.sealed_rows, case when c.log = 'step' then c.results + c.unaudited end,
         case when c.log = 'step' then c.results end, c.sealed_rows = c.rows and c.unaudited = 0
    from tasker.report_counts(p_from, p_until) c
   order by c.day, c.log;
end
$$;
comment on function tasker.report_completeness(timestamptz, timestamptz) is
  'For each day (UTC) and log: statements, rows, rows under a seal, and of the results that still stand here or in the archive how many have their audit row. is_complete: all sealed, all audited. Of what is sealed it tells what was sealed; whether that still stands, verify_audit tells.';
