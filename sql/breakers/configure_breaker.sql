create or replace function tasker.configure_breaker(
  p_tool              text,
  p_failure_threshold int default 5,
  p_cooldown          interval default '60 seconds',
  p_success_threshold int default 1,
  p_max_error_repeats int default null,
  p_vocabulary        text default 'tasker',
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'configure_breaker', jsonb_build_array(p_tool, p_failure_threshold, p_cooldown, p_success_threshold, p_max_error_repeats, p_vocabulary));
  v_lifecycle tasker.lifecycles;
  v_uuid      uuid;
begin
  perform tasker.refuse_bound_login('the circuit breakers of tools are shared by all');
  if v_answer is not null then
    return v_answer;
  end if;
  if coalesce(p_tool, '') = '' or coalesce(p_failure_threshold, 0) < 1 or coalesce(p_success_threshold, 0) < 1
     or p_cooldown is null or p_cooldown not between interval '0' and interval '366 days' or p_max_error_repeats < 1 then
    perform tasker.raise_error('TK400', 'a circuit breaker needs a tool, thresholds of at least 1 and a cooldown of at most 366 days',
                               jsonb_build_object('tool', p_tool, 'failure_threshold', p_failure_threshold, 'cooldown', p_cooldown,
                                                  'success_threshold', p_success_threshold, 'max_error_repeats', p_max_error_repeats));
  end if;
  select l.* into v_lifecycle
    from tasker.vocabularies v join tasker.lifecycles l on l.lifecycle = v.circuit_breaker_lifecycle
   where v.vocabulary = p_vocabulary;
  if not found then
    perform tasker.raise_error('TK404', format('there is no vocabulary %s with circuit breakers', p_vocabulary),
                               jsonb_build_object('vocabulary', p_vocabulary));
  end if;
  insert into tasker.circuit_breakers (tool, lifecycle, failure_threshold, cooldown, success_threshold, max_error_repeats)
  values (p_tool, v_lifecycle.lifecycle, p_failure_threshold, p_cooldown, p_success_threshold, p_max_error_repeats)
      on conflict (tool) do nothing
  returning circuit_breaker_uuid into v_uuid;
  if v_uuid is not null then
    insert into tasker.circuit_breaker_transitions (circuit_breaker_uuid, lifecycle, event, to_state, metadata, sort_key, most_recent)
    values (v_uuid, v_lifecycle.lifecycle, 'create', v_lifecycle.initial_state, jsonb_build_object('tool', p_tool), 1, true);
  else
    update tasker.circuit_breakers b
       set failure_threshold = p_failure_threshold, cooldown = p_cooldown, success_threshold = p_success_threshold,
           max_error_repeats = p_max_error_repeats
     where b.tool = p_tool;
  end if;
  return tasker.end_request(p_request_id, tasker.breaker_state(p_tool));
end
$$;
comment on function tasker.configure_breaker(text, int, interval, int, int, text, text) is
  'Gives a tool a circuit breaker, or changes its settings (seed 001 configuration; seed 002 max_error_repeats). Answers its state.';
