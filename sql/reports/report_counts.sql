create or replace function tasker.report_counts(
  p_from  timestamptz,
  p_until timestamptz,
  out day         date,
  out log         text,
  out changes     bigint,
  out rows        bigint,
  out sealed_rows bigint,
  out tasks       bigint,
  out results     bigint,
  out failures    bigint,
  out unaudited   bigint
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with parts as materialized (
    select p.* from tasker.period_parts(p_from, p_until) p
  ), unsealed as materialized (
    select u.* from tasker.unsealed_changes u
  ), uncounted as materialized (
    select u.* from tasker.uncounted_rows() u where u.at >= p_from and u.at < p_until
  ), marks as (
    -- what is sealed, by buckets
    select k.bucket as at, k.log, k.changes, k.rows, k.rows as sealed_rows, k.tasks, k.results, k.failures, k.unaudited
      from parts p
     cross join lateral (select k.* from tasker.audit_counts k
                          where k.width = p.width and k.log = any (array['task', 'step', 'worker', 'circuit_breaker', 'attached', 'rejection', 'event', 'binding'])
                            and k.bucket >= p.lower and k.bucket < p.upper) k
    union all
    -- and at both ends by rows
    select c.recorded_at, c.log, 1, cardinality(c.transition_uuids), cardinality(c.transition_uuids), 0, 0, 0, 0
      from parts p
     cross join lateral (select c.* from tasker.changes c where c.recorded_at >= p.lower and c.recorded_at < p.upper) c
     where p.width is null and not exists (select from unsealed u where u.change_id = c.change_id)
    union all
    select r.at, 'step', 0, 0, 0, 0, r.n, r.failures, 0
      from parts p cross join lateral tasker.counted_between('result', p.lower, p.upper) r where p.width is null
    union all
    select r.at, 'task', 0, 0, 0, r.n, 0, 0, 0
      from parts p cross join lateral tasker.counted_between('task', p.lower, p.upper) r where p.width is null
    union all
    -- there should be none, and where the buckets around hold none, none is looked for
    select r.at, 'step', 0, 0, 0, 0, 0, 0, r.n
      from parts p
     cross join lateral (select from tasker.audit_counts k
                          where k.width = 10 and k.log = 'step' and k.unaudited > 0
                            and k.bucket >= tasker.bucket_of(p.lower, 10) and k.bucket < p.upper limit 1) k
     cross join lateral tasker.counted_between('unaudited', p.lower, p.upper) r
     where p.width is null
    union all
    -- what is not sealed
    select u.recorded_at, u.log, 1, cardinality(u.transition_uuids), 0, 0, 0, 0, 0
      from unsealed u
     where u.recorded_at >= p_from and u.recorded_at < p_until
    union all
    select u.at, case u.kind when 'task' then 'task' else 'step' end, 0, 0, 0, (u.kind = 'task')::int, (u.kind = 'result')::int,
           (u.kind = 'result' and not u.success)::int, (u.kind = 'unaudited')::int
      from uncounted u
      join parts p on (p.width is not null or u.kind = 'unaudited') and u.at >= p.lower and u.at < p.upper
  )
  select (m.at at time zone 'UTC')::date, m.log, sum(m.changes)::bigint, sum(m.rows)::bigint, sum(m.sealed_rows)::bigint, sum(m.tasks)::bigint,
         sum(m.results)::bigint, sum(m.failures)::bigint, sum(m.unaudited)::bigint
    from marks m
   group by 1, 2
$$;
comment on function tasker.report_counts(timestamptz, timestamptz) is
  'What was recorded in a period, by day (UTC) and log: from audit_counts what is sealed, row by row what is not and what lies at both ends.';
