create or replace function tasker.hand_out_steps(p_moves tasker.step_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(cardinality(p_moves), 0) = 0 then
    return;
  end if;
  perform tasker.append_step_transitions(array(select m from unnest(p_moves) m where m.event is not null));
  update tasker.workflow_steps s set handed_out_at = tasker.clock()
   where s.workflow_step_uuid in (select m.workflow_step_uuid from unnest(p_moves) m where m.event is null);
  perform tasker.enqueue_steps(array(select m.workflow_step_uuid from unnest(p_moves) m),
                               array(select m.task_uuid from unnest(p_moves) m),
                               array(select m.namespace from unnest(p_moves) m), true);
end
$$;
comment on function tasker.hand_out_steps(tasker.step_move[]) is
  'Hands out what hand_outs found: logs the moves, marks the others, sends all to their queues.';
