create or replace function tasker.hand_outs(p_step_uuids uuid[]) returns setof tasker.step_move
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_moves int;
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return;
  end if;
  return query select m.* from tasker.step_moves(p_step_uuids, 'enqueue') m;
  get diagnostics v_moves = row_count;
  if v_moves = cardinality(p_step_uuids) then
    return;
  end if;
  -- where queued steps have no state of their own, being handed out is no move: event and to_state stay empty
  return query
  select null::uuid, s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle, c.to_state, null::text, null::text, c.sort_key, true, null::jsonb
    from unnest(p_step_uuids) as asked(workflow_step_uuid)
   cross join lateral (select s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle, s.unmet_dependencies, s.handed_out_at
                         from tasker.workflow_steps s
                        where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
    join tasker.lifecycles l on l.lifecycle = s.lifecycle and not l.queues_by_state
   cross join lateral (select t.to_state, t.sort_key from tasker.workflow_step_transitions t
                        where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = s.lifecycle and x.state = c.to_state and x.phase = 'pending'
   where s.unmet_dependencies <= 0 and s.handed_out_at is null;
end
$$;
comment on function tasker.hand_outs(uuid[]) is
  'Which of these steps are ready to be handed out: the move into the queue, or a row without event where the lifecycle has no state for that.';
