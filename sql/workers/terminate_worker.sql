create or replace function tasker.terminate_worker(
  p_worker_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'terminate_worker', jsonb_build_array(p_worker_uuid, p_reason, p_requested_by));
  v_state text;
begin
  if v_answer is not null then
    return v_answer;
  end if;
  v_state := tasker.command_worker(p_worker_uuid, 'worker_terminate', p_reason, p_requested_by);
  -- what it held goes to others at the next tick, as if its lease had ended
  update tasker.step_claims c set lease_expires_at = least(c.lease_expires_at, tasker.clock()) where c.worker_uuid = p_worker_uuid;
  perform tasker.wake_waiting_jobs();
  return tasker.end_request(p_request_id, v_state);
end
$$;
comment on function tasker.terminate_worker(uuid, text, text, text) is
  'Stops a worker by force (seed 003): its claims end at once and its late reports are refused.';
