create or replace function tasker.skip_dependents(p_moves tasker.step_move[]) returns tasker.step_move[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_failed uuid[];
  v_moves  tasker.step_move[];
  v_done   tasker.step_move[] := array[]::tasker.step_move[];
begin
  -- only where the lifecycle knows skipping, and only from steps that do not come back by themselves
  if not exists (select from (select distinct m.lifecycle from unnest(p_moves) m) l
                   join tasker.lifecycle_transitions r on r.lifecycle = l.lifecycle and r.operation = 'skip_dependent') then
    return v_done;
  end if;
  v_failed := array(
    select m.workflow_step_uuid
      from (select distinct on (m.workflow_step_uuid) m.* from unnest(p_moves) m
             where m.event is not null order by m.workflow_step_uuid, m.sort_key desc) m
      join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.to_state
     cross join lateral (select w.on_failure, w.left_out from tasker.workflow_steps w where w.workflow_step_uuid = m.workflow_step_uuid limit 1) w
     where (tasker.counts_as(s.counts_as, w.on_failure, w.left_out) = 'failed' or s.phase = 'circuit_open'));
  while cardinality(v_failed) > 0 loop
    v_failed := array(select distinct e.to_step_uuid from tasker.workflow_step_edges e
                       cross join lateral (select s.options ->> 'run_when' as run_when from tasker.workflow_steps s
                                            where s.workflow_step_uuid = e.to_step_uuid limit 1) d
                       where e.from_step_uuid = any (v_failed)
                         -- one that needs a single dependency can't run when the last of them has failed
                         and (d.run_when is null or (d.run_when = 'any_satisfied' and not tasker.may_be_met(e.to_step_uuid))));
    perform tasker.lock_steps(v_failed);
    v_moves := array(select m from tasker.step_moves(v_failed, 'skip_dependent', '{"reason": "a step it depends on ended without success"}') m);
    perform tasker.append_step_transitions(v_moves);
    perform tasker.drop_waits(array(select m.workflow_step_uuid from unnest(v_moves) m));
    v_done := v_done || v_moves;
    -- an optional step that is left out holds nobody up
    v_failed := array(select x.workflow_step_uuid from tasker.settlements(v_moves) x where x.finished = 1 and x.excused = 0);
  end loop;
  return v_done;
end
$$;
comment on function tasker.skip_dependents(tasker.step_move[]) is
  'Leaves out what can''t run any more since a step it depends on ended without success, and what depends on that (seed 002: SKIPPED). Returns the moves it made.';
