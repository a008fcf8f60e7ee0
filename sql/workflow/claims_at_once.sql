create or replace function tasker.claims_at_once(p_moves tasker.step_move[], p_claimant tasker.claimant) returns tasker.step_move[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_worker   tasker.workers;
  v_room     int;
  v_priority int;
  v_claims   tasker.step_move[];
  v_without  uuid[];
begin
  if coalesce((p_claimant).room, 0) <= 0 or cardinality(p_moves) = 0 then
    return array[]::tasker.step_move[];
  end if;
  select * into v_worker from tasker.workers w where w.worker_uuid = (p_claimant).worker_uuid;
  -- what it has just reported it holds no more
  v_room := least((p_claimant).room, v_worker.max_concurrent - tasker.held_steps((p_claimant).worker_uuid));
  if v_room <= 0 then
    return array[]::tasker.step_move[];
  end if;
  select greatest(0, max(q.priority)) into v_priority from tasker.work_queues q where q.namespace = (p_claimant).namespace;
  v_claims := array(
    select c
      from tasker.follow_moves(array(
             select m
               from unnest(p_moves) m
              cross join lateral (select from tasker.workflow_steps s
                                   where s.workflow_step_uuid = m.workflow_step_uuid and s.requires <@ (p_claimant).capabilities
                                     and (v_worker.handlers is null or s.handler = any (v_worker.handlers))
                                     and s.delay is null and (s.options is null or not tasker.runs_in_engine(s.options)) limit 1) fits
              -- what is more urgent may wait in a queue of its own
              cross join lateral (select from tasker.tasks t
                                   where t.task_uuid = m.task_uuid and tasker.queue_priority(t.priority) >= v_priority limit 1) first
              where m.event is not null
                and m.namespace = (p_claimant).namespace
              limit v_room),
             'claim', jsonb_build_object('worker_uuid', (p_claimant).worker_uuid, 'claim_uuid', (p_claimant).claim_uuid)) c);
  v_without := tasker.claim_slots(array(select c.workflow_step_uuid from unnest(v_claims) c), (p_claimant).claimed_at, false);
  if cardinality(v_without) > 0 then  -- they wait in their queues
    v_claims := array(select c from unnest(v_claims) c where c.workflow_step_uuid <> all (v_without));
  end if;
  return v_claims;
end
$$;
comment on function tasker.claims_at_once(tasker.step_move[], tasker.claimant) is
  'Which of the steps that are being handed out the claimant takes without their ever standing in a queue, and the moves that claim them.';
