create or replace function tasker.leave_out_steps(p_ready_steps uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_reason   constant jsonb := jsonb_build_object('left_out', true, 'reason', 'its condition does not hold, or that of a step it depends on');
  v_ready    uuid[] := p_ready_steps;
  v_unmet    uuid[] := tasker.fail_unmet(tasker.unmet_conditions(p_ready_steps));
  v_moves    tasker.step_move[];
  v_released uuid[];
begin
  while cardinality(v_unmet) > 0 loop
    v_unmet := v_unmet || array(
      with recursive after_them as (
        select e.to_step_uuid from tasker.workflow_step_edges e
          join tasker.workflow_steps s on s.workflow_step_uuid = e.from_step_uuid and s.skips_dependents
          join tasker.workflow_steps d on d.workflow_step_uuid = e.to_step_uuid and (d.options ->> 'run_when') is null
         where e.from_step_uuid = any (v_unmet)
         union
        select e.to_step_uuid from after_them a join tasker.workflow_step_edges e on e.from_step_uuid = a.to_step_uuid
          join tasker.workflow_steps d on d.workflow_step_uuid = e.to_step_uuid and (d.options ->> 'run_when') is null)
      select a.to_step_uuid from after_them a);
    perform tasker.lock_steps(v_unmet);
    -- skipped where the lifecycle knows skipping, cancelled where it does not
    v_moves := array(select m from tasker.step_moves(v_unmet, 'skip_step', c_reason) m);
    v_moves := v_moves || array(select m from tasker.step_moves(
      array(select u from unnest(v_unmet) u where u not in (select m.workflow_step_uuid from unnest(v_moves) m)), 'cancel_step', c_reason) m);
    -- only what waits: an operator may have ended one of them
    v_moves := array(select m from unnest(v_moves) m
                       join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.from_state and s.phase = 'pending');
    update tasker.workflow_steps s set left_out = true where s.workflow_step_uuid in (select m.workflow_step_uuid from unnest(v_moves) m);
    perform tasker.append_step_transitions(v_moves);
    v_released := tasker.release_dependents(v_moves);
    v_ready := array(select r from unnest(v_ready || v_released) r where r <> all (v_unmet));
    v_unmet := tasker.fail_unmet(tasker.unmet_conditions(v_released));
  end loop;
  return v_ready;
end
$$;
comment on function tasker.leave_out_steps(uuid[]) is
  'Leaves out those of these ready steps whose condition does not hold (seed 002: SKIPPED, conditional not met), and what depends on them where they say so. Answers the ready steps that remain, with those that became ready by it. The caller holds the locks of the tasks.';
