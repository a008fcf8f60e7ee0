create or replace function tasker.live_overview(p_last interval default '10 seconds') returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_overview jsonb;
begin
  perform tasker.refuse_bound_login('this overview counts what happens in all of them');
  if p_last is null or p_last not between interval '1 second' and interval '1 hour' then
    perform tasker.raise_error('TK400', format('can''t look back for %s', coalesce(p_last::text, 'null')),
                               jsonb_build_object('last', p_last), 'Rates are those of the last second up to the last hour.');
  end if;
  -- what happened since the last call is counted; the logs are not read for what is over
  perform tasker.metrics_fold();

  select jsonb_build_object(
    'at', clock_timestamp(),
    'last_seconds', extract(epoch from p_last),
    'catching_up', tasker.metrics_behind(),
    'counts', (
      select coalesce(jsonb_agg(to_jsonb(c) order by c.kind, c.ordinal), '[]')
        from (select l.kind, p.phase, p.ordinal, sum(e.entered - e.gone)::bigint as entities
                from tasker.lifecycle_states s
                join tasker.lifecycles l on l.lifecycle = s.lifecycle and l.kind in ('task', 'step')
                join tasker.lifecycle_phases p on p.phase = s.phase
               cross join lateral (
                 select coalesce(sum(t.transitions) filter (where t.to_state = s.state), 0) as entered,
                        coalesce(sum(t.transitions) filter (where t.from_state = s.state), 0) as gone
                   from tasker.metrics_transition_totals t where t.lifecycle = s.lifecycle) e
               group by l.kind, p.phase, p.ordinal having sum(e.entered - e.gone) <> 0) c),
    'rates', (
      select coalesce(jsonb_agg(to_jsonb(r) order by r.kind, r.ordinal), '[]')
        from (select l.kind, p.phase, p.ordinal, round(sum(m.transitions) / extract(epoch from p_last), 1) as per_second
                from tasker.metrics_transition_counts(clock_timestamp() - p_last) m
                join tasker.lifecycles l on l.lifecycle = m.lifecycle and l.kind in ('task', 'step')
                join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.to_state
                join tasker.lifecycle_phases p on p.phase = s.phase
               group by l.kind, p.phase, p.ordinal) r),
    'queues', (
      select coalesce(jsonb_agg(jsonb_build_object('namespace', q.namespace, 'requires', q.requires, 'priority', q.priority, 'depth', q.depth,
                                                   'oldest_seconds', q.oldest_seconds)
                                order by q.oldest_seconds desc, q.namespace, q.requires, q.priority), '[]')
        from tasker.metrics_queues() q),
    'waits', (select coalesce(jsonb_agg(to_jsonb(w) order by w.oldest_seconds desc, w.waits_for, w.name, w.namespace), '[]') from tasker.metrics_waits() w),
    'workers', (
      select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'worker_uuid', w.worker_uuid, 'state', w.state, 'phase', w.phase,
                                                   'capacity', w.capacity, 'held_steps', w.held_steps,
                                                   'seconds_since_heartbeat', w.seconds_since_heartbeat)
                                order by w.held_steps desc, w.name, w.worker_uuid), '[]')
        from tasker.metrics_workers w),
    'breakers', (
      select coalesce(jsonb_agg(jsonb_build_object('tool', b.tool, 'state', c.to_state, 'phase', s.phase, 'cools_until', b.cools_until)
                                order by b.tool), '[]')
        from tasker.circuit_breakers b
        join tasker.circuit_breaker_transitions c on c.circuit_breaker_uuid = b.circuit_breaker_uuid and c.most_recent
        join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
       where s.phase <> 'closed'),
    'overdue_timers', (select count(*) from tasker.timers t where t.due_at <= tasker.clock())
  ) into v_overview;
  return v_overview;
end
$$;
comment on function tasker.live_overview(interval) is
  'What happens now, for a screen that is drawn again and again: tasks and steps by phase (catching_up: as they once were, until the next calls have counted what happened since), how many entered each phase a second during p_last, queues with the age of their oldest message, what steps wait for besides a free worker, workers, breakers that are not closed, overdue timers. It costs what happened since the last call, however much is over.';
