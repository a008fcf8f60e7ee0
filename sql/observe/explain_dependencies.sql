create or replace function tasker.explain_dependencies(p_step_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case when w.elements is not null then format('waits for %s of its %s elements: %s', w.unmet_dependencies, w.elements, d.open_ones)
              else case w.run_when
           when 'any_satisfied' then
             case when tasker.may_be_met(p_step_uuid) then 'waits for the first of its dependencies: '
                  else 'can''t start: none of its dependencies is left that could satisfy it: ' end || d.open_ones
           when 'all_finished' then format('waits for %s of its dependencies to end: %s', w.unmet_dependencies, d.open_ones)
           else format('waits for %s of its dependencies: %s', w.unmet_dependencies, d.open_ones) end end
    from (select s.unmet_dependencies, s.options ->> 'run_when' as run_when, s.options -> 'elements' as elements from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid) w
   cross join lateral (
     select string_agg(o.name || ' (' || o.to_state || ')', ', ' order by o.ordinal) as open_ones
       from (select p.name, p.ordinal, c.to_state
               from tasker.workflow_step_edges e
              cross join lateral (select * from tasker.workflow_steps p where p.workflow_step_uuid = e.from_step_uuid limit 1) p
              cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                                   where c.workflow_step_uuid = e.from_step_uuid and c.most_recent limit 1) c
               join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
              where e.to_step_uuid = p_step_uuid and e.waived is null
                and case when w.run_when = 'all_finished' then x.counts_as not in ('satisfied', 'failed')
                         else tasker.counts_as(x.counts_as, p.on_failure, p.left_out) <> 'satisfied' end
              order by p.ordinal limit 5) o) d
$$;
comment on function tasker.explain_dependencies(uuid) is 'What a step that can''t start yet waits for, in words.';
