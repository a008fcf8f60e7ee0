create or replace function tasker.unmet_dependencies_of(p_step_uuid uuid) returns int
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(d.edges, 0) - tasker.dependencies_met(s.options, d.done, d.excused, d.finished)
         + case when s.options ? 'wait_for' and exists (select from tasker.event_waits w
                                                         where w.workflow_step_uuid = s.workflow_step_uuid and w.ended_at is null)
                then tasker.wait_weight(s.options) else 0 end
    from tasker.workflow_steps s
   cross join lateral (
     select count(*)::int as edges, (count(*) filter (where x.counts_as = 'satisfied'))::int as done,
            (count(*) filter (where x.counts_as = 'failed' and tasker.counts_as(x.counts_as, p.on_failure, p.left_out) = 'satisfied'))::int as excused,
            (count(*) filter (where x.counts_as in ('satisfied', 'failed')))::int as finished
       from tasker.workflow_step_edges e
      cross join lateral (select p.on_failure, p.left_out from tasker.workflow_steps p where p.workflow_step_uuid = e.from_step_uuid limit 1) p
      cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                           where c.workflow_step_uuid = e.from_step_uuid and c.most_recent limit 1) c
       join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
      where e.to_step_uuid = p_step_uuid and e.waived is null) d
   where s.workflow_step_uuid = p_step_uuid
$$;
comment on function tasker.unmet_dependencies_of(uuid) is 'What unmet_dependencies of a step must be: counted anew from the states of what it depends on, and the event that it waits for.';
