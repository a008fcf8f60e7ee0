create or replace function tasker.template_steps(p_template jsonb, p_named_task_uuid uuid) returns setof tasker.named_steps
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off  -- the planner can't know how long a JSON array is
as $$
  with steps as materialized (
    select s.position::int as ordinal, s.step, s.step ->> 'name' as name
      from jsonb_array_elements(tasker.with_decisions(p_template) -> 'steps') with ordinality as s(step, position)
  ), dependencies as (
    select s.ordinal, array_agg(parent.ordinal order by parent.ordinal) as depends_on
      from steps s
     cross join lateral jsonb_array_elements_text(case when jsonb_typeof(s.step -> 'depends_on') = 'array'
                                                       then s.step -> 'depends_on' else '[]' end) as d(dependency)
      join steps parent on parent.name = d.dependency and parent.step ->> 'created_by' is null
     where s.step ->> 'created_by' is null
     group by s.ordinal
  ), possible as (  -- what may be created stands with the decision
    select c.step ->> 'created_by' as decision,
           jsonb_object_agg(c.name, jsonb_build_object('step', c.step - 'created_by', 'feeds', coalesce(f.names, '[]'),
                                                        'compensate', p_template -> 'compensate')) as creates
      from steps c
      left join (select d.dependency, jsonb_agg(s.name order by s.ordinal) as names
                   from steps s
                  cross join lateral jsonb_array_elements_text(case when jsonb_typeof(s.step -> 'depends_on') = 'array'
                                                                    then s.step -> 'depends_on' else '[]' end) as d(dependency)
                  where s.step ->> 'created_by' is null
                  group by d.dependency) f on f.dependency = c.name
     where c.step ->> 'created_by' is not null
     group by 1
  )
  select tasker.uuid_generate_v7(), p_named_task_uuid, s.name, coalesce(s.step ->> 'handler', s.name), s.ordinal,
         coalesce(d.depends_on, '{}'), coalesce(nullif(s.step -> 'arguments', 'null'), '{}'),
         coalesce((s.step ->> 'retryable')::boolean, true),
         coalesce((s.step ->> 'max_attempts')::numeric::int, 5),
         coalesce((s.step #>> '{retry,base_delay}')::double precision, 2) * interval '1 second',
         coalesce((s.step #>> '{retry,max_delay}')::double precision, 60) * interval '1 second',
         coalesce((s.step #>> '{retry,jitter}')::real, 0.25),
         (s.step ->> 'timeout_seconds')::double precision * interval '1 second',
         s.step ->> 'tool',
         coalesce((select array_agg(distinct c.capability order by c.capability)
                     from jsonb_array_elements_text(case when jsonb_typeof(s.step -> 'requires') = 'array'
                                                         then s.step -> 'requires' else '[]' end) as c(capability)), '{}'),
         coalesce(nullif(s.step -> 'acceptance', 'null'), '[]'),
         coalesce(s.step ->> 'on_failure', 'block'),
         tasker.condition_path(s.step ->> 'condition'),
         coalesce(s.step ->> 'when_unmet', 'skip') = 'skip_dependents',
         tasker.text_array(s.step -> 'sensitive'), coalesce((s.step ->> 'sensitive_result')::boolean, false),
         (s.step ->> 'delay_seconds')::double precision * interval '1 second',
         nullif(jsonb_strip_nulls(jsonb_build_object(
           'when_unmet', case when s.step ->> 'when_unmet' = 'fail' then 'fail' end,
           'for_each', tasker.condition_path(s.step ->> 'for_each')::text,
           'run_when', nullif(s.step ->> 'run_when', 'all_satisfied'),
           'dependencies', case when s.step ->> 'run_when' = 'any_satisfied' then cardinality(d.depends_on) end,
           'wait_for', nullif(s.step -> 'wait_for', 'null') || jsonb_build_object('key', tasker.condition_path(s.step #>> '{wait_for,key}')::text)))
                || case when s.step -> 'handler' = 'null' and jsonb_typeof(s.step -> 'wait_for') = 'object' then '{"handler": null}'::jsonb else '{}' end
                -- an object that is handed on keeps its nulls
                || case when jsonb_typeof(s.step -> 'workflow') = 'object'
                        then jsonb_build_object('workflow', (s.step -> 'workflow')
                               || case when jsonb_typeof(s.step #> '{workflow,context}') = 'string'
                                       then jsonb_build_object('context', tasker.condition_path(s.step #>> '{workflow,context}')::text) else '{}' end)
                        else '{}' end
                || case when jsonb_typeof(s.step -> 'undo') in ('string', 'object') then jsonb_build_object('undo',
                     case jsonb_typeof(s.step -> 'undo') when 'string' then jsonb_build_object('handler', s.step -> 'undo') else s.step -> 'undo' end
                     || jsonb_build_object('when', coalesce(nullif(p_template -> 'compensate', 'null'), '["failed"]'))) else '{}' end
                || case when p.creates is not null then jsonb_build_object('creates', p.creates) else '{}' end, '{}')
    from steps s
    left join dependencies d on d.ordinal = s.ordinal
    left join possible p on p.decision = s.name
   where s.step ->> 'created_by' is null
$$;
comment on function tasker.template_steps(jsonb, uuid) is
  'The steps of a valid workflow definition as rows, with the defaults of seed 002: 5 attempts, 2 s doubling to 60 s, 25 % jitter. Their timeout is found when a task is created.';
