create or replace function tasker.hand_out_steps(
  p_moves        tasker.step_move[],
  p_update_tasks boolean default true,
  p_claimant     tasker.claimant default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_hashjoin = on
as $$
declare
  v_claims tasker.step_move[] := tasker.claims_at_once(p_moves, p_claimant);
  v_taken  uuid[] := array(select c.workflow_step_uuid from unnest(v_claims) c);
  v_left   tasker.step_move[] := case cardinality(v_taken) when 0 then p_moves when cardinality(p_moves) then '{}'
                                   else array(select m from unnest(p_moves) m left join unnest(v_taken) t(step) on t.step = m.workflow_step_uuid
                                               where t.step is null) end;
begin
  if coalesce(cardinality(p_moves), 0) = 0 then
    return;
  end if;
  perform tasker.append_step_transitions(
    array(select (m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state,
                  m.sort_key, t.step is null, m.metadata)::tasker.step_move
            from unnest(p_moves) m left join unnest(v_taken) t(step) on t.step = m.workflow_step_uuid
           where m.event is not null) || v_claims, p_update_tasks);
  update tasker.workflow_steps s set handed_out_at = tasker.clock()
   where s.workflow_step_uuid = any (array(select m.workflow_step_uuid from unnest(p_moves) m where m.event is null));
  if cardinality(v_taken) > 0 then
    perform tasker.hold_steps(v_taken, p_claimant);
  end if;
  perform tasker.enqueue_steps(array(select m.workflow_step_uuid from unnest(v_left) m), true);
end
$$;
comment on function tasker.hand_out_steps(tasker.step_move[], boolean, tasker.claimant) is
  'Hands out what hand_outs found: logs the moves, marks the others, gives the claimant what it has room for, sends the rest to their queues.';
