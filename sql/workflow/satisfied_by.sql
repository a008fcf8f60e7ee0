create or replace function tasker.satisfied_by(p_moves tasker.step_move[], p_now boolean default true) returns uuid[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- several moves of a step in one call count as one: an optional step that failed and waits for its retry satisfies nobody
  with net as (
    select distinct on (m.workflow_step_uuid) m.workflow_step_uuid, m.lifecycle, m.to_state,
           first_value(m.from_state) over (partition by m.workflow_step_uuid order by m.sort_key) as from_state
      from unnest(p_moves) m
     order by m.workflow_step_uuid, m.sort_key desc
  )
  select coalesce(array_agg(m.workflow_step_uuid), '{}')
    from net m
    join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state
    join tasker.lifecycle_states o on o.lifecycle = m.lifecycle and o.state = m.from_state
   cross join lateral (select s.on_failure, s.left_out from tasker.workflow_steps s where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
   where (tasker.counts_as(n.counts_as, s.on_failure, s.left_out) = 'satisfied') = p_now
     and (tasker.counts_as(o.counts_as, s.on_failure, s.left_out) = 'satisfied') <> p_now
$$;
comment on function tasker.satisfied_by(tasker.step_move[], boolean) is
  'The steps that satisfy their dependents since these moves; with p_now false those that did and do not any more.';
