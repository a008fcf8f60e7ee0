create or replace function tasker.vocabulary_problems(p_definition jsonb) returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive lifecycles as (
    select l.lifecycle ->> 'lifecycle' as name, l.lifecycle ->> 'kind' as kind, l.lifecycle ->> 'initial_state' as initial_state,
           l.lifecycle as body
      from jsonb_array_elements(case when jsonb_typeof(p_definition -> 'lifecycles') = 'array'
                                     then p_definition -> 'lifecycles' else '[]' end) as l(lifecycle)
  ), states as (
    select l.name, l.kind, s.state ->> 'state' as state, s.state ->> 'phase' as phase, s.state -> 'flags' ? 'is_terminal' as is_terminal
      from lifecycles l, jsonb_array_elements(l.body -> 'states') as s(state)
  ), events as (
    select l.name, e.event ->> 'event' as event from lifecycles l, jsonb_array_elements(l.body -> 'events') as e(event)
  ), transitions as (
    select l.name, l.kind, t.position, t.rule ->> 'from' as from_state, t.rule ->> 'event' as event, t.rule ->> 'to' as to_state,
           t.rule ->> 'fired_by' as fired_by, t.rule ->> 'operation' as operation, coalesce(t.rule ->> 'guard', 'always') as guard,
           coalesce((t.rule ->> 'is_legacy')::boolean, false) as is_legacy
      from lifecycles l, jsonb_array_elements(l.body -> 'transitions') with ordinality as t(rule, position)
  ), reachable as (
    select l.name, l.initial_state as state from lifecycles l
     union
    select t.name, t.to_state from transitions t join reachable r on r.name = t.name and r.state = t.from_state
  ), problems (path, message) as (
    select 'vocabulary', 'a vocabulary needs a name of lower-case letters, digits and underscores'
     where coalesce(p_definition ->> 'vocabulary', '') !~ '^[a-z][a-z0-9_]{0,62}$'
     union all
    select 'lifecycles', 'a vocabulary needs at least one lifecycle' where not exists (select from lifecycles)
     union all
    select l.name, format('the lifecycle must be called %s.something', p_definition ->> 'vocabulary') from lifecycles l
     where l.name is null or l.name not like (p_definition ->> 'vocabulary') || '.%'
     union all
    select l.name, format('unknown kind %L', l.kind) from lifecycles l
     where l.kind is null or l.kind not in ('task', 'step', 'worker', 'circuit_breaker', 'custom')
     union all
    select l.name, format('initial state %L is not one of its states', l.initial_state) from lifecycles l
     where not exists (select from states s where s.name = l.name and s.state = l.initial_state)
     union all
    select s.name || '.' || s.state, 'the state is defined twice' from states s group by s.name, s.state having count(*) > 1
     union all
    select s.name || '.' || s.state, format('unknown phase %L for a %s', s.phase, s.kind) from states s
     where not exists (select from tasker.lifecycle_phases p
                        where p.phase = s.phase and (p.applies_to in ('any', s.kind) or s.kind = 'custom'))
     union all
    select s.name || '.' || s.state, 'no transition leads to it' from states s
     where not exists (select from reachable r where r.name = s.name and r.state = s.state)
     union all
    select s.name || '.' || s.state, format('it is terminal, but %s leads out of it by itself', t.event)
      from states s join transitions t on t.name = s.name and t.from_state = s.state
     where s.is_terminal and t.fired_by <> 'command' and not t.is_legacy
     union all
    select s.name || '.' || s.state, 'it is not terminal and nothing leads out of it' from states s
     where not s.is_terminal and not exists (select from transitions t where t.name = s.name and t.from_state = s.state)
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state), format('unknown state %L', x.state)
      from transitions t cross join lateral (values (t.from_state), (t.to_state)) as x(state)
     where not exists (select from states s where s.name = t.name and s.state = x.state)
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state), format('unknown event %L', t.event)
      from transitions t where not exists (select from events e where e.name = t.name and e.event = t.event)
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state), format('unknown fired_by %L', t.fired_by)
      from transitions t where t.fired_by is null or t.fired_by not in ('operation', 'automatic', 'timer', 'command')
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state), format('unknown guard %L for a %s', t.guard, t.kind)
      from transitions t
     where not exists (select from tasker.guards g
                        where g.guard = t.guard and (g.applies_to in ('any', t.kind) or t.kind = 'custom'))
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state), format('unknown operation %L for a %s', t.operation, t.kind)
      from transitions t
     where t.operation is not null
       and not exists (select from tasker.engine_operations o where o.operation = t.operation and o.applies_to = t.kind)
     union all
    select format('%s: %s -%s-> %s', t.name, t.from_state, t.event, t.to_state),
           format('a row before it has the same start, event and guard, so it can never be taken')
      from transitions t
     where exists (select from transitions o
                    where o.name = t.name and o.from_state = t.from_state and o.event = t.event
                      and o.guard = t.guard and o.position < t.position)
     union all
    select format('%s.%s', x.kind, x.name), 'the vocabulary names a lifecycle that is neither its own nor known'
      from (values ('task_lifecycle', p_definition ->> 'task_lifecycle'), ('step_lifecycle', p_definition ->> 'step_lifecycle'),
                   ('worker_lifecycle', p_definition ->> 'worker_lifecycle'),
                   ('circuit_breaker_lifecycle', p_definition ->> 'circuit_breaker_lifecycle')) as x(kind, name)
     where x.name is not null
       and not exists (select from lifecycles l where l.name = x.name)
       and not exists (select from tasker.lifecycles l where l.lifecycle = x.name)
  )
  select coalesce(jsonb_agg(distinct jsonb_build_object('path', p.path, 'message', p.message)), '[]') from problems p
$$;
comment on function tasker.vocabulary_problems(jsonb) is 'Everything that is wrong with a vocabulary definition, at once.';
