create or replace function tasker.recover_one(p_problem text, p_task_uuid uuid, p_step_uuid uuid, p_metadata jsonb) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_phase text;
  v_step  tasker.workflow_steps;
  v_moves tasker.step_move[];
begin
  perform tasker.lock_tasks(array[p_task_uuid]);
  if p_problem = 'task_waiting_for_retry_without_timer' then
    insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
    select tasker.clock(), 'task_retry', c.task_uuid, c.namespace, c.sort_key
      from tasker.task_transitions c
      join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'task_retry_due'
     where c.task_uuid = p_task_uuid and c.most_recent;
    return found;
  elsif p_step_uuid is null then
    perform tasker.drive_tasks(array[p_task_uuid], null, array[]::uuid[], null, p_metadata);
    return true;
  end if;

  perform tasker.lock_steps(array[p_step_uuid]);
  select * into v_step from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid;
  select x.phase into v_phase
    from tasker.workflow_step_transitions c join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
   where c.workflow_step_uuid = p_step_uuid and c.most_recent;
  -- what was found was found without a lock
  if p_problem = 'queued_without_message'
     and (v_phase in ('queued', 'trial') or (v_phase = 'pending' and v_step.handed_out_at is not null)) then
    perform tasker.enqueue_steps(array[p_step_uuid]);
  elsif p_problem = 'waits_for_what_is_there' then
    perform tasker.tell_step(p_step_uuid);
  elsif p_problem = 'reported_without_message' and v_phase in ('reported_success', 'reported_failure') then
    perform tasker.wake_orchestration(array[p_step_uuid]);
  elsif p_problem = 'running_without_claim' and v_phase in ('running', 'validating')
        and not exists (select from tasker.step_claims k where k.claim_uuid = v_step.claim_uuid) then
    update tasker.workflow_steps s set claim_uuid = coalesce(s.claim_uuid, tasker.uuid_generate_v7())
     where s.workflow_step_uuid = p_step_uuid
    returning * into v_step;
    perform from tasker.apply_reports(array[(1, p_step_uuid, v_step.claim_uuid, false,
      p_metadata || '{"success": false, "category": "transient", "lease_expired": true, "error": {"type": "claim_lost", "message": "nobody held it any more"}}',
      null)::tasker.step_report]);
  elsif p_problem = 'waiting_for_retry_without_timer' and v_phase in ('waiting_retry', 'circuit_open') then
    v_moves := array(select m from tasker.step_moves(array[p_step_uuid], 'retry_due', p_metadata) m);
    perform tasker.append_step_transitions(v_moves);
    perform tasker.resend_steps(array[p_step_uuid]);
    perform tasker.drive_tasks(array[p_task_uuid], array[p_step_uuid]);
  else
    return false;
  end if;
  return true;
end
$$;
comment on function tasker.recover_one(text, uuid, uuid, jsonb) is
  'Mends one thing that recover found, if it still is so under the locks.';
