create or replace function tasker.counted_buckets(
  p_kind      text,
  p_from      timestamptz,
  p_until     timestamptz,
  p_width     int,
  p_uncounted timestamptz[],
  out lower  timestamptz,
  out upper  timestamptz,
  out n      bigint,
  out before numeric
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  select b.bucket, b.bucket + make_interval(secs => p_width), b.n, sum(b.n) over (order by b.bucket) - b.n
    from (select c.bucket, sum(c.n)::bigint as n
            from (select k.bucket, case p_kind when 'task' then k.tasks else k.results end as n
                    from tasker.audit_counts k
                   where k.width = p_width and k.log = case p_kind when 'task' then 'task' else 'step' end
                     and k.bucket >= p_from and k.bucket < p_until
                  union all
                  select tasker.bucket_of(u.at, p_width), 1 from unnest(p_uncounted) as u(at) where u.at >= p_from and u.at < p_until) c
           group by c.bucket) b
   where b.n > 0
$$;
comment on function tasker.counted_buckets(text, timestamptz, timestamptz, int, timestamptz[]) is
  'Buckets of a width with how many tasks or results they hold, and how many come before in the period. p_uncounted: when those were that audit_counts does not hold yet.';
