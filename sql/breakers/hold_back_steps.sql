create or replace function tasker.hold_back_steps(
  p_step_uuids uuid[],
  p_claim_uuid uuid,
  p_lease      interval
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_tool    record;
  v_breaker tasker.circuit_breakers;
  v_phase   text;
  v_held    uuid[] := array[]::uuid[];
  v_these   uuid[];
  v_moves   tasker.step_move[];
begin
  if not exists (select from tasker.circuit_breakers) then
    return v_held;
  end if;
  for v_tool in
    select b.tool, array_agg(s.workflow_step_uuid order by asked.position) as steps
      from unnest(p_step_uuids) with ordinality as asked(workflow_step_uuid, position)
     cross join lateral (select s.workflow_step_uuid, coalesce(s.tool, s.handler) as tool from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
      join tasker.circuit_breakers b on b.tool = s.tool
     group by b.tool
     order by b.tool
  loop
    -- most are closed: they are looked at without a lock
    select * into v_breaker from tasker.circuit_breakers b where b.tool = v_tool.tool;
    continue when tasker.breaker_phase(v_breaker.circuit_breaker_uuid) = 'closed';
    -- Breakers come last in the order of locks, and a claim may go through several: it waits for none of them.
    perform from tasker.circuit_breakers b where b.tool = v_tool.tool for no key update skip locked;
    v_phase := case when found then tasker.breaker_phase(v_breaker.circuit_breaker_uuid) else 'moving' end;
    if v_phase = 'open' and tasker.move_breaker(v_tool.tool, 'breaker_cool') is not null then
      v_phase := 'half_open';
    end if;
    select * into v_breaker from tasker.circuit_breakers b where b.tool = v_tool.tool;
    continue when v_phase = 'closed';

    v_these := v_tool.steps;
    if v_phase = 'half_open' and (v_breaker.trial_permit_uuid is null or v_breaker.trial_expires_at <= tasker.clock()) then
      update tasker.circuit_breakers b
         set trial_step_uuid = v_these[1], trial_permit_uuid = p_claim_uuid,
             -- the lease of the claim ends first, and its failure is counted; this is the way out if even that is lost
             trial_expires_at = tasker.clock() + p_lease * 2
       where b.tool = v_tool.tool
      returning * into v_breaker;
      v_these := v_these[2:];
    end if;
    v_held := v_held || v_these;
    -- a step whose lifecycle says so goes to where it rests until the cooldown is over (seed 002: the circuit opens during the wait)
    v_moves := tasker.schedule_retries(array(
      select m from tasker.step_moves(v_these, 'hold_back', jsonb_build_object(
        'tool', v_tool.tool, 'retry_after',
        greatest(0.1, extract(epoch from coalesce(v_breaker.cools_until, v_breaker.trial_expires_at) - tasker.clock())))) m));
    perform tasker.append_step_transitions(v_moves);
    v_these := array(select h from unnest(v_these) h where h not in (select m.workflow_step_uuid from unnest(v_moves) m));
    insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key, tool)
    select coalesce(v_breaker.cools_until, v_breaker.trial_expires_at, tasker.clock() + interval '100 milliseconds'), 'requeue', s.task_uuid, s.namespace,
           s.workflow_step_uuid, c.sort_key, v_tool.tool
      from unnest(v_these) as held(workflow_step_uuid)
      join tasker.workflow_steps s on s.workflow_step_uuid = held.workflow_step_uuid
      join tasker.workflow_step_transitions c on c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent;
  end loop;
  return v_held;
end
$$;
comment on function tasker.hold_back_steps(uuid[], uuid, interval) is
  'Which of these locked steps may not run now, since the breaker of their tool is open: they wait in timers and use up no attempt. A half-open breaker lets exactly one through as its trial.';
