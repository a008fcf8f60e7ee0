create or replace function tasker.insert_tasks(
  p_tasks tasker.tasks[],
  p_plans uuid[],
  p_steps tasker.named_steps[],
  p_start boolean[]
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_inserted  uuid[];
  v_timed     boolean;  -- some have a timeout, or start later
  v_task_moves tasker.task_move[];
  v_created   tasker.step_move[];
  v_queued    tasker.step_move[];
  v_ready     uuid[];
  v_series    text := tasker.uuid_series();  -- a step and its first two moves take three of it
begin
  -- What becomes of each plan is the same for all its tasks: the path from the initial state, and whether roots are queued.
  -- Rows of tasks and steps are handed on whole, as one column, until they are inserted: a plan that names all their columns again in each of
  -- its nodes costs a single task more than what it does.
  with asked as materialized (
    select unnest(p_tasks) as task, unnest(p_plans) as plan_uuid, unnest(p_start) as start, generate_subscripts(p_tasks, 1) as position
  ), steps as materialized (
    select unnest(p_steps) as step
  ), plans as materialized (
    select x.plan_uuid, x.vocabulary, x.start, x.total, x.roots, x.queue_missing, x.needs_workers, x.final_validation,
           v.task_lifecycle, v.step_lifecycle, tl.initial_state as task_initial, sl.initial_state as step_initial,
           tl.has_enqueuing_phase, sl.queues_by_state, q.event as queue_event, q.to_state as queue_state
      from (select t.plan_uuid, t.vocabulary, t.start, t.needs_workers, t.final_validation,
                   to_regclass('pgmq.' || quote_ident('q_' || n.queue_name)) is null as queue_missing,
                   count((s.step).ordinal)::int as total, (count((s.step).ordinal) filter (where (s.step).depends_on = '{}'))::int as roots
              from (select distinct a.plan_uuid, (a.task).vocabulary, (a.task).namespace, a.start, (a.task).worker_count is not null as needs_workers,
                                    (a.task).final_validation
                      from asked a) t
              join tasker.task_namespaces n on n.namespace = t.namespace
              left join steps s on (s.step).named_task_uuid = t.plan_uuid
             group by t.plan_uuid, t.vocabulary, t.start, t.needs_workers, t.final_validation, n.queue_name) x
      join tasker.vocabularies v on v.vocabulary = x.vocabulary
      join tasker.lifecycles tl on tl.lifecycle = v.task_lifecycle
      join tasker.lifecycles sl on sl.lifecycle = v.step_lifecycle
      left join tasker.lifecycle_transitions q on q.lifecycle = v.step_lifecycle and q.from_state = sl.initial_state and q.operation = 'enqueue'
  ), paths as materialized (
    select p.plan_uuid, p.vocabulary, p.start, h.*
      from plans p
     cross join lateral tasker.task_path(
        p.task_lifecycle, p.task_initial,
        row(p.total, p.total, p.roots, 0, 0, 0, 0, 0, p.queue_missing and p.roots > 0, 0, 0,
            not p.needs_workers, p.final_validation, false)::tasker.task_facts) h
     where p.start
  ), outlooks as materialized (
    select p.plan_uuid, p.vocabulary, p.start, p.total, p.roots, p.task_lifecycle, p.step_lifecycle, p.task_initial, p.step_initial,
           p.queues_by_state, p.queue_event, p.queue_state, h.hops, h.finishes,
           coalesce((h.enqueuing or (not p.has_enqueuing_phase and h.ends_in in ('starting', 'running'))) and not p.queue_missing, false) as enqueues
      from plans p
     cross join lateral (select coalesce(max(h.hop), 0) as hops, coalesce(bool_or(h.terminal), false) as finishes,
                                bool_or(h.phase = 'enqueuing') as enqueuing, (array_agg(h.phase order by h.hop desc))[1] as ends_in
                           from paths h
                          where h.plan_uuid = p.plan_uuid and h.vocabulary = p.vocabulary and h.start = p.start) h
  ), new_tasks as (
    insert into tasker.tasks
      (task_uuid, namespace, named_task_uuid, name, version, vocabulary, lifecycle, parent_task_uuid, correlation_id,
       idempotency_key, request_hash, priority, requested_by, context, tags, total_steps, pending_steps, in_flight_steps,
       timeout, max_retries, worker_count, depth, resumes_task_uuid, sensitive, final_validation, start_at, unique_key, compensates_task_uuid, created_at, started_at, completed_at)
    select (t.task).task_uuid, (t.task).namespace, (t.task).named_task_uuid, (t.task).name, (t.task).version, (t.task).vocabulary, t.task_lifecycle,
           (t.task).parent_task_uuid, (t.task).correlation_id, (t.task).idempotency_key, (t.task).request_hash, (t.task).priority, (t.task).requested_by,
           (t.task).context, (t.task).tags, t.total, t.total - t.queued, t.queued, (t.task).timeout, (t.task).max_retries, (t.task).worker_count,
           (t.task).depth, (t.task).resumes_task_uuid, (t.task).sensitive, (t.task).final_validation, (t.task).start_at, (t.task).unique_key,
           (t.task).compensates_task_uuid, t.now, case when t.hops > 0 then t.now end, case when t.finishes then t.now end
      from (select a.task, o.task_lifecycle, o.total, case when o.enqueues and o.queues_by_state then o.roots else 0 end as queued, o.hops, o.finishes, clock.now
              from asked a
              join outlooks o on o.plan_uuid = a.plan_uuid and o.vocabulary = (a.task).vocabulary and o.start = a.start
             cross join (select clock_timestamp() as now) clock
             order by (a.task).namespace, (a.task).idempotency_key, a.position  -- two calls that share keys wait for each other in one order
            offset 0) t
        on conflict (namespace, idempotency_key) where idempotency_key is not null do nothing
    returning task_uuid, requested_by, resumes_task_uuid, unique_key, compensates_task_uuid, namespace, timeout, start_at
  ), planned as materialized (
    select n.task_uuid, n.namespace, a.position, n.timeout is not null or n.start_at is not null as is_timed,
           a.plan_uuid, o.vocabulary, a.start, o.roots, o.hops, o.enqueues, o.task_lifecycle, o.task_initial,
           o.step_lifecycle, o.step_initial, o.queues_by_state, o.queue_event, o.queue_state,
           jsonb_strip_nulls(jsonb_build_object('requested_by', n.requested_by, 'resumes', n.resumes_task_uuid, 'unique_key', n.unique_key,
                                                'compensates', n.compensates_task_uuid)) as metadata
      from new_tasks n
      join asked a on (a.task).task_uuid = n.task_uuid
      join outlooks o on o.plan_uuid = a.plan_uuid and o.vocabulary = (a.task).vocabulary and o.start = a.start
  ), steps_to_be as materialized (
    select tasker.uuid_at(v_series, 3 * row_number() over creation) as step_uuid, row_number() over creation as position, n.task_uuid, n.namespace,
           s.step, n.step_lifecycle, n.step_initial, n.enqueues and (s.step).depends_on = '{}' as enqueues,
           n.queues_by_state, n.queue_event, n.queue_state
      from planned n
      join steps s on (s.step).named_task_uuid = n.plan_uuid
    window creation as (order by n.task_uuid, (s.step).ordinal)
  ), new_steps as (
    insert into tasker.workflow_steps
      (workflow_step_uuid, task_uuid, namespace, named_step_uuid, name, handler, lifecycle, ordinal, unmet_dependencies,
       max_attempts, retryable, base_delay, max_delay, jitter, timeout, arguments, tool, requires, acceptance, on_failure,
       condition, skips_dependents, sensitive, sensitive_result, delay, options, handed_out_at)
    select b.step_uuid, b.task_uuid, b.namespace, (b.step).named_step_uuid, (b.step).name, (b.step).handler, b.step_lifecycle, (b.step).ordinal,
           cardinality((b.step).depends_on), (b.step).max_attempts, (b.step).retryable, (b.step).base_delay, (b.step).max_delay, (b.step).jitter,
           coalesce((b.step).timeout, case when tasker.runs_in_engine((b.step).options) then interval '1000 years' end,
                    (select t.timeout from tasker.tools t where t.tool = coalesce((b.step).tool, (b.step).handler)), interval '300 seconds'),
           (b.step).arguments, (b.step).tool, (b.step).requires, (b.step).acceptance, (b.step).on_failure, (b.step).condition,
           (b.step).skips_dependents, (b.step).sensitive, (b.step).sensitive_result, (b.step).delay, (b.step).options,
           case when b.enqueues and not b.queues_by_state then tasker.clock() end
      from steps_to_be b
  ), dependencies as materialized (  -- first, or every step of a task would be joined with every other one
    select s.task_uuid, s.step_uuid, d.ordinal as depends_on
      from steps_to_be s
     cross join lateral unnest((s.step).depends_on) as d(ordinal)
  ), new_edges as (
    insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
    select c.task_uuid, p.step_uuid, c.step_uuid
      from dependencies c
      join steps_to_be p on p.task_uuid = c.task_uuid and (p.step).ordinal = c.depends_on
  )
  select n.inserted, n.are_timed,
         (select array_agg((m.task_uuid, m.namespace, m.task_lifecycle, m.from_state, m.event, m.to_state, m.hop + 1, m.hop = m.hops,
                            null, m.metadata)::tasker.task_move order by m.task_uuid, m.hop)
            from (select n.task_uuid, n.namespace, n.task_lifecycle, null::text as from_state, 'create' as event, n.task_initial as to_state,
                         0 as hop, n.hops, n.metadata
                    from planned n
                  union all
                  select n.task_uuid, n.namespace, n.task_lifecycle, h.from_state, h.event, h.to_state, h.hop, n.hops,
                         case when h.phase = 'enqueuing' then jsonb_build_object('ready_steps', n.roots) else '{}' end
                    from planned n
                    join paths h on h.plan_uuid = n.plan_uuid and h.vocabulary = n.vocabulary and h.start = n.start) m),
         m.created, m.queued, m.ready
    into v_inserted, v_timed, v_task_moves, v_created, v_queued, v_ready
    from (select array_agg((tasker.uuid_at(v_series, 3 * s.position + 1), s.step_uuid, s.task_uuid, s.namespace, s.step_lifecycle, null, 'create',
                            s.step_initial, 1, not (s.enqueues and s.queue_event is not null), null)::tasker.step_move
                           order by s.position) as created,
                 array_agg((tasker.uuid_at(v_series, 3 * s.position + 2), s.step_uuid, s.task_uuid, s.namespace, s.step_lifecycle, s.step_initial,
                            s.queue_event, s.queue_state, 2, true, null)::tasker.step_move
                           order by s.position) filter (where s.enqueues and s.queue_event is not null) as queued,
                 array_agg(s.step_uuid order by s.position) filter (where s.enqueues and (s.queue_event is not null or not s.queues_by_state)) as ready
            from steps_to_be s) m
   cross join (select array_agg(n.task_uuid order by n.position) as inserted, bool_or(n.is_timed) as are_timed from planned n) n;

  if v_timed then
    with timed as materialized (
      select t.task_uuid, t.namespace, t.timeout, t.start_at, t.started_at, t.completed_at from tasker.tasks t where t.task_uuid = any (v_inserted)
    )
    insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
    select greatest(t.start_at, tasker.clock()) + t.timeout, 'task_timeout', t.task_uuid, t.namespace, 0
      from timed t where t.timeout is not null and t.completed_at is null
     union all
    -- somebody may start it by hand before: the timer is for its first state
    select t.start_at, 'drive', t.task_uuid, t.namespace, 1 from timed t where t.start_at is not null and t.started_at is null;
  end if;

  -- a new row and the row after it are appended together: nothing has to be taken back
  perform tasker.append_task_transitions(v_task_moves, false);
  perform tasker.append_step_transitions(v_created || v_queued, false);
  perform tasker.enqueue_steps(v_ready, true);
  return coalesce(v_inserted, '{}');
end
$$;
comment on function tasker.insert_tasks(tasker.tasks[], uuid[], tasker.named_steps[], boolean[]) is
  'Creates tasks with their steps and edges, walks them as far as they go and queues their first steps, set-based. p_plans[i] names the steps of p_tasks[i] by their named_task_uuid. A task whose idempotency key is taken is left out of the answer.';
