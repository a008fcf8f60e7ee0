create or replace function tasker.skip_step(
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
  v_answer text := tasker.begin_request(p_request_id, 'skip_step', jsonb_build_array(p_step_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_step(p_step_uuid, array['skip_step'], p_reason, p_requested_by)));
end
$$;
comment on function tasker.skip_step(uuid, text, text, text) is 'Leaves a step out, where its vocabulary knows skipping.';
