create or replace function tasker.metrics_behind() returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- a few are always under way
  select exists (select from tasker.metrics_cursor k
                   join tasker.changes c on c.change_id >= k.settled_below and not k.counted @> c.change_id
                  cross join lateral unnest(c.transition_uuids)
                 offset 10000)
$$;
comment on function tasker.metrics_behind() is
  'Whether the counters of prometheus_metrics are of the past: more than 10,000 log rows are not counted yet. The next calls catch up.';
