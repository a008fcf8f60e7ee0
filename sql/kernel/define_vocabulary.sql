create or replace function tasker.define_vocabulary(p_definition jsonb) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name     text := p_definition ->> 'vocabulary';
  v_hash     text := encode(sha256(convert_to(p_definition::text, 'UTF8')), 'hex');
  v_problems jsonb := tasker.vocabulary_problems(p_definition);
  v_blocking text;
begin
  perform tasker.refuse_bound_login('vocabularies are shared by all');
  if jsonb_array_length(v_problems) > 0 then
    perform tasker.raise_error('TK400', format('vocabulary %s has %s problem(s): %s', coalesce(v_name, '?'),
                                               jsonb_array_length(v_problems), v_problems -> 0 ->> 'message'),
                               jsonb_build_object('problems', v_problems), 'Mend every problem in DETAIL and define it again.');
  end if;
  if exists (select from tasker.vocabularies v where v.vocabulary = v_name and v.content_hash = v_hash) then
    return v_name;
  end if;

  -- Rows that are already in logs must stay legal and keep their meaning: what a task may have walked can't be taken away
  -- under it, and counters and audit rows that were made by the old meaning of a state can't be reinterpreted.
  with used as materialized (
    select l.lifecycle, l.initial_state from tasker.lifecycles l
     where l.vocabulary = v_name
       and (exists (select from tasker.tasks k where k.lifecycle = l.lifecycle)
            or exists (select from tasker.workflow_steps s where s.lifecycle = l.lifecycle)
            or exists (select from tasker.workers w where w.lifecycle = l.lifecycle)
            or exists (select from tasker.circuit_breakers b where b.lifecycle = l.lifecycle)
            or exists (select from tasker.attached_lifecycles d where d.lifecycle = l.lifecycle))
  ), given as (
    select d.body ->> 'lifecycle' as lifecycle, d.body from jsonb_array_elements(p_definition -> 'lifecycles') as d(body)
  )
  select format('%s: %s -%s-> %s', r.lifecycle, r.from_state, r.event, r.to_state)
    into v_blocking
    from tasker.lifecycle_transitions r
    join used u on u.lifecycle = r.lifecycle
   where not exists (select from given g cross join lateral jsonb_array_elements(g.body -> 'transitions') as t(rule)
                      where g.lifecycle = r.lifecycle and t.rule ->> 'from' = r.from_state
                        and t.rule ->> 'event' = r.event and t.rule ->> 'to' = r.to_state
                        and coalesce((t.rule ->> 'reports_result')::boolean,
                                     t.rule ->> 'operation' in ('report_success', 'report_failure'), false) = r.reports_result)
  union all
  select format('%s: state %s with its phase and ending', s.lifecycle, s.state)
    from tasker.lifecycle_states s
    join used u on u.lifecycle = s.lifecycle
   where not exists (select from given g cross join lateral jsonb_array_elements(g.body -> 'states') as n(state)
                      where g.lifecycle = s.lifecycle and n.state ->> 'state' = s.state and n.state ->> 'phase' = s.phase
                        and coalesce(n.state -> 'flags' ? 'is_terminal', false) = s.is_terminal
                        and coalesce(n.state -> 'flags' ? 'satisfies_dependencies', false) = s.satisfies_dependencies)
  union all
  select format('%s: initial state %s', u.lifecycle, u.initial_state)
    from used u
   where not exists (select from given g where g.lifecycle = u.lifecycle and g.body ->> 'initial_state' = u.initial_state)
   limit 1;
  if found then
    perform tasker.raise_error('TK409', format('vocabulary %s is in use: this can''t be taken away: %s', v_name, v_blocking),
                               jsonb_build_object('vocabulary', v_name, 'needed', v_blocking),
                               'Add rules, or define the changed rules under another name.');
  end if;

  insert into tasker.vocabularies
    (vocabulary, description, definition, content_hash, task_lifecycle, step_lifecycle, worker_lifecycle, circuit_breaker_lifecycle)
  values (v_name, coalesce(p_definition ->> 'description', v_name), p_definition, v_hash,
          p_definition ->> 'task_lifecycle', p_definition ->> 'step_lifecycle', p_definition ->> 'worker_lifecycle',
          p_definition ->> 'circuit_breaker_lifecycle')
      on conflict (vocabulary) do update
     set description = excluded.description, definition = excluded.definition, content_hash = excluded.content_hash,
         task_lifecycle = excluded.task_lifecycle, step_lifecycle = excluded.step_lifecycle,
         worker_lifecycle = excluded.worker_lifecycle, circuit_breaker_lifecycle = excluded.circuit_breaker_lifecycle, updated_at = clock_timestamp();

  insert into tasker.lifecycles (lifecycle, vocabulary, kind, initial_state, description)
  select d.body ->> 'lifecycle', v_name, d.body ->> 'kind', d.body ->> 'initial_state',
         coalesce(d.body ->> 'description', d.body ->> 'lifecycle')
    from jsonb_array_elements(p_definition -> 'lifecycles') as d(body)
      on conflict (lifecycle) do update
     set kind = excluded.kind, initial_state = excluded.initial_state, description = excluded.description;

  insert into tasker.lifecycle_states
    (lifecycle, state, phase, ordinal, is_terminal, requires_ownership, is_active, is_waiting, can_be_processed, is_error,
     is_in_processing_pipeline, is_ready_for_claiming, satisfies_dependencies, description)
  select d.body ->> 'lifecycle', s.state ->> 'state', s.state ->> 'phase', s.position,
         f.flags ? 'is_terminal', f.flags ? 'requires_ownership', f.flags ? 'is_active', f.flags ? 'is_waiting',
         f.flags ? 'can_be_processed', f.flags ? 'is_error', f.flags ? 'is_in_processing_pipeline',
         f.flags ? 'is_ready_for_claiming', f.flags ? 'satisfies_dependencies',
         coalesce(s.state ->> 'description', s.state ->> 'state')
    from jsonb_array_elements(p_definition -> 'lifecycles') as d(body)
   cross join lateral jsonb_array_elements(d.body -> 'states') with ordinality as s(state, position)
   cross join lateral (select coalesce(nullif(s.state -> 'flags', 'null'), '[]') as flags) f
      on conflict (lifecycle, state) do update
     set phase = excluded.phase, ordinal = excluded.ordinal, is_terminal = excluded.is_terminal,
         requires_ownership = excluded.requires_ownership, is_active = excluded.is_active, is_waiting = excluded.is_waiting,
         can_be_processed = excluded.can_be_processed, is_error = excluded.is_error,
         is_in_processing_pipeline = excluded.is_in_processing_pipeline,
         is_ready_for_claiming = excluded.is_ready_for_claiming,
         satisfies_dependencies = excluded.satisfies_dependencies, description = excluded.description;

  insert into tasker.lifecycle_events (lifecycle, event, category, description)
  select d.body ->> 'lifecycle', e.event ->> 'event', coalesce(e.event ->> 'category', 'lifecycle'),
         coalesce(e.event ->> 'description', e.event ->> 'event')
    from jsonb_array_elements(p_definition -> 'lifecycles') as d(body)
   cross join lateral jsonb_array_elements(d.body -> 'events') as e(event)
      on conflict (lifecycle, event) do update set category = excluded.category, description = excluded.description;

  delete from tasker.lifecycle_transitions r
   using tasker.lifecycles l
   where l.lifecycle = r.lifecycle and l.vocabulary = v_name;
  insert into tasker.lifecycle_transitions
    (lifecycle, from_state, event, to_state, ordinal, fired_by, operation, guard, severity, reports_result, is_legacy,
     is_addition, description)
  select d.body ->> 'lifecycle', t.rule ->> 'from', t.rule ->> 'event', t.rule ->> 'to', t.position, t.rule ->> 'fired_by',
         t.rule ->> 'operation', coalesce(t.rule ->> 'guard', 'always'), coalesce(t.rule ->> 'severity', 'info'),
         coalesce((t.rule ->> 'reports_result')::boolean, t.rule ->> 'operation' in ('report_success', 'report_failure'), false),
         coalesce((t.rule ->> 'is_legacy')::boolean, false), coalesce((t.rule ->> 'is_addition')::boolean, false),
         coalesce(t.rule ->> 'description', '')
    from jsonb_array_elements(p_definition -> 'lifecycles') as d(body)
   cross join lateral jsonb_array_elements(d.body -> 'transitions') with ordinality as t(rule, position);

  -- what the new definition does not name any more
  delete from tasker.lifecycles l
   where l.vocabulary = v_name
     and l.lifecycle not in (select d.body ->> 'lifecycle' from jsonb_array_elements(p_definition -> 'lifecycles') as d(body));
  delete from tasker.lifecycle_states s
   using tasker.lifecycles l
   where l.lifecycle = s.lifecycle and l.vocabulary = v_name
     and s.state not in (select n.state ->> 'state'
                           from jsonb_array_elements(p_definition -> 'lifecycles') as d(body),
                                jsonb_array_elements(d.body -> 'states') as n(state)
                          where d.body ->> 'lifecycle' = s.lifecycle);
  delete from tasker.lifecycle_events e
   using tasker.lifecycles l
   where l.lifecycle = e.lifecycle and l.vocabulary = v_name
     and e.event not in (select n.event ->> 'event'
                           from jsonb_array_elements(p_definition -> 'lifecycles') as d(body),
                                jsonb_array_elements(d.body -> 'events') as n(event)
                          where d.body ->> 'lifecycle' = e.lifecycle);
  -- what the engine must know of a lifecycle before it takes its locks
  update tasker.lifecycles l
     set settles_at_report = exists (select from tasker.lifecycle_transitions r
                                       join tasker.lifecycle_states s on s.lifecycle = r.lifecycle and s.state = r.to_state
                                      where r.lifecycle = l.lifecycle and r.operation in ('report_success', 'report_failure', 'report_timeout')
                                        and s.phase not in ('reported_success', 'reported_failure', 'validating')),
         watches_starts = exists (select from tasker.lifecycle_transitions r
                                   where r.lifecycle = l.lifecycle and r.operation = 'first_start'),
         has_enqueuing_phase = exists (select from tasker.lifecycle_states s where s.lifecycle = l.lifecycle and s.phase = 'enqueuing'),
         queues_by_state = l.kind <> 'step' or exists (select from tasker.lifecycle_transitions r
                                                        where r.lifecycle = l.lifecycle and r.operation = 'enqueue')
   where l.vocabulary = v_name;
  return v_name;
end
$$;
comment on function tasker.define_vocabulary(jsonb) is
  'Stores a vocabulary: its lifecycles, states, events and transitions. Refused with every problem at once (TK400); the same content again changes nothing; rules of a vocabulary in use can be added to, not taken away (TK409).';
