create or replace function tasker.record_breaker_result(
  p_tool        text,
  p_success     boolean,
  p_error       jsonb default null,
  p_permit_uuid uuid default null,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'record_breaker_result', jsonb_build_array(p_tool, p_success, p_error, p_permit_uuid));
  v_breaker tasker.circuit_breakers;
begin
  perform tasker.refuse_bound_login('the circuit breakers of tools are shared by all');
  if v_answer is not null then
    return v_answer;
  end if;
  if p_success is null then
    perform tasker.raise_error('TK400', 'a result is a success or a failure', jsonb_build_object('tool', p_tool));
  end if;
  v_breaker := tasker.lock_breaker_or_refuse(p_tool);
  return tasker.end_request(p_request_id, tasker.count_breaker_results(
    p_tool, p_success::int, (not p_success)::int, p_error,
    v_breaker.trial_permit_uuid is not null and v_breaker.trial_permit_uuid = p_permit_uuid));
end
$$;
comment on function tasker.record_breaker_result(text, boolean, jsonb, uuid, text) is
  'Reports how a call of a tool ended, for callers outside the engine. Answers the state of its breaker.';
