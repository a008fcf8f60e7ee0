create or replace function tasker.record_step_results(p_moves tasker.step_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_result record;
begin
  if not exists (select from tasker.circuit_breakers) then
    return;
  end if;
  for v_result in
    select b.tool,
           (count(*) filter (where r.success))::int as successes, (count(*) filter (where not r.success))::int as failures,
           (array_agg(r.error order by m.transition_uuid desc) filter (where not r.success))[1] as error,
           bool_or(b.trial_step_uuid = s.workflow_step_uuid and b.trial_permit_uuid = r.claim_uuid) as is_trial
      -- a result may have taken several moves
      from (select distinct on (m.workflow_step_uuid) m.* from unnest(p_moves) m order by m.workflow_step_uuid, m.sort_key desc) m
     cross join lateral (select s.workflow_step_uuid, s.result_transition_uuid, coalesce(s.tool, s.handler) as tool
                           from tasker.workflow_steps s where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
     cross join lateral (select (t.metadata ->> 'success')::boolean as success, t.metadata -> 'error' as error,
                                (t.metadata ->> 'claim_uuid')::uuid as claim_uuid
                           from tasker.workflow_step_transitions t
                          where t.workflow_step_transition_uuid = s.result_transition_uuid
                            -- what the engine ends itself, by a condition or an event that never came, called no tool
                            and t.metadata ->> 'worker_uuid' is not null limit 1) r
      join tasker.circuit_breakers b on b.tool = s.tool
     group by b.tool
     order by b.tool
  loop
    perform tasker.count_breaker_results(v_result.tool, v_result.successes, v_result.failures, v_result.error,
                                         coalesce(v_result.is_trial, false));
  end loop;
end
$$;
comment on function tasker.record_step_results(tasker.step_move[]) is
  'Tells the circuit breakers how the settled steps went, tool by tool in name order. Without breakers it costs one look.';
