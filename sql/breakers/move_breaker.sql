create or replace function tasker.move_breaker(p_tool text, p_operation text, p_metadata jsonb default '{}') returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_breaker tasker.circuit_breakers;
  v_current tasker.circuit_breaker_transitions;
  v_rule    tasker.lifecycle_transitions;
  v_phase   text;
begin
  select * into v_breaker from tasker.circuit_breakers b where b.tool = p_tool;
  select * into v_current from tasker.circuit_breaker_transitions t
   where t.circuit_breaker_uuid = v_breaker.circuit_breaker_uuid and t.most_recent;
  select * into v_rule
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_breaker.lifecycle and r.from_state = v_current.to_state and r.operation = p_operation
     and tasker.breaker_guard_holds(
           r.guard, row(v_breaker.failures, v_breaker.failure_threshold, v_breaker.successes, v_breaker.success_threshold,
                        v_breaker.error_repeats, v_breaker.max_error_repeats,
                        coalesce(v_breaker.cools_until <= tasker.clock(), true))::tasker.breaker_facts)
   order by r.ordinal limit 1;
  if not found then
    return null;
  end if;

  with ended as (
    update tasker.circuit_breaker_transitions t set most_recent = false, updated_at = clock_timestamp()
     where t.circuit_breaker_uuid = v_breaker.circuit_breaker_uuid and t.most_recent
    returning 1
  )
  insert into tasker.circuit_breaker_transitions
    (circuit_breaker_uuid, lifecycle, from_state, event, to_state, metadata, sort_key, most_recent)
  select v_breaker.circuit_breaker_uuid, v_rule.lifecycle, v_rule.from_state, v_rule.event, v_rule.to_state,
         p_metadata || jsonb_build_object('tool', p_tool, 'failures', v_breaker.failures), v_current.sort_key + 1, true
   where (select count(*) from ended) = 1;

  select s.phase into v_phase from tasker.lifecycle_states s where s.lifecycle = v_rule.lifecycle and s.state = v_rule.to_state;
  update tasker.circuit_breakers b
     set generation = b.generation + 1, successes = 0, trial_step_uuid = null, trial_permit_uuid = null, trial_expires_at = null,
         failures = case when v_phase = 'closed' then 0 else b.failures end,
         error_repeats = case when v_phase = 'closed' then 0 else b.error_repeats end,
         cools_until = case when v_phase = 'open' then tasker.clock() + b.cooldown end
   where b.tool = p_tool
  returning * into v_breaker;

  if v_phase = 'open' then
    insert into tasker.timers (due_at, kind, tool, sort_key)
    values (v_breaker.cools_until, 'breaker_cooldown', p_tool, v_current.sort_key + 1);
  else
    -- what it held back may be tried again: all of it, or whatever comes first as the trial
    perform tasker.let_go_steps(p_tool);
  end if;
  return v_rule.to_state;
end
$$;
comment on function tasker.move_breaker(text, text, jsonb) is
  'Makes the move that this operation is in the lifecycle of a locked breaker, with what follows: cooldown timer, steps let go. Null when there is none from here or its guard does not hold.';
