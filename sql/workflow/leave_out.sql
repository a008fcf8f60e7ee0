create or replace function tasker.leave_out(p_step_uuids uuid[], p_reason jsonb) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps    uuid[];
  v_moves    tasker.step_move[];
  v_released uuid[];
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return array[]::uuid[];
  end if;
  v_steps := p_step_uuids || array(
    with recursive after_them as (
      select e.to_step_uuid from tasker.workflow_step_edges e
        join tasker.workflow_steps s on s.workflow_step_uuid = e.from_step_uuid and s.skips_dependents
        join tasker.workflow_steps d on d.workflow_step_uuid = e.to_step_uuid and (d.options ->> 'run_when') is null
       where e.from_step_uuid = any (p_step_uuids)
       union
      select e.to_step_uuid from after_them a join tasker.workflow_step_edges e on e.from_step_uuid = a.to_step_uuid
        join tasker.workflow_steps d on d.workflow_step_uuid = e.to_step_uuid and (d.options ->> 'run_when') is null)
    select a.to_step_uuid from after_them a);
  perform tasker.lock_steps(v_steps);
  -- skipped where the lifecycle knows skipping, cancelled where it does not
  v_moves := array(select m from tasker.step_moves(v_steps, 'skip_step', p_reason) m);
  v_moves := v_moves || array(select m from tasker.step_moves(
    array(select u from unnest(v_steps) u where u not in (select m.workflow_step_uuid from unnest(v_moves) m)), 'cancel_step', p_reason) m);
  -- only what waits: an operator may have ended one of them
  v_moves := array(select m from unnest(v_moves) m
                     join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.from_state and s.phase = 'pending');
  update tasker.workflow_steps s set left_out = true where s.workflow_step_uuid in (select m.workflow_step_uuid from unnest(v_moves) m);
  perform tasker.append_step_transitions(v_moves);
  perform tasker.drop_waits(array(select m.workflow_step_uuid from unnest(v_moves) m));
  v_released := tasker.release_dependents(v_moves);
  return array(select r from unnest(v_released) r where r <> all (v_steps));
end
$$;
comment on function tasker.leave_out(uuid[], jsonb) is
  'Leaves these steps out, and what depends on them where they say so: they hold nobody up. Answers the steps that became ready by it. The caller holds the locks of the tasks.';
