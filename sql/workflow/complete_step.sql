create or replace function tasker.complete_step(
  p_step_uuid uuid,
  p_claim_uuid uuid,
  p_result jsonb default null,
  p_execution_time_ms bigint default null,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'complete_step', jsonb_build_array(p_step_uuid, p_claim_uuid, p_result, p_execution_time_ms));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.report_step(
    jsonb_build_object('step_uuid', p_step_uuid, 'claim_uuid', p_claim_uuid, 'success', true, 'result', p_result,
                       'execution_time_ms', p_execution_time_ms))));
end
$$;
comment on function tasker.complete_step(uuid, uuid, jsonb, bigint, text) is 'Reports the result of one claimed step and returns its new state. TK412 when the claim is not current any more.';
