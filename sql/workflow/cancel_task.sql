create or replace function tasker.cancel_task(p_task_uuid uuid, p_reason text, p_requested_by text) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  v_state := tasker.command_task(p_task_uuid, 'cancel_task', p_reason, p_requested_by);
  perform tasker.cancel_open_steps(p_task_uuid, jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true));
  return v_state;
end
$$;
comment on function tasker.cancel_task(uuid, text, text) is
  'Cancels a task and all its unfinished steps at once. Running work is fenced off: its reports are refused.';
