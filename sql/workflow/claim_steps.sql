create or replace function tasker.claim_steps(
  p_worker_uuid uuid,
  p_namespaces  text[] default null,
  p_limit       int default 1,
  p_lease       interval default '30 seconds'
) returns setof tasker.claimed_step
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_worker tasker.workers;
  v_queue  record;
  v_left   int;
  v_phase  text;
  v_ended  boolean;
  v_steps  uuid[];
  v_popped uuid[] := array[]::uuid[];
  v_spaces text[] := array[]::text[];
  v_space  text;
  v_starting uuid[];
  v_claimed boolean := false;
  v_fair   boolean := random() < 0.1;
  v_bound  text[] := tasker.bound_namespaces();
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform tasker.raise_error('TK400', format('can''t claim %s steps at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Claim 1 to 10,000 steps in one call.');
  end if;
  perform tasker.refuse_lease(p_lease);
  v_worker := tasker.lock_worker_or_refuse(p_worker_uuid);
  if exists (select from tasker.job_workers j where j.worker_uuid = p_worker_uuid and j.released_at is not null) then
    perform tasker.end_released_worker(p_worker_uuid);
    v_worker := tasker.lock_worker_or_refuse(p_worker_uuid);
  end if;
  select s.phase, s.is_terminal into v_phase, v_ended
    from tasker.worker_transitions t join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
   where t.worker_uuid = p_worker_uuid and t.most_recent;
  if v_ended then
    perform tasker.refuse_transition('worker', p_worker_uuid, v_worker.lifecycle, tasker.worker_state(p_worker_uuid), 'claim');
  elsif v_phase = 'unresponsive' then
    perform tasker.move_worker(p_worker_uuid, 'worker_recover');
    v_phase := tasker.worker_phase(p_worker_uuid);
  end if;
  -- asking for work is a sign of life; it is written down three times in a heartbeat interval at most
  if v_worker.last_heartbeat_at not between tasker.clock() - v_worker.heartbeat_interval / 3 and tasker.clock() then
    update tasker.workers w set last_heartbeat_at = tasker.clock() where w.worker_uuid = p_worker_uuid;
  end if;
  -- capacity is judged under the lock of the worker, so that its own calls can't overbook it
  v_left := least(p_limit, v_worker.max_concurrent - tasker.held_steps(p_worker_uuid));
  if v_phase not in ('idle', 'busy')
     -- a worker that is given to jobs works for nobody before
     or (v_phase = 'idle' and not exists (select from tasker.worker_transitions t
                                            join tasker.lifecycle_transitions r on r.lifecycle = t.lifecycle and r.from_state = t.to_state
                                                                               and r.operation = 'worker_assign'
                                           where t.worker_uuid = p_worker_uuid and t.most_recent))
     or v_worker.shutdown_requested_at is not null or v_left <= 0 then
    return;
  end if;

  -- Urgent ones first, and otherwise a new order every time, so that no namespace starves behind a busy one. One claim in
  -- ten looks at no priority, so that nothing starves behind what is urgent.
  for v_queue in
    select q.namespace, q.queue_name
      from (select n.namespace, n.queue_name, 0 as priority from tasker.task_namespaces n where n.paused_at is null
            union all
            select c.namespace, c.queue_name, c.priority
              from tasker.work_queues c join tasker.task_namespaces n on n.namespace = c.namespace and n.paused_at is null
             where c.requires <@ v_worker.capabilities
            union all
            select l.namespace, null, l.priority from tasker.left_to_others(v_worker) l where exists (select from tasker.handler_waits)) q
     where q.namespace = any (coalesce(p_namespaces, v_worker.namespaces, array[q.namespace]))
       and (v_bound is null or q.namespace = any (v_bound))
     -- what others left was in front already
     order by case when v_fair then 0 else q.priority end desc, q.queue_name is not null, random()
  loop
    v_steps := case when v_queue.queue_name is null then tasker.take_left_steps(v_queue.namespace, v_worker, v_left)
                    else tasker.pop_claimable(v_queue.queue_name, v_left, v_worker) end;
    if cardinality(v_steps) > 0 then
      v_popped := v_popped || v_steps;
      if v_queue.namespace <> all (v_spaces) then
        v_spaces := v_spaces || v_queue.namespace;
      end if;
      v_left := v_left - cardinality(v_steps);
      exit when v_left <= 0;
    end if;
  end loop;
  if cardinality(v_popped) > 0 then
    -- everything is locked at once and in one order, whatever queues it came from
    v_starting := tasker.lock_for_claim(v_popped);
    foreach v_space in array v_spaces loop
      return query
      select * from tasker.claim_from_queue(p_worker_uuid, v_space,
                                            case when cardinality(v_spaces) = 1 then v_popped
                                                 else array(select p.step from unnest(v_popped) with ordinality as p(step, position)
                                                             cross join lateral (select s.namespace from tasker.workflow_steps s
                                                                                  where s.workflow_step_uuid = p.step limit 1) s
                                                             where s.namespace = v_space order by p.position) end,
                                            v_starting, p_lease);
      continue when not found;
      v_claimed := true;
      if v_phase = 'idle' then
        perform tasker.move_worker(p_worker_uuid, 'worker_assign');
        v_phase := 'busy';
      end if;
    end loop;
  end if;
  if v_phase = 'busy' and not v_claimed then
    perform tasker.move_worker(p_worker_uuid, 'worker_finish');  -- the guard: it holds nothing any more
  end if;
end
$$;
comment on function tasker.claim_steps(uuid, text[], int, interval) is
  'Hands up to p_limit steps to a worker, never more than it has room for: message taken, state changed, lease started in one transaction. p_namespaces null: those of the worker, or all. A worker that is paused, ending or full gets none; one that named its handlers gets no step of another one, which waits for others and uses up no attempt.';
