create or replace function tasker.metrics_time_in_state(
  p_since     timestamptz,
  out lifecycle   text,
  out state       text,
  out visits      bigint,
  out avg_seconds double precision,
  out p50_seconds double precision,
  out p90_seconds double precision,
  out p99_seconds double precision,
  out max_seconds double precision
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select g.lifecycle, g.state, g.visits, g.average, g.percentiles[1], g.percentiles[2], g.percentiles[3], g.longest
    from (select v.lifecycle, v.state, count(*) as visits, avg(v.seconds) as average,
                 percentile_cont(array[0.5, 0.9, 0.99]) within group (order by v.seconds) as percentiles, max(v.seconds) as longest
            from tasker.metrics_state_visits v
           where v.left_at >= p_since
             and ((select tasker.bound_namespaces()) is null or v.namespace = any ((select tasker.bound_namespaces())::text[]))
           group by v.lifecycle, v.state) g
    left join tasker.lifecycle_states s on s.lifecycle = g.lifecycle and s.state = g.state
   order by g.lifecycle, s.ordinal
$$;
comment on function tasker.metrics_time_in_state(timestamptz) is
  'How long entities stayed in the states that they left since then (seed 003: time in state): average, median, 90th and 99th percentile, longest.';

create or replace view tasker.metrics_time_in_state as
select m.lifecycle, m.state, m.visits, m.avg_seconds, m.p50_seconds, m.p90_seconds, m.p99_seconds, m.max_seconds
  from tasker.metrics_time_in_state('-infinity') m;
comment on view tasker.metrics_time_in_state is 'How long entities stay in each state, over the whole log (seed 003). It reads all of it: in daily use call metrics_time_in_state(p_since).';
