create or replace function tasker.pop_claimable(p_queue_name text, p_limit int, p_worker tasker.workers) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_messages jsonb[];
  v_steps    uuid[] := array[]::uuid[];
  v_found    uuid[];
  v_foreign  uuid[];
  v_waiting  uuid[];
  v_limited  uuid[];
  v_rounds   int := 0;
  v_aside    int;
  v_last     boolean;  -- fewer messages were there than asked for
begin
  if to_regclass('pgmq.' || quote_ident('q_' || p_queue_name)) is null then
    return v_steps;
  end if;
  -- Messages of steps that were cancelled or resolved meanwhile are dropped, and others taken in their place: what was
  -- cancelled in front must not look like an empty queue.
  loop
    select array_agg(p.message order by p.msg_id)
      into v_messages
      from pgmq.pop(p_queue_name, p_limit - cardinality(v_steps)) p;
    exit when v_messages is null;
    v_last := cardinality(v_messages) < p_limit - cardinality(v_steps);

    -- what nobody of ours sent would otherwise come back for ever
    if exists (select from unnest(v_messages) m where tasker.is_uuid(m ->> 'step_uuid') is not true) then
      perform tasker.reject_transition('message', null, 'TK400', format('queue %s held a message without a step', p_queue_name),
                                       jsonb_build_object('message', m))
         from unnest(v_messages) m
        where tasker.is_uuid(m ->> 'step_uuid') is not true;
      v_messages := array(select m from unnest(v_messages) with ordinality as k(m, position) where tasker.is_uuid(m ->> 'step_uuid') order by position);
    end if;

    select coalesce(array_agg(asked.step_uuid order by asked.position) filter (where handled.here), '{}'),
           array_agg(asked.step_uuid order by asked.position) filter (where not handled.here)
      into v_found, v_foreign
        from (select (m.message ->> 'step_uuid')::uuid as step_uuid, min(m.position) as position
                from unnest(v_messages) with ordinality as m(message, position)
               group by 1) asked  -- a step that was taken out by hand and put back has two messages here
       cross join lateral (select t.lifecycle, t.to_state, t.task_uuid from tasker.workflow_step_transitions t
                            where t.workflow_step_uuid = asked.step_uuid and t.most_recent limit 1) c
       cross join lateral (select p_worker.handlers is null
                                  or (select s.handler = any (p_worker.handlers) from tasker.workflow_steps s
                                       where s.workflow_step_uuid = asked.step_uuid limit 1) as here) handled
       where asked.step_uuid <> all (v_steps)
         -- where a lifecycle has no cancelled state, its steps outlive the task as they are
         and (c.lifecycle in (select l.lifecycle from tasker.lifecycles l where l.queues_by_state)
              or (select k.completed_at is null from tasker.tasks k where k.task_uuid = c.task_uuid))
         and (select true from tasker.lifecycle_transitions r
               where r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'claim' limit 1);
    if v_foreign is not null then
      perform tasker.leave_to_others(v_foreign, p_worker.worker_uuid);
    end if;
    -- nor must what waits for a breaker or a limit, or is left to others; but a long queue of it is worked off in several calls
    v_waiting := tasker.wait_for_breakers(v_found);
    if cardinality(v_waiting) > 0 then
      v_found := array(select f.step from unnest(v_found) with ordinality as f(step, position) where f.step <> all (v_waiting) order by f.position);
    end if;
    v_limited := tasker.wait_for_limits(v_found);
    if cardinality(v_limited) > 0 then
      v_found := array(select f.step from unnest(v_found) with ordinality as f(step, position) where f.step <> all (v_limited) order by f.position);
    end if;
    v_steps := v_steps || v_found;
    v_aside := cardinality(v_waiting) + cardinality(v_limited) + coalesce(cardinality(v_foreign), 0);
    v_rounds := v_rounds + least(v_aside, 1);
    -- an empty queue is not asked twice, unless what was put aside made room for others
    exit when cardinality(v_steps) >= p_limit or v_rounds >= 50 or (v_last and v_aside = 0);
  end loop;
  return v_steps;
end
$$;
comment on function tasker.pop_claimable(text, int, tasker.workers) is
  'Takes messages out of a queue until it has p_limit steps that this worker may claim, or the queue is empty. Their state is read without a lock: the caller locks and looks again.';
