create or replace function tasker.count_breaker_results(
  p_tool       text,
  p_successes  int,
  p_failures   int,
  p_error      jsonb,
  p_is_trial   boolean
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_breaker   tasker.circuit_breakers;
  v_phase     text;
  v_signature text := md5(coalesce(p_error ->> 'type', '') || ':' || coalesce(p_error ->> 'message', p_error::text, ''));
begin
  v_breaker := tasker.lock_breaker_or_refuse(p_tool);
  v_phase := tasker.breaker_phase(v_breaker.circuit_breaker_uuid);
  if v_phase = 'closed' then
    if p_failures > 0 then
      update tasker.circuit_breakers b
         set failures = b.failures + p_failures,
             error_repeats = case when b.last_error_signature = v_signature then b.error_repeats + p_failures else p_failures - 1 end,
             last_error_signature = v_signature
       where b.tool = p_tool;
      perform tasker.move_breaker(p_tool, 'breaker_trip', jsonb_build_object('error', p_error));
    elsif p_successes > 0 and (v_breaker.failures > 0 or v_breaker.error_repeats > 0 or v_breaker.last_error_signature is not null) then
      update tasker.circuit_breakers b set failures = 0, error_repeats = 0, last_error_signature = null where b.tool = p_tool;
    end if;
  elsif v_phase = 'half_open' and p_is_trial then
    if p_failures > 0 then
      perform tasker.move_breaker(p_tool, 'breaker_reopen', jsonb_build_object('error', p_error));
    else
      update tasker.circuit_breakers b
         set successes = b.successes + 1, trial_step_uuid = null, trial_permit_uuid = null, trial_expires_at = null
       where b.tool = p_tool;
      if tasker.move_breaker(p_tool, 'breaker_close') is null then  -- the next trial may begin
        perform tasker.let_go_steps(p_tool);
      end if;
    end if;
  end if;
  -- results of calls that were let through before it opened say nothing about now
  return tasker.breaker_state(p_tool);
end
$$;
comment on function tasker.count_breaker_results(text, int, int, jsonb, boolean) is
  'Counts results of one tool and moves its breaker. While it is half open only its trial decides; late results of older calls do not.';
