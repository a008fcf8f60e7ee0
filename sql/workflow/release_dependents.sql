create or replace function tasker.release_dependents(p_moves tasker.step_move[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_ready   uuid[];
  v_decided uuid[];
begin
  with settled as materialized (
    select * from tasker.settlements(p_moves)
  ), counted as (
    update tasker.workflow_steps s
       set unmet_dependencies = s.unmet_dependencies - tasker.dependencies_met(s.options, d.done, d.excused, d.finished)
      from (select e.to_step_uuid, sum(x.done)::int as done, sum(x.excused)::int as excused, sum(x.finished)::int as finished
              from settled x
             cross join lateral (select e.to_step_uuid from tasker.workflow_step_edges e
                                  where e.from_step_uuid = x.workflow_step_uuid and e.waived is null offset 0) e
             group by e.to_step_uuid) d
     where s.workflow_step_uuid = d.to_step_uuid
       and tasker.dependencies_met(s.options, d.done, d.excused, d.finished) <> 0
    returning s.workflow_step_uuid, s.unmet_dependencies, tasker.dependencies_met(s.options, d.done, d.excused, d.finished) as met
  )
  select (select array_agg(c.workflow_step_uuid order by c.workflow_step_uuid)
            from counted c
           where c.unmet_dependencies <= 0 and c.unmet_dependencies + c.met > 0),
         (select array_agg(x.workflow_step_uuid) from settled x where x.decides and x.done = 1)
    into v_ready, v_decided;
  if v_decided is not null then
    v_ready := v_ready || tasker.create_decided(v_decided);
    -- some wait for what was created
    v_ready := array(select r from unnest(v_ready) r
                      cross join lateral (select from tasker.workflow_steps s where s.workflow_step_uuid = r and s.unmet_dependencies <= 0 limit 1) s);
  end if;
  return coalesce(v_ready, '{}');
end
$$;
comment on function tasker.release_dependents(tasker.step_move[]) is
  'Seed 004 TriggerStepDiscoveryAction: counts steps that these moves settled down in their dependents, and up again where a settled one was sent back to work; returns those that became ready. One call for all results of a batch, under the lock of the task, so that no two parents can miss each other.';
