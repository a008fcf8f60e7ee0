create or replace function tasker.retry_step(
  p_step_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'retry_step', jsonb_build_array(p_step_uuid, p_reason, p_requested_by));
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_step_or_refuse(p_step_uuid);
  -- an attempt that an operator asks for must be possible
  update tasker.workflow_steps s set max_attempts = s.attempts + 1
   where s.workflow_step_uuid = p_step_uuid and s.attempts >= s.max_attempts;
  return tasker.end_request(p_request_id, tasker.command_step(p_step_uuid, array['retry_step', 'retry_due'], p_reason, p_requested_by));
end
$$;
comment on function tasker.retry_step(uuid, text, text, text) is
  'Sends a failed or waiting step back to work now (seed 004: Retry from WaitingForRetry or Error). It gets at least one more attempt.';
