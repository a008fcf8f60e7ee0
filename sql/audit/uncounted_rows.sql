create or replace function tasker.uncounted_rows() returns setof tasker.counted_rows
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select r.*
    from tasker.unsealed_changes u
   cross join lateral unnest(u.transition_uuids) as x(row_uuid)
   cross join lateral (select r.* from tasker.counted_rows r
                        where r.kind in ('result', 'unaudited') and not r.is_archived and r.log_row_uuid = x.row_uuid limit 1) r
   where u.log = 'step'
  union all
  select r.*
    from tasker.unsealed_changes u
   cross join lateral unnest(u.transition_uuids) as x(row_uuid)
   cross join lateral (select r.* from tasker.counted_rows r
                        where r.kind = 'task' and not r.is_archived and r.log_row_uuid = x.row_uuid limit 1) r
   where u.log = 'task'
$$;
comment on function tasker.uncounted_rows() is 'Results and tasks that are not sealed yet, and so not in audit_counts.';
