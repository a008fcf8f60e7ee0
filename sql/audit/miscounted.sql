create or replace function tasker.miscounted(
  out width  int,
  out bucket timestamptz,
  out log    text,
  out kept    jsonb,
  out counted jsonb
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
  with unsealed as materialized (
    select u.change_id, u.transition_uuids from tasker.unsealed_changes u
  ), unsealed_rows as materialized (
    select r.row_uuid from unsealed u cross join lateral unnest(u.transition_uuids) as r(row_uuid)
  ), marks as (
    select c.log, c.recorded_at as at, 1 as changes, cardinality(c.transition_uuids) as rows, 0 as tasks, 0 as results, 0 as failures, 0 as unaudited
      from tasker.changes c
     where c.recorded_at is not null and not exists (select from unsealed u where u.change_id = c.change_id)
    union all
    select case r.kind when 'task' then 'task' else 'step' end, r.at, 0, 0, (r.kind = 'task')::int, (r.kind = 'result')::int,
           (r.kind = 'result' and not r.success)::int, (r.kind = 'unaudited')::int
      from tasker.counted_rows r
     where not exists (select from unsealed_rows u where u.row_uuid = r.log_row_uuid)
  ), tens as materialized (
    select tasker.bucket_of(m.at, 10) as bucket, m.log, sum(m.changes) as changes, sum(m.rows) as rows,
           sum(m.tasks) as tasks, sum(m.results) as results, sum(m.failures) as failures, sum(m.unaudited) as unaudited
      from marks m
     group by 1, 2
  ), counted as (
    select w.width, tasker.bucket_of(t.bucket, w.width) as bucket, t.log,
           sum(t.changes)::bigint as changes, sum(t.rows)::bigint as rows, sum(t.tasks)::bigint as tasks, sum(t.results)::bigint as results,
           sum(t.failures)::bigint as failures, sum(t.unaudited)::bigint as unaudited
      from tens t cross join (values (10), (900), (86400)) as w(width)
     group by 1, 2, 3
  )
  select coalesce(k.width, c.width), coalesce(k.bucket, c.bucket), coalesce(k.log, c.log),
         to_jsonb(k) - array['width', 'bucket', 'log'], to_jsonb(c) - array['width', 'bucket', 'log']
    from tasker.audit_counts k
    full join counted c on c.width = k.width and c.bucket = k.bucket and c.log = k.log
   where row(k.changes, k.rows, k.tasks, k.results, k.failures, k.unaudited)
         is distinct from row(c.changes, c.rows, c.tasks, c.results, c.failures, c.unaudited)
     -- of what was purged whole, a bucket stays with nothing in it
     and (c.width is not null or row(k.changes, k.rows, k.tasks, k.results, k.failures, k.unaudited) is distinct from row(0, 0, 0, 0, 0, 0))
$$;
comment on function tasker.miscounted() is 'Buckets of audit_counts that are not what the logs and the archive say. It reads everything.';
