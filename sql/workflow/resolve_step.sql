create or replace function tasker.resolve_step(
  p_step_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_result jsonb default null,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'resolve_step', jsonb_build_array(p_step_uuid, p_reason, p_requested_by, p_result));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_step(
    p_step_uuid, array['resolve_step'], p_reason, p_requested_by,
    case when p_result is null then '{}' else jsonb_build_object('result', p_result) end)));
end
$$;
comment on function tasker.resolve_step(uuid, text, text, jsonb, text) is 'Declares a step done by hand (seed 004: ResolveManually). p_result becomes the input of its dependents.';
