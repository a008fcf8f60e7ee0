create or replace function tasker.prometheus_metrics() returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text;
begin
  perform tasker.refuse_bound_login('these metrics count what happens in all of them');
  perform tasker.metrics_fold();

  with samples (family, labels, value, suffix, ordinal) as (
    select 'pgtasker_info', array[tasker.metrics_label('version', tasker.schema_version())], 1::double precision, '', 0::bigint
    union all
    select 'pgtasker_transitions_total',
           array[tasker.metrics_label('lifecycle', t.lifecycle), tasker.metrics_label('from_state', t.from_state),
                 tasker.metrics_label('event', t.event), tasker.metrics_label('to_state', t.to_state)], t.transitions, '', 0
      from tasker.metrics_transition_totals t
    union all
    -- entered, less left
    select 'pgtasker_entities', array[tasker.metrics_label('lifecycle', s.lifecycle), tasker.metrics_label('state', s.state)],
           coalesce((select sum(t.transitions) from tasker.metrics_transition_totals t where t.lifecycle = s.lifecycle and t.to_state = s.state), 0)
           - coalesce((select sum(t.transitions) from tasker.metrics_transition_totals t where t.lifecycle = s.lifecycle and t.from_state = s.state), 0),
           '', 0
      from tasker.lifecycle_states s
    union all
    select 'pgtasker_time_in_state_seconds',
           array[tasker.metrics_label('lifecycle', h.lifecycle), tasker.metrics_label('state', h.state), tasker.metrics_label('le', b.bound)],
           (select coalesce(sum(v.visits), 0) from tasker.metrics_visit_totals v
             where v.lifecycle = h.lifecycle and v.state = h.state and v.bucket < b.position), '_bucket', b.position
      from (select distinct v.lifecycle, v.state from tasker.metrics_visit_totals v) h
     cross join unnest(tasker.metrics_buckets()::text[] || '+Inf'::text) with ordinality as b(bound, position)
    union all
    select 'pgtasker_time_in_state_seconds', array[tasker.metrics_label('lifecycle', v.lifecycle), tasker.metrics_label('state', v.state)],
           case part.suffix when '_sum' then sum(v.seconds) else sum(v.visits) end, part.suffix, 1000
      from tasker.metrics_visit_totals v cross join (values ('_sum'), ('_count')) as part(suffix)
     group by v.lifecycle, v.state, part.suffix
    union all
    select 'pgtasker_rejected_transitions_total', array[tasker.metrics_label('code', e.code), tasker.metrics_label('name', e.name)],
           (select count(*) from tasker.rejected_transitions r where r.code = e.code), '', 0
      from tasker.error_catalogue e
    union all
    select 'pgtasker_idempotency_requests', null, (select count(*) from tasker.idempotency_keys), '', 0
    union all
    select 'pgtasker_idempotency_hits', null, (select coalesce(sum(k.hits), 0) from tasker.idempotency_keys k), '', 0
    union all
    select m.family, array[tasker.metrics_label('queue', q.queue_name), tasker.metrics_label('namespace', q.namespace)],
           case m.family when 'pgtasker_queue_depth' then q.depth else q.oldest_seconds end, '', 0
      from tasker.metrics_queues() q
     cross join (values ('pgtasker_queue_depth'), ('pgtasker_queue_oldest_message_age_seconds')) as m(family)
    union all
    select m.family, array[tasker.metrics_label('vocabulary', w.vocabulary)],
           case m.family when 'pgtasker_worker_capacity_steps' then w.capacity else w.held_steps end, '', 0
      from (select w.vocabulary, sum(w.capacity) as capacity, sum(w.held_steps) as held_steps
              from tasker.metrics_workers w where w.phase <> 'unresponsive' group by w.vocabulary) w
     cross join (values ('pgtasker_worker_capacity_steps'), ('pgtasker_worker_held_steps')) as m(family)
    union all
    select m.family, array[tasker.metrics_label('scope', l.scope), tasker.metrics_label('name', l.name), tasker.metrics_label('namespace', l.namespace)],
           case m.family when 'pgtasker_limit_running_steps' then l.running else l.waiting end, '', 0
      from tasker.limit_overview l
     cross join (values ('pgtasker_limit_running_steps'), ('pgtasker_limit_waiting_steps')) as m(family)
    union all
    select m.family, array[tasker.metrics_label('waits_for', w.waits_for), tasker.metrics_label('name', w.name), tasker.metrics_label('namespace', w.namespace)],
           case m.family when 'pgtasker_waiting_steps' then w.steps else w.oldest_seconds end, '', 0
      from tasker.metrics_waits() w
     cross join (values ('pgtasker_waiting_steps'), ('pgtasker_waiting_oldest_seconds')) as m(family)
    union all
    select 'pgtasker_metrics_catching_up', null, tasker.metrics_behind()::int, '', 0
    union all
    select 'pgtasker_overdue_timers', null, (select count(*) from tasker.timers t where t.due_at <= tasker.clock()), '', 0
  ), families (position, family, kind, help) as (
    values (1, 'pgtasker_info', 'gauge', 'The installed version.'),
           (2, 'pgtasker_transitions_total', 'counter', 'Transitions made; from_state is empty for creations.'),
           (3, 'pgtasker_entities', 'gauge', 'Entities that are in this state.'),
           (4, 'pgtasker_time_in_state_seconds', 'histogram', 'How long entities stayed in a state that they have left.'),
           (5, 'pgtasker_rejected_transitions_total', 'counter', 'Refused rows of batch calls.'),
           (6, 'pgtasker_idempotency_requests', 'gauge', 'Request ids that are kept now.'),
           (7, 'pgtasker_idempotency_hits', 'gauge', 'Repetitions of these that were given the stored answer.'),
           (8, 'pgtasker_queue_depth', 'gauge', 'Messages in a queue.'),
           (9, 'pgtasker_queue_oldest_message_age_seconds', 'gauge', 'Age of the oldest message in a queue; 0 if it is empty.'),
           (10, 'pgtasker_worker_capacity_steps', 'gauge', 'How many steps the workers that are alive run at once.'),
           (11, 'pgtasker_worker_held_steps', 'gauge', 'How many steps they hold.'),
           (12, 'pgtasker_limit_running_steps', 'gauge', 'Steps that run and count for a limit of how many run at once.'),
           (13, 'pgtasker_limit_waiting_steps', 'gauge', 'Steps in the line of a limit.'),
           (14, 'pgtasker_waiting_steps', 'gauge', 'Steps that wait for a worker with their handler, a breaker, a limit, an event or a workflow of their own.'),
           (15, 'pgtasker_waiting_oldest_seconds', 'gauge', 'How long the first of these has waited.'),
           (16, 'pgtasker_overdue_timers', 'gauge', 'Timers that are due and that nobody has fired yet.'),
           (17, 'pgtasker_metrics_catching_up', 'gauge', '1 while transitions, entities and times in state are of the past: the next scrapes count what happened since.')
  )
  select string_agg(format(e'# HELP %1$s %2$s\n# TYPE %1$s %3$s\n', f.family, f.help, f.kind)
                    || coalesce((select string_agg(f.family || s.suffix || coalesce('{' || array_to_string(s.labels, ',') || '}', '')
                                                   || ' ' || s.value || e'\n', '' order by s.labels[1:2], s.ordinal, s.suffix desc, s.labels)
                                   from samples s where s.family = f.family), ''), '' order by f.position)
    into v_text
    from families f;
  return v_text;
end
$$;
comment on function tasker.prometheus_metrics() is
  'All metrics in the text format of Prometheus. Counts what happened since the last call first (metrics_fold), so a call costs what is new.';
