create or replace function tasker.drive_tasks(
  p_task_uuids     uuid[],
  p_ready_steps    uuid[] default null,
  p_with_results   uuid[] default '{}',
  p_processor_uuid uuid default null,
  p_metadata       jsonb default null,
  p_uncounted      tasker.step_move[] default null,
  p_claimant       tasker.claimant default null
) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_hashjoin = on
set jit = off
as $$
declare
  v_counts       tasker.drive_counts := (0, 0, 0, 0, 0);
  v_progress     tasker.task_progress[];  -- of p_uncounted: counted once, asked often
  v_ready        uuid[] := p_ready_steps;
  v_enqueue      tasker.step_move[];
  v_moves        tasker.task_move[];
  v_enqueuing    uuid[];
  v_others       uuid[];
  v_idle         uuid[];
  v_failing      uuid[];
  v_failed       uuid[];
begin
  if coalesce(cardinality(p_task_uuids), 0) = 0 then
    return v_counts;
  end if;

  if p_uncounted is not null then
    v_progress := array(select p from tasker.progress_of(p_uncounted) p);
  end if;
  if exists (select from tasker.tasks t where t.task_uuid = any (p_task_uuids) and t.worker_count is not null) then
    perform tasker.allocate_workers(p_task_uuids);
  end if;

  -- The caller knows which steps became ready, or every step of these tasks is looked at.
  if v_ready is null then
    v_ready := tasker.ready_steps_of(p_task_uuids);
  end if;
  v_ready := tasker.prepare_steps(v_ready);
  v_enqueue := array(select m from tasker.hand_outs(v_ready) m);
  select array_agg(asked.task_uuid) filter (where idle.waiting_retry = 0), array_agg(asked.task_uuid) filter (where case when idle.failed > 0 then tasker.open_waits(asked.task_uuid) = 0 end)
    into v_idle, v_failing
    from unnest(p_task_uuids) as asked(task_uuid)
    left join unnest(v_progress) p on p.task_uuid = asked.task_uuid
   cross join lateral (select t.waiting_retry_steps + coalesce(p.waiting_retry, 0) as waiting_retry, t.failed_steps + coalesce(p.failed, 0) as failed
                         from tasker.tasks t
                        where t.task_uuid = asked.task_uuid and t.pending_steps + coalesce(p.pending, 0) > 0
                          and t.in_flight_steps + coalesce(p.in_flight, 0) = 0 limit 1) idle
   where asked.task_uuid not in (select m.task_uuid from unnest(v_enqueue) m);
  if p_ready_steps is not null and v_idle is not null then
    -- A task that would come to rest with nothing under way is looked at whole: after a move by hand steps may be ready of which
    -- the caller knows nothing.
    v_ready := tasker.prepare_steps(tasker.ready_steps_of(v_idle));
    if cardinality(v_ready) > 0 then
      v_enqueue := v_enqueue || array(select m from tasker.hand_outs(v_ready) m);
    end if;
  end if;
  while v_failing is not null loop  -- nothing is left that moves: now those that run however the others end
    v_ready := tasker.waive_dependencies(array(select f from unnest(v_failing) f except select m.task_uuid from unnest(v_enqueue) m), p_ready_steps is null);
    exit when cardinality(v_ready) = 0;
    v_enqueue := v_enqueue || array(select m from tasker.hand_outs(tasker.prepare_steps(v_ready)) m);
  end loop;

  with facts as materialized (
    select t.task_uuid, t.namespace, t.lifecycle, c.to_state as state, c.sort_key,
           row(t.total_steps, t.pending_steps + coalesce(p.pending, 0), coalesce(ready.steps, 0), t.in_flight_steps + coalesce(p.in_flight, 0)
               -- beside a failure, a step that waits for an event keeps its task from being blocked: it may still go on
               + case when t.failed_steps + coalesce(p.failed, 0) > 0 then tasker.open_waits(t.task_uuid) else 0 end,
               t.waiting_retry_steps + coalesce(p.waiting_retry, 0), t.satisfied_steps + coalesce(p.satisfied, 0),
               t.failed_steps + coalesce(p.failed, 0), (t.task_uuid in (select r from unnest(p_with_results) r))::int,
               coalesce(ready.steps, 0) > 0 and to_regclass('pgmq.' || quote_ident('q_' || n.queue_name)) is null,
               t.failed_critical_steps + coalesce(p.failed_critical, 0), t.max_retries - t.retry_count,
               t.worker_count is null or exists (select from tasker.job_workers w where w.task_uuid = t.task_uuid),
               t.final_validation,
               t.failed_steps > 0 and t.failed_critical_steps = 0 and tasker.cleans_up(t.task_uuid))::tasker.task_facts as facts,
           -- what the engine does by itself for an owned task it does in the name of the owner, who keeps it
           coalesce(p_processor_uuid, (select p.processor_uuid from tasker.processors p
                                        where p.processor_uuid = c.processor_uuid and p.lease_expires_at > tasker.clock())) as processor_uuid
      from unnest(p_task_uuids) as asked(task_uuid)
     cross join lateral (select t.task_uuid, t.namespace, t.lifecycle, t.total_steps, t.pending_steps, t.in_flight_steps, t.waiting_retry_steps,
                               t.satisfied_steps, t.failed_steps, t.failed_critical_steps, t.max_retries, t.retry_count, t.worker_count, t.final_validation
                          from tasker.tasks t where t.task_uuid = asked.task_uuid limit 1) t
     cross join lateral (select c.to_state, c.sort_key, c.processor_uuid from tasker.task_transitions c
                          where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
      join tasker.task_namespaces n on n.namespace = t.namespace
      left join unnest(v_progress) p on p.task_uuid = t.task_uuid
      left join (select m.task_uuid, count(*)::int as steps from unnest(v_enqueue) m group by m.task_uuid) ready
        on ready.task_uuid = t.task_uuid
  ), paths as materialized (  -- tasks in the same situation walk the same path: it is found once
    select f.lifecycle, f.state, f.facts, p.hop, p.from_state, p.event, p.to_state, p.phase, p.terminal,
           p.hop = max(p.hop) over (partition by f.lifecycle, f.state, f.facts) as last_hop
      from (select distinct f.lifecycle, f.state, f.facts from facts f) f
      join tasker.lifecycle_states s on s.lifecycle = f.lifecycle and s.state = f.state
     cross join lateral tasker.task_path(f.lifecycle, f.state, f.facts) p
     -- what happens to single steps does not start a task that nobody started
     where p_ready_steps is null or s.phase <> 'pending'
  ), walked as materialized (
    select f.task_uuid, f.namespace, f.lifecycle, f.sort_key, f.facts, f.processor_uuid, p.hop, p.from_state, p.event, p.to_state, p.phase,
           p.terminal, p.last_hop
      from facts f
      join paths p on p.lifecycle = f.lifecycle and p.state = f.state and p.facts = f.facts
  )
  select array_agg((w.task_uuid, w.namespace, w.lifecycle, w.from_state, w.event, w.to_state, w.sort_key + w.hop, w.last_hop,
                    w.processor_uuid,
                    case when w.phase = 'enqueuing' then coalesce(p_metadata, '{}') || jsonb_build_object('ready_steps', (w.facts).ready_steps)
                         else coalesce(p_metadata, '{}') end)::tasker.task_move
                   order by w.task_uuid, w.hop),
         array_agg(w.task_uuid) filter (where w.phase = 'enqueuing' and not (w.facts).enqueue_failed),
         (count(*) filter (where w.last_hop))::int,
         (count(*) filter (where w.last_hop and w.terminal))::int,
         array_agg(w.task_uuid) filter (where w.phase in ('failed', 'cancelled') and w.terminal and w.last_hop)
    into v_moves, v_enqueuing, v_counts.tasks_moved, v_counts.tasks_finished, v_failed
    from walked w;

  perform tasker.append_task_transitions(v_moves, false);
  if cardinality(v_enqueue) > 0 then
    v_others := array(select m.task_uuid from unnest(v_enqueue) m except select e from unnest(v_enqueuing) e);
    if cardinality(v_others) > 0 then
      v_enqueuing := v_enqueuing || tasker.handing_out(v_others);
      v_enqueue := array(select m from unnest(v_enqueue) m where m.task_uuid in (select e from unnest(v_enqueuing) e));
    end if;
    perform tasker.hand_out_steps(v_enqueue, false, p_claimant);
    v_progress := v_progress || array(select p from tasker.progress_of(v_enqueue) p);
    v_counts.steps_enqueued := cardinality(v_enqueue);
  end if;
  perform tasker.count_moves(v_progress, v_moves);
  if v_failed is not null then  -- nobody would settle what is still under way
    -- all in one order, since workers report steps of several tasks in one call
    perform tasker.lock_work(v_failed);
    perform tasker.cancel_open_steps(f.task_uuid, '{"reason": "the task ended"}', true) from unnest(v_failed) as f(task_uuid);
  end if;
  perform tasker.schedule_task_retries(v_moves);
  return v_counts;
end
$$;
comment on function tasker.drive_tasks(uuid[], uuid[], uuid[], uuid, jsonb, tasker.step_move[], tasker.claimant) is
  'Moves tasks as far as they go by themselves and hands out their ready steps. p_ready_steps: the steps that just became ready, or null to look at all; p_with_results: tasks with newly settled results; p_uncounted: moves in the log that the progress counters do not show yet; p_claimant: who takes ready steps at once. The caller holds the locks of the tasks.';
