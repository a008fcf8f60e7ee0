create or replace function tasker.retry_step(p_step_uuid uuid, p_reason text, p_requested_by text) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_step_or_refuse(p_step_uuid);
  -- an attempt that an operator asks for must be possible
  update tasker.workflow_steps s set max_attempts = s.attempts + 1
   where s.workflow_step_uuid = p_step_uuid and s.attempts >= s.max_attempts;
  return tasker.command_step(p_step_uuid, array['retry_step', 'retry_due'], p_reason, p_requested_by);
end
$$;
comment on function tasker.retry_step(uuid, text, text) is
  'Sends a failed or waiting step back to work now (seed 004: Retry from WaitingForRetry or Error). It gets at least one more attempt.';
