create or replace function tasker.metrics_states(
  p_since           timestamptz,
  out lifecycle         text,
  out state             text,
  out is_terminal       boolean,
  out visits            bigint,
  out avg_seconds       double precision,
  out success_rate      double precision,
  out common_next_state text
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with moves as materialized (
    select v.lifecycle, v.state, v.next_state, count(*) as visits, sum(v.seconds) as seconds
      from tasker.metrics_state_visits v
     where v.left_at >= p_since
       and ((select tasker.bound_namespaces()) is null or v.namespace = any ((select tasker.bound_namespaces())::text[]))
     group by v.lifecycle, v.state, v.next_state
  ), left_states as (
    select m.lifecycle, m.state, sum(m.visits) as visits, sum(m.seconds) / sum(m.visits) as average,
           sum(m.visits) filter (where not n.is_error and n.phase not in ('waiting_retry', 'reported_failure', 'failed', 'circuit_open',
                                                                          'blocked', 'cancelled', 'skipped', 'unresponsive', 'open'))
             / sum(m.visits) as success_rate,
           (array_agg(m.next_state order by m.visits desc, n.ordinal))[1] as common_next_state
      from moves m
      join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.next_state
     group by m.lifecycle, m.state
  )
  select s.lifecycle, s.state, s.is_terminal, coalesce(l.visits, 0)::bigint, l.average,
         case when s.is_terminal and l.visits is null then (s.phase in ('succeeded', 'resolved'))::int::double precision
              when l.visits > 0 then coalesce(l.success_rate, 0)::double precision end,
         l.common_next_state
    from tasker.lifecycle_states s
    left join left_states l on l.lifecycle = s.lifecycle and l.state = s.state
   order by s.lifecycle, s.ordinal
$$;
comment on function tasker.metrics_states(timestamptz) is
  'The table "State Metrics" of seed 002 for every state, from what happened since then: average duration, success rate (the share of stays that led on, not to a failure, a retry, an open circuit or a cancellation; of a terminal state: whether it is a success), most common next state.';

create or replace view tasker.metrics_states as
select m.lifecycle, m.state, m.is_terminal, m.visits, m.avg_seconds, m.success_rate, m.common_next_state
  from tasker.metrics_states('-infinity') m;
comment on view tasker.metrics_states is 'The table "State Metrics" of seed 002 over the whole log. It reads all of it: in daily use call metrics_states(p_since).';
