create or replace function tasker.find_cycle(p_template jsonb) returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off  -- the planner can't know how long a JSON array is
set jit = off
as $$
declare
  v_names    text[];
  v_indegree int[];
  v_first    int[];   -- where the dependents of a step begin in v_children
  v_children int[];
  v_queue    int[] := array[]::int[];
  v_head     int := 1;
  v_child    int;
begin
  if jsonb_typeof(p_template -> 'steps') is distinct from 'array' then
    return array[]::text[];
  end if;
  with steps as materialized (
    select min(s.position)::int as first_position, s.step ->> 'name' as name,
           (row_number() over (order by min(s.position)))::int as number
      from jsonb_array_elements(p_template -> 'steps') with ordinality as s(step, position)
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'name' is not null
     group by s.step ->> 'name'
  ), edges as materialized (
    select distinct parent.number as parent, child.number as child
      from jsonb_array_elements(p_template -> 'steps') as s(step)
     cross join lateral jsonb_array_elements_text(case when jsonb_typeof(s.step) = 'object' and jsonb_typeof(s.step -> 'depends_on') = 'array'
                                                       then s.step -> 'depends_on' else '[]' end) as d(dependency)
      join steps child on child.name = s.step ->> 'name'
      join steps parent on parent.name = d.dependency
     where parent.number <> child.number
  ), counted as (
    select s.number, s.name, coalesce(p.edges, 0)::int as parents, coalesce(c.edges, 0)::int as children
      from steps s
      left join (select e.child, count(*) as edges from edges e group by e.child) p on p.child = s.number
      left join (select e.parent, count(*) as edges from edges e group by e.parent) c on c.parent = s.number
  ), placed as (
    select c.*, (1 + sum(c.children) over (order by c.number) - c.children)::int as first_child from counted c
  )
  select array_agg(p.name order by p.number), array_agg(p.parents order by p.number),
         array_agg(p.first_child order by p.number),
         (select array_agg(e.child order by e.parent, e.child) from edges e)
    into v_names, v_indegree, v_first, v_children
    from placed p;

  -- Kahn: take away what waits for nothing, until nothing changes
  for v_step in 1 .. coalesce(cardinality(v_names), 0) loop
    if v_indegree[v_step] = 0 then
      v_queue := v_queue || v_step;
    end if;
  end loop;
  while v_head <= cardinality(v_queue) loop
    for v_place in v_first[v_queue[v_head]]
                .. coalesce(v_first[v_queue[v_head] + 1], coalesce(cardinality(v_children), 0) + 1) - 1 loop
      v_child := v_children[v_place];
      v_indegree[v_child] := v_indegree[v_child] - 1;
      if v_indegree[v_child] = 0 then
        v_queue := v_queue || v_child;
      end if;
    end loop;
    v_head := v_head + 1;
  end loop;
  return array(select n.name from unnest(v_names, v_indegree) with ordinality as n(name, left_over, number)
                where n.left_over > 0 order by n.number);
end
$$;
comment on function tasker.find_cycle(jsonb) is
  'The steps of a workflow definition that lie on or behind a circle of dependencies; empty when there is none.';
