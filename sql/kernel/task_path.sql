create or replace function tasker.task_path(
  p_lifecycle text,
  p_state     text,
  p_facts     tasker.task_facts,
  out hop        int,
  out from_state text,
  out event      text,
  out to_state   text,
  out phase      text,
  out terminal   boolean
) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  to_state := p_state;
  -- a lifecycle whose automatic transitions run in a circle stops here instead of for ever
  for v_hop in 1 .. 20 loop
    from_state := to_state;
    select r.event, r.to_state, s.phase, s.is_terminal
      into event, to_state, phase, terminal
      from tasker.lifecycle_transitions r
      join tasker.lifecycle_states s on s.lifecycle = r.lifecycle and s.state = r.to_state
     where r.lifecycle = p_lifecycle
       and r.from_state = task_path.from_state
       and r.operation = 'advance'
       and tasker.task_guard_holds(r.guard, p_facts)
     order by r.ordinal
     limit 1;
    exit when not found;
    hop := v_hop;
    return next;
    -- what entering the state changes: ready steps go to the queue, new results have been looked at
    if phase = 'enqueuing' and not p_facts.enqueue_failed then
      p_facts.pending_steps := p_facts.pending_steps - p_facts.ready_steps;
      p_facts.in_flight_steps := p_facts.in_flight_steps + p_facts.ready_steps;
      p_facts.ready_steps := 0;
    elsif phase = 'evaluating' then
      p_facts.new_results := 0;
    end if;
  end loop;
end
$$;
comment on function tasker.task_path(text, text, tasker.task_facts) is
  'The moves a task makes by itself from this state with these facts, until no guard holds any more. Pure: it reads only the rules.';
