create or replace function tasker.claim_from_queue(
  p_worker_uuid uuid,
  p_namespace   text,
  p_step_uuids  uuid[],
  p_starting    uuid[],
  p_lease       interval
) returns setof tasker.claimed_step
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_steps uuid[] := p_step_uuids;
  v_moves tasker.step_move[];
  v_claim uuid;
  v_now   timestamptz;
  v_waiting uuid[];
  v_held  uuid[];
begin
  v_claim := tasker.uuid_generate_v7();
  v_now := tasker.clock();
  -- a step that was cancelled a moment ago makes no move, nor does one of a task that has ended
  v_moves := array(select m from tasker.step_moves(v_steps, 'claim', jsonb_build_object('worker_uuid', p_worker_uuid,
                                                                                        'claim_uuid', v_claim)) m
                    cross join lateral (select from tasker.tasks t
                                         where t.task_uuid = m.task_uuid and t.completed_at is null limit 1) goes_on);
  v_waiting := tasker.claim_slots(array(select m.workflow_step_uuid from unnest(v_moves) m), v_now, true);
  v_held := v_waiting || tasker.hold_back_steps(array(select m.workflow_step_uuid from unnest(v_moves) m where m.workflow_step_uuid <> all (v_waiting)),
                                                v_claim, p_lease);
  if cardinality(v_held) > 0 then
    v_moves := array(select m from unnest(v_moves) m where m.workflow_step_uuid <> all (v_held));
  end if;
  if cardinality(v_moves) < cardinality(p_step_uuids) then
    -- what was taken or kept for those that are not claimed after all
    perform tasker.free_slots(array(select s from unnest(p_step_uuids) s
                                     where s <> all (v_waiting) and s not in (select m.workflow_step_uuid from unnest(v_moves) m)));
  end if;
  if cardinality(v_moves) = 0 then
    return;
  end if;
  v_steps := array(select m.workflow_step_uuid from unnest(v_moves) m);

  perform tasker.hold_steps(v_steps, (p_worker_uuid, v_claim, p_namespace, null, null, v_now, p_lease)::tasker.claimant);
  -- where queued and running count the same, the task is not even locked
  perform tasker.append_step_transitions(v_moves, exists (select from unnest(v_moves) m
                                                            join tasker.lifecycles l on l.lifecycle = m.lifecycle and not l.queues_by_state));
  if cardinality(p_starting) > 0 then
    perform tasker.start_tasks(p_starting, v_steps);
  end if;

  return query select c.* from tasker.handed_over(v_steps) c;
end
$$;
comment on function tasker.claim_from_queue(uuid, text, uuid[], uuid[], interval) is
  'Claims locked steps that stood in the queues of one namespace. p_starting: tasks whose first step this may be. The claim key is the fence: the report must carry it.';
