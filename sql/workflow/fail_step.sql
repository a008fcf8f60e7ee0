create or replace function tasker.fail_step(
  p_step_uuid uuid,
  p_claim_uuid uuid,
  p_error jsonb,
  p_category text default 'unknown',
  p_retry_after interval default null,
  p_execution_time_ms bigint default null,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'fail_step', jsonb_build_array(p_step_uuid, p_claim_uuid, p_error, p_category, p_retry_after, p_execution_time_ms));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.report_step(
    jsonb_build_object('step_uuid', p_step_uuid, 'claim_uuid', p_claim_uuid, 'success', false, 'error', p_error,
                       'category', p_category, 'retry_after', extract(epoch from p_retry_after),
                       'execution_time_ms', p_execution_time_ms))));
end
$$;
comment on function tasker.fail_step(uuid, uuid, jsonb, text, interval, bigint, text) is 'Reports that one claimed step failed. p_category: transient and unknown failures are retried while attempts are left, permanent ones are final; p_retry_after overrides the backoff.';
