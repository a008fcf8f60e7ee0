create or replace function tasker.reset_breaker(
  p_tool text,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'reset_breaker', jsonb_build_array(p_tool, p_reason, p_requested_by));
  v_breaker tasker.circuit_breakers;
  v_state   text;
begin
  perform tasker.refuse_bound_login('the circuit breakers of tools are shared by all');
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  v_breaker := tasker.lock_breaker_or_refuse(p_tool);
  v_state := tasker.move_breaker(p_tool, 'breaker_reset',
                                 jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true));
  if v_state is null then
    perform tasker.refuse_transition('circuit_breaker', v_breaker.circuit_breaker_uuid, v_breaker.lifecycle,
                                     tasker.breaker_state(p_tool), 'breaker_reset');
  end if;
  return tasker.end_request(p_request_id, v_state);
end
$$;
comment on function tasker.reset_breaker(text, text, text, text) is
  'Closes the breaker of a tool by hand (seed 001, Recovery 3); the log keeps reason and name.';
