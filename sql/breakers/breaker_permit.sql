create or replace function tasker.breaker_permit(
  p_tool  text,
  p_lease interval default '60 seconds',
  out allowed     boolean,
  out permit_uuid uuid,
  out state       text,
  out retry_at    timestamptz
) returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_breaker tasker.circuit_breakers;
  v_phase   text;
begin
  perform tasker.refuse_bound_login('the circuit breakers of tools are shared by all');
  perform tasker.refuse_lease(p_lease);
  v_breaker := tasker.lock_breaker_or_refuse(p_tool);
  v_phase := tasker.breaker_phase(v_breaker.circuit_breaker_uuid);
  if v_phase = 'open' and tasker.move_breaker(p_tool, 'breaker_cool') is not null then
    v_breaker := tasker.lock_breaker_or_refuse(p_tool);
    v_phase := tasker.breaker_phase(v_breaker.circuit_breaker_uuid);
  end if;
  state := tasker.breaker_state(p_tool);
  allowed := v_phase = 'closed'
             or (v_phase = 'half_open' and (v_breaker.trial_permit_uuid is null or v_breaker.trial_expires_at <= tasker.clock()));
  if allowed then
    permit_uuid := tasker.uuid_generate_v7();
    if v_phase = 'half_open' then  -- the one trial; given out again if it never reports
      update tasker.circuit_breakers b
         set trial_permit_uuid = breaker_permit.permit_uuid, trial_step_uuid = null, trial_expires_at = tasker.clock() + p_lease
       where b.tool = p_tool;
    end if;
  else
    retry_at := coalesce(v_breaker.cools_until, v_breaker.trial_expires_at);
  end if;
end
$$;
comment on function tasker.breaker_permit(text, interval) is
  'May the tool be called now? For callers outside the engine: closed allows all, open none until retry_at, half open exactly one trial. Report with record_breaker_result and the permit.';
