create or replace function tasker.count_sealed(p_change_ids int8multirange) returns void
language sql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with sealed as materialized (
    select c.log, c.transition_uuids, c.recorded_at
      from unnest(p_change_ids) as u(ids)
     cross join lateral (select c.* from tasker.changes c where c.change_id >= lower(u.ids) and c.change_id < upper(u.ids)) c
  ), marks as (
    select s.log, s.recorded_at as at, 1 as changes, cardinality(s.transition_uuids) as rows, 0 as tasks, 0 as results, 0 as failures, 0 as unaudited
      from sealed s
    union all
    select 'task', r.at, 0, 0, 1, 0, 0, 0
      from sealed s
     cross join lateral unnest(s.transition_uuids) as u(row_uuid)
     cross join lateral (select r.at from tasker.counted_rows r
                          where r.kind = 'task' and not r.is_archived and r.log_row_uuid = u.row_uuid limit 1) r
     where s.log = 'task'
    union all
    select 'step', r.at, 0, 0, 0, (r.kind = 'result')::int, (r.kind = 'result' and not r.success)::int, (r.kind = 'unaudited')::int
      from sealed s
     cross join lateral unnest(s.transition_uuids) as u(row_uuid)
     cross join lateral (select r.kind, r.at, r.success from tasker.counted_rows r
                          where r.kind in ('result', 'unaudited') and not r.is_archived and r.log_row_uuid = u.row_uuid limit 1) r
     where s.log = 'step'
  ), tens as (
    select tasker.bucket_of(m.at, 10) as bucket, m.log, sum(m.changes) as changes, sum(m.rows) as rows,
           sum(m.tasks) as tasks, sum(m.results) as results, sum(m.failures) as failures, sum(m.unaudited) as unaudited
      from marks m
     where m.at is not null
     group by 1, 2
  )
  insert into tasker.audit_counts as k (width, bucket, log, changes, rows, tasks, results, failures, unaudited)
  select w.width, tasker.bucket_of(t.bucket, w.width), t.log, sum(t.changes), sum(t.rows), sum(t.tasks),
         sum(t.results), sum(t.failures), sum(t.unaudited)
    from tens t cross join (values (10), (900), (86400)) as w(width)
   group by 1, 2, 3
      on conflict (width, log, bucket) do update
     set changes = k.changes + excluded.changes, rows = k.rows + excluded.rows, tasks = k.tasks + excluded.tasks,
         results = k.results + excluded.results, failures = k.failures + excluded.failures, unaudited = k.unaudited + excluded.unaudited
$$;
comment on function tasker.count_sealed(int8multirange) is 'Adds to audit_counts what these changes appended. Its caller holds the lock of seal_audit.';
