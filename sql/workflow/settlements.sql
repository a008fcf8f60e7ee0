create or replace function tasker.settlements(p_moves tasker.step_move[])
  returns table(workflow_step_uuid uuid, done int, excused int, finished int, decides boolean)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- several moves of a step in one call count as one: an optional step that failed and waits for its retry satisfies nobody
  with net as (
    select distinct on (m.workflow_step_uuid) m.workflow_step_uuid, m.lifecycle, m.to_state,
           first_value(m.from_state) over (partition by m.workflow_step_uuid order by m.sort_key) as from_state
      from unnest(p_moves) m
     where m.event is not null
     order by m.workflow_step_uuid, m.sort_key desc
  ), judged as (
    select m.workflow_step_uuid, n.counts_as as is_now, o.counts_as as it_was, s.decides,
           tasker.counts_as(n.counts_as, s.on_failure, s.left_out) as counts_now, tasker.counts_as(o.counts_as, s.on_failure, s.left_out) as counted
      from net m
      join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state
      join tasker.lifecycle_states o on o.lifecycle = m.lifecycle and o.state = m.from_state
     cross join lateral (select s.on_failure, s.left_out, coalesce(s.options ? 'creates', false) as decides from tasker.workflow_steps s where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
     where n.counts_as <> o.counts_as
  )
  select j.workflow_step_uuid,
         (j.is_now = 'satisfied')::int - (j.it_was = 'satisfied')::int,
         (j.is_now = 'failed' and j.counts_now = 'satisfied')::int - (j.it_was = 'failed' and j.counted = 'satisfied')::int,
         (j.is_now in ('satisfied', 'failed'))::int - (j.it_was in ('satisfied', 'failed'))::int,
         j.decides
    from judged j
$$;
comment on function tasker.settlements(tasker.step_move[]) is
  'What these moves mean for dependents, 1 for what became so and -1 for what is so no more. done: it ended well; excused: it was left out, or is optional and failed, and holds nobody up; finished: it ended, however. decides: it says which steps are created.';
