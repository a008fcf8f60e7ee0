create or replace function tasker.resolve_task(
  p_task_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'resolve_task', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_task(p_task_uuid, 'resolve_task', p_reason, p_requested_by)));
end
$$;
comment on function tasker.resolve_task(uuid, text, text, text) is 'Declares a blocked task done by hand (seed 004: ManualResolution).';
