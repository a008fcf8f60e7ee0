create or replace function tasker.vocabulary_problems(p_definition jsonb) returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive shape (part, fields) as (
    values ('definition', array['vocabulary', 'description', 'task_lifecycle', 'step_lifecycle', 'worker_lifecycle', 'circuit_breaker_lifecycle',
                                'lifecycles']),
           ('lifecycle', array['lifecycle', 'kind', 'initial_state', 'description', 'states', 'events', 'transitions']),
           ('states', array['state', 'phase', 'description', 'flags']),
           ('events', array['event', 'category', 'description']),
           ('transitions', array['from', 'event', 'to', 'fired_by', 'operation', 'guard', 'severity', 'reports_result', 'is_legacy',
                                 'is_addition', 'description'])
  ), lifecycles as (
    select l.position, coalesce(l.body ->> 'lifecycle', format('lifecycles[%s]', l.position - 1)) as name, l.body ->> 'lifecycle' as given,
           l.body ->> 'kind' as kind, l.body ->> 'initial_state' as initial_state, l.body
      from jsonb_array_elements(case when jsonb_typeof(p_definition -> 'lifecycles') = 'array'
                                     then p_definition -> 'lifecycles' else '[]' end) with ordinality as l(body, position)
     where jsonb_typeof(l.body) = 'object'
  ), members as (  -- states, events and transitions as they were given
    select l.name, l.kind, p.part, m.position, m.member, format('%s.%s[%s]', l.name, p.part, m.position - 1) as path
      from lifecycles l
     cross join (values ('states'), ('events'), ('transitions')) as p(part)
     cross join lateral jsonb_array_elements(case when jsonb_typeof(l.body -> p.part) = 'array' then l.body -> p.part else '[]' end)
                        with ordinality as m(member, position)
  ), states as (
    select m.name, m.kind, m.path, m.member ->> 'state' as state, m.member ->> 'phase' as phase, m.member -> 'flags' as flags,
           case when jsonb_typeof(m.member -> 'flags') = 'array' then m.member -> 'flags' ? 'is_terminal' else false end as is_terminal
      from members m where m.part = 'states' and jsonb_typeof(m.member) = 'object'
  ), events as (
    select m.name, m.path, m.member ->> 'event' as event
      from members m where m.part = 'events' and jsonb_typeof(m.member) = 'object'
  ), transitions as (
    select m.name, m.kind, m.position, m.member as rule, m.member ->> 'from' as from_state, m.member ->> 'event' as event,
           m.member ->> 'to' as to_state, m.member ->> 'fired_by' as fired_by, m.member ->> 'operation' as operation,
           coalesce(m.member ->> 'guard', 'always') as guard, coalesce(m.member ->> 'is_legacy', 'false') = 'true' as is_legacy,
           format('%s: %s -%s-> %s', m.name, m.member ->> 'from', m.member ->> 'event', m.member ->> 'to') as path
      from members m where m.part = 'transitions' and jsonb_typeof(m.member) = 'object'
  ), reachable as (
    select l.name, l.initial_state as state from lifecycles l
     union
    select t.name, t.to_state from transitions t join reachable r on r.name = t.name and r.state = t.from_state
  ), roles (role, kind, name) as (
    values ('task_lifecycle', 'task', p_definition ->> 'task_lifecycle'), ('step_lifecycle', 'step', p_definition ->> 'step_lifecycle'),
           ('worker_lifecycle', 'worker', p_definition ->> 'worker_lifecycle'),
           ('circuit_breaker_lifecycle', 'circuit_breaker', p_definition ->> 'circuit_breaker_lifecycle')
  ), leads_to (operation, phases) as (  -- what the engine takes for granted after its own operations
    values ('enqueue', array['queued']), ('claim', array['running']),
           ('report_success', array['reported_success', 'validating', 'succeeded']),
           ('report_failure', array['reported_failure', 'failed', 'waiting_retry']),
           ('hold_back', array['circuit_open']), ('retry_due', array['pending', 'queued', 'trial']), ('retry_step', array['pending', 'queued', 'waiting_retry'])
  ), problems (path, message) as (
    select '', 'a vocabulary must be a JSON object' where coalesce(jsonb_typeof(p_definition), '') <> 'object'
     union all
    select 'vocabulary', 'a vocabulary needs a name of lower-case letters, digits and underscores'
     where coalesce(p_definition ->> 'vocabulary', '') !~ '^[a-z][a-z0-9_]{0,62}$'
     union all
    select 'lifecycles', 'lifecycles must be an array with at least one lifecycle'
     where coalesce(jsonb_typeof(p_definition -> 'lifecycles'), '') <> 'array' or p_definition -> 'lifecycles' = '[]'
     union all
    select format('lifecycles[%s]', l.position - 1), 'a lifecycle must be a JSON object'
      from jsonb_array_elements(case when jsonb_typeof(p_definition -> 'lifecycles') = 'array'
                                     then p_definition -> 'lifecycles' else '[]' end) with ordinality as l(body, position)
     where jsonb_typeof(l.body) <> 'object'
     union all
    select p.path, format('unknown field; known are %s', array_to_string(s.fields, ', '))
      from (select 'definition' as part, k.key as path, k.key
              from jsonb_object_keys(case when jsonb_typeof(p_definition) = 'object' then p_definition else '{}' end) as k(key)
            union all
            select 'lifecycle', l.name || '.' || k.key, k.key from lifecycles l cross join lateral jsonb_object_keys(l.body) as k(key)
            union all
            select m.part, m.path || '.' || k.key, k.key
              from members m
             cross join lateral jsonb_object_keys(case when jsonb_typeof(m.member) = 'object' then m.member else '{}' end) as k(key)) p
      join shape s on s.part = p.part
     where p.key <> all (s.fields)
     union all
    select format('%s.%s', l.name, p.part), format('%s must be an array', p.part)
      from lifecycles l cross join (values ('states'), ('events'), ('transitions')) as p(part)
     where coalesce(jsonb_typeof(l.body -> p.part), '') <> 'array'
     union all
    select m.path, 'must be a JSON object' from members m where jsonb_typeof(m.member) <> 'object'
     union all
    select l.name, format('the lifecycle must be called %s.something', p_definition ->> 'vocabulary') from lifecycles l
     where l.given is null or not starts_with(l.given, (p_definition ->> 'vocabulary') || '.') or octet_length(l.given) > 127
     union all
    select l.name, 'the lifecycle is defined twice' from lifecycles l group by l.name having count(*) > 1
     union all
    select l.name, format('unknown kind %L', l.kind) from lifecycles l
     where l.kind is null or l.kind not in ('task', 'step', 'worker', 'circuit_breaker', 'custom')
     union all
    select l.name, format('initial state %L is not one of its states', l.initial_state) from lifecycles l
     where not exists (select from states s where s.name = l.name and s.state = l.initial_state)
     union all
    -- a name stands in notifications, of which 12 must fit into one
    select n.path, format('%L is not a name: it has 1 to 63 bytes, no quotes, backslashes or control characters', n.given)
      from (select s.path, s.state as given from states s union all select e.path, e.event from events e) n
     where n.given is null or octet_length(n.given) not between 1 and 63 or n.given ~ '["[:cntrl:]]' or position(chr(92) in n.given) > 0
     union all
    select s.name || '.' || s.state, 'the state is defined twice' from states s group by s.name, s.state having count(*) > 1
     union all
    select e.name || '.' || e.event, 'the event is defined twice' from events e group by e.name, e.event having count(*) > 1
     union all
    select coalesce(s.name || '.' || s.state, s.path), format('unknown phase %L for a %s', s.phase, s.kind) from states s
     where not exists (select from tasker.lifecycle_phases p
                        where p.phase = s.phase and (p.applies_to in ('any', s.kind) or s.kind = 'custom'))
     union all
    select coalesce(s.name || '.' || s.state, s.path), 'flags must be an array of names' from states s
     where coalesce(jsonb_typeof(s.flags), 'null') not in ('array', 'null')
     union all
    select coalesce(s.name || '.' || s.state, s.path), format('unknown flag %s', f.flag)
      from states s cross join lateral jsonb_array_elements(case when jsonb_typeof(s.flags) = 'array' then s.flags else '[]' end) as f(flag)
     where f.flag not in ('"is_terminal"', '"requires_ownership"', '"is_active"', '"is_waiting"', '"can_be_processed"', '"is_error"',
                          '"is_in_processing_pipeline"', '"is_ready_for_claiming"', '"satisfies_dependencies"')
     union all
    select s.name || '.' || s.state, 'no transition leads to it' from states s
     where s.state is not null and not exists (select from reachable r where r.name = s.name and r.state = s.state)
     union all
    select s.name || '.' || s.state, format('it is terminal, but %s leads out of it by itself', t.event)
      from states s join transitions t on t.name = s.name and t.from_state = s.state
     where s.is_terminal and t.fired_by <> 'command' and not t.is_legacy
     union all
    select s.name || '.' || s.state, 'it is not terminal and nothing leads out of it' from states s
     where s.state is not null and not s.is_terminal
       and not exists (select from transitions t where t.name = s.name and t.from_state = s.state)
     union all
    select t.path, format('unknown state %L', x.state)
      from transitions t cross join lateral (values (t.from_state), (t.to_state)) as x(state)
     where not exists (select from states s where s.name = t.name and s.state = x.state)
     union all
    select t.path, format('unknown event %L', t.event)
      from transitions t where not exists (select from events e where e.name = t.name and e.event = t.event)
     union all
    select t.path, format('unknown fired_by %L', t.fired_by)
      from transitions t where t.fired_by is null or t.fired_by not in ('operation', 'automatic', 'timer', 'command')
     union all
    select t.path, format('unknown severity %L', t.rule ->> 'severity')
      from transitions t where coalesce(t.rule ->> 'severity', 'info') not in ('info', 'warning', 'error', 'critical')
     union all
    select t.path, format('%s must be true or false', f.field)
      from transitions t cross join (values ('reports_result'), ('is_legacy'), ('is_addition')) as f(field)
     where coalesce(jsonb_typeof(t.rule -> f.field), 'null') not in ('boolean', 'null')
     union all
    select t.path, format('unknown guard %L for a %s', t.guard, t.kind)
      from transitions t
     where not exists (select from tasker.guards g
                        where g.guard = t.guard and (g.applies_to in ('any', t.kind) or t.kind = 'custom'))
     union all
    select t.path, format('unknown operation %L for a %s', t.operation, t.kind)
      from transitions t
     where t.operation is not null
       and not exists (select from tasker.engine_operations o where o.operation = t.operation and o.applies_to = t.kind)
     union all
    select t.path, 'the transition is defined twice'
      from transitions t group by t.path, t.name, t.from_state, t.event, t.to_state having count(*) > 1
     union all
    select t.path, 'a row before it has the same start and event and a guard that holds whenever its own does, so it can never be taken'
      from transitions t
     where exists (select from transitions o
                    where o.name = t.name and o.from_state = t.from_state and o.event = t.event
                      and o.guard in (t.guard, 'always') and o.position < t.position)
     union all
    select t.path, format('operation %s must lead to a state of phase %s', t.operation, array_to_string(o.phases, ' or '))
      from transitions t
      join leads_to o on o.operation = t.operation
      join states s on s.name = t.name and s.state = t.to_state
     where t.kind = 'step' and s.phase <> all (o.phases)
     union all
    select coalesce(s.name || '.' || s.state, s.path), format('nothing with operation %s leads out of it', array_to_string(o.operations, ' or '))
      from states s
      join (values ('waiting_retry', array['retry_due', 'claim']), ('circuit_open', array['retry_due']), ('trial', array['claim']),
                   ('reported_success', array['settle_success']), ('reported_failure', array['settle_failure']),
                   ('queued', array['claim']), ('running', array['report_success'])) as o(phase, operations) on o.phase = s.phase
     where s.kind = 'step'
       and not exists (select from transitions t where t.name = s.name and t.from_state = s.state and t.operation = any (o.operations))
     union all
    select t.path, 'guard validated waits for a verdict, and nothing with operation fail_validation leads out of the same state'
      from transitions t
     where t.guard = 'validated'
       and not exists (select from transitions f where f.name = t.name and f.from_state = t.from_state and f.operation = 'fail_validation')
     union all
    select r.role, format('there is no lifecycle %L of kind %s', r.name, r.kind)
      from roles r
     where r.name is not null
       and not exists (select from lifecycles l where l.given = r.name and l.kind = r.kind)
       and not exists (select from tasker.lifecycles l where l.lifecycle = r.name and l.kind = r.kind)
     union all
    -- without these a workflow would be accepted and never move
    select r.role, format('no transition has the operation %s', o.operation)
      from roles r
      join (values ('step', 'claim'), ('step', 'report_success'), ('step', 'report_failure'), ('task', 'advance')) as o(kind, operation) on o.kind = r.kind
     where exists (select from lifecycles l where l.given = r.name and l.kind = r.kind)
       and not exists (select from transitions t where t.name = r.name and t.operation = o.operation)
     union all
    select r.role, 'no state has the phase enqueuing, starting or running, in which the steps of a task are handed out'
      from roles r
     where r.kind = 'task' and exists (select from lifecycles l where l.given = r.name and l.kind = 'task')
       and not exists (select from states s where s.name = r.name and s.phase in ('enqueuing', 'starting', 'running'))
  )
  select coalesce(jsonb_agg(distinct jsonb_build_object('path', p.path, 'message', p.message)), '[]') from problems p
$$;
comment on function tasker.vocabulary_problems(jsonb) is 'Everything that is wrong with a vocabulary definition, at once.';
