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
  v_held  uuid[];
begin
  v_claim := tasker.uuid_generate_v7();
  v_now := tasker.clock();
  -- a step that was cancelled a moment ago makes no move, nor does one of a task that has ended
  v_moves := array(select m from tasker.step_moves(v_steps, 'claim', jsonb_build_object('worker_uuid', p_worker_uuid,
                                                                                        'claim_uuid', v_claim)) m
                    cross join lateral (select from tasker.tasks t
                                         where t.task_uuid = m.task_uuid and t.completed_at is null limit 1) goes_on);
  if cardinality(v_moves) = 0 then
    return;
  end if;
  v_held := tasker.hold_back_steps(array(select m.workflow_step_uuid from unnest(v_moves) m), v_claim, p_lease);
  if cardinality(v_held) > 0 then
    v_moves := array(select m from unnest(v_moves) m where m.workflow_step_uuid <> all (v_held));
    if cardinality(v_moves) = 0 then
      return;
    end if;
  end if;
  v_steps := array(select m.workflow_step_uuid from unnest(v_moves) m);

  update tasker.workflow_steps s
     set claim_uuid = v_claim, worker_uuid = p_worker_uuid, handed_out_at = null, left_out = false, attempts = s.attempts + 1, last_attempted_at = v_now,
         max_attempts = greatest(s.max_attempts, s.attempts + 1)  -- whoever sent it back to work wants one more attempt
   where s.workflow_step_uuid = any (v_steps);
  insert into tasker.step_claims (claim_uuid, worker_uuid, namespace, step_uuids, open_steps, claimed_at, lease_expires_at, first_timeout_at)
  select v_claim, p_worker_uuid, p_namespace, v_steps, cardinality(v_steps), v_now, v_now + p_lease, v_now + min(s.timeout)
    from tasker.workflow_steps s
   where s.workflow_step_uuid = any (v_steps);
  perform tasker.append_step_transitions(v_moves);
  if cardinality(p_starting) > 0 then
    perform tasker.start_tasks(p_starting, v_steps);
  end if;

  return query
  select s.workflow_step_uuid, s.task_uuid, s.namespace, t.name, s.name, s.handler, s.attempts, s.max_attempts, v_claim,
         v_now + p_lease, s.timeout,
         case when s.sensitive is null then s.arguments
              else tasker.reveal(coalesce(s.named_step_uuid, s.workflow_step_uuid), 'arguments', s.arguments) end,
         case when t.sensitive is null then t.context else tasker.reveal(t.task_uuid, 'context', t.context) end,
         i.inputs,
         t.correlation_id, coalesce(s.tool, s.handler), s.acceptance,
         (select case when s.sensitive_result then tasker.reveal(s.workflow_step_uuid, 'checkpoint', k.checkpoint) else k.checkpoint end
            from tasker.step_checkpoints k where k.workflow_step_uuid = s.workflow_step_uuid)
    from unnest(v_steps) with ordinality as claimed(workflow_step_uuid, position)
   cross join lateral (select * from tasker.workflow_steps s
                        where s.workflow_step_uuid = claimed.workflow_step_uuid limit 1) s
   cross join lateral (select * from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
   cross join lateral tasker.step_inputs(s.workflow_step_uuid) i
   order by claimed.position;
end
$$;
comment on function tasker.claim_from_queue(uuid, text, uuid[], uuid[], interval) is
  'Claims locked steps that stood in the queues of one namespace. p_starting: tasks whose first step this may be. The claim key is the fence: the report must carry it.';
