create or replace function tasker.with_decisions(p_template jsonb) returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
  select case when jsonb_typeof(p_template -> 'steps') is distinct from 'array' or not jsonb_path_exists(p_template, '$.steps[*].created_by') then p_template
              else jsonb_set(p_template, '{steps}', (
    with steps as materialized (
      select s.position, s.step, s.step ->> 'name' as name, s.step ->> 'created_by' as decision,
             case when jsonb_typeof(s.step -> 'depends_on') = 'array' then s.step -> 'depends_on' else '[]' end as depends_on
        from jsonb_array_elements(p_template -> 'steps') with ordinality as s(step, position)
    ), implied as (
      select s.position, s.decision from steps s where s.decision is not null
       union
      select s.position, c.decision
        from steps s cross join lateral jsonb_array_elements(s.depends_on) as d(name)
        join steps c on c.name = d.name #>> '{}' and c.decision is not null
       where c.decision <> s.name
    ), added as (
      select i.position, jsonb_agg(i.decision order by i.decision) as decisions
        from implied i join steps s on s.position = i.position
       where not s.depends_on ? i.decision
       group by i.position
    )
    select jsonb_agg(case when a.decisions is null or jsonb_typeof(s.step) <> 'object' then s.step
                          else s.step || jsonb_build_object('depends_on', s.depends_on || a.decisions) end order by s.position)
      from steps s left join added a on a.position = s.position)) end
$$;
comment on function tasker.with_decisions(jsonb) is
  'A workflow definition in which what a decision creates, and what depends on that, depends on the decision too.';
