create or replace function tasker.insert_tasks(
  p_tasks tasker.tasks[],
  p_plans uuid[],
  p_steps tasker.named_steps[],
  p_start boolean[]
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_inserted  uuid[];
  v_task_moves tasker.task_move[];
  v_step_moves tasker.step_move[];
  v_queued    tasker.step_move[];
  v_series    text := tasker.uuid_series();  -- a step and its first two moves take three of it
begin
  -- What becomes of each plan is the same for all its tasks: the path from the initial state, and whether roots are queued.
  with plans as materialized (
    select x.plan_uuid, x.vocabulary, x.total, x.roots, v.task_lifecycle, v.step_lifecycle, tl.initial_state as task_initial,
           sl.initial_state as step_initial, x.start, x.queue_missing, x.needs_workers, x.final_validation, tl.has_enqueuing_phase, sl.queues_by_state
      from (select t.plan_uuid, t.vocabulary, t.start, t.needs_workers, t.final_validation,
                   to_regclass('pgmq.' || quote_ident('q_' || n.queue_name)) is null as queue_missing,
                   count(s.ordinal)::int as total, (count(s.ordinal) filter (where s.depends_on = '{}'))::int as roots
              from (select distinct p.plan_uuid, t.vocabulary, t.namespace, p.start, t.worker_count is not null as needs_workers, t.final_validation
                      from unnest(p_plans, p_start) with ordinality as p(plan_uuid, start, position)
                      join unnest(p_tasks) with ordinality as t on t.ordinality = p.position) t
              join tasker.task_namespaces n on n.namespace = t.namespace
              left join unnest(p_steps) s on s.named_task_uuid = t.plan_uuid
             group by t.plan_uuid, t.vocabulary, t.start, t.needs_workers, t.final_validation, n.queue_name) x
      join tasker.vocabularies v on v.vocabulary = x.vocabulary
      join tasker.lifecycles tl on tl.lifecycle = v.task_lifecycle
      join tasker.lifecycles sl on sl.lifecycle = v.step_lifecycle
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
           coalesce((bool_or(h.phase = 'enqueuing')
                     or (not p.has_enqueuing_phase and (array_agg(h.phase order by h.hop desc))[1] in ('starting', 'running')))
                    and not p.queue_missing, false) as enqueues,
           coalesce(max(h.hop), 0) as hops,
           coalesce(bool_or(h.terminal), false) as finishes, p.queues_by_state
      from plans p left join paths h using (plan_uuid, vocabulary, start)
     group by p.plan_uuid, p.vocabulary, p.start, p.total, p.roots, p.task_lifecycle, p.step_lifecycle, p.task_initial, p.step_initial, p.queue_missing,
             p.has_enqueuing_phase, p.queues_by_state
  ), new_tasks as (
    insert into tasker.tasks
      (task_uuid, namespace, named_task_uuid, name, version, vocabulary, lifecycle, parent_task_uuid, correlation_id,
       idempotency_key, request_hash, priority, requested_by, context, tags, total_steps, pending_steps, in_flight_steps,
       timeout, max_retries, worker_count, depth, resumes_task_uuid, sensitive, final_validation, start_at, unique_key, compensates_task_uuid, created_at, started_at, completed_at)
    select t.task_uuid, t.namespace, t.named_task_uuid, t.name, t.version, t.vocabulary, o.task_lifecycle, t.parent_task_uuid,
           t.correlation_id, t.idempotency_key, t.request_hash, t.priority, t.requested_by, t.context, t.tags, o.total,
           o.total - case when o.enqueues and o.queues_by_state then o.roots else 0 end,
           case when o.enqueues and o.queues_by_state then o.roots else 0 end,
           t.timeout, t.max_retries, t.worker_count, t.depth, t.resumes_task_uuid, t.sensitive, t.final_validation, t.start_at, t.unique_key, t.compensates_task_uuid, clock.at, case when o.hops > 0 then clock.at end, case when o.finishes then clock.at end
      from unnest(p_tasks) with ordinality as t
      join unnest(p_plans, p_start) with ordinality as p(plan_uuid, start, position) on p.position = t.ordinality
      join outlooks o on o.plan_uuid = p.plan_uuid and o.vocabulary = t.vocabulary and o.start = p.start
     cross join (select clock_timestamp() as at) clock
     order by t.namespace, t.idempotency_key, t.ordinality  -- two calls that share keys wait for each other in one order
        on conflict (namespace, idempotency_key) where idempotency_key is not null do nothing
    returning task_uuid, namespace, requested_by, resumes_task_uuid, unique_key, compensates_task_uuid, timeout, start_at, started_at, completed_at
  ), due as (
    insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
    select greatest(n.start_at, tasker.clock()) + n.timeout, 'task_timeout', n.task_uuid, n.namespace, 0
      from new_tasks n where n.timeout is not null and n.completed_at is null
     union all
    -- somebody may start it by hand before: the timer is for its first state
    select n.start_at, 'drive', n.task_uuid, n.namespace, 1 from new_tasks n where n.start_at is not null and n.started_at is null
  ), planned as materialized (
    select n.task_uuid, n.namespace, n.requested_by, n.resumes_task_uuid, n.unique_key, n.compensates_task_uuid, p.plan_uuid, t.vocabulary, p.start
      from new_tasks n
      join unnest(p_tasks) with ordinality as t on t.task_uuid = n.task_uuid
      join unnest(p_plans, p_start) with ordinality as p(plan_uuid, start, position) on p.position = t.ordinality
  ), steps_to_be as materialized (
    select tasker.uuid_at(v_series, 3 * row_number() over creation) as step_uuid, row_number() over creation as position, n.task_uuid, n.namespace, o.step_lifecycle, o.step_initial, o.enqueues, o.queues_by_state,
           s.named_step_uuid, s.name, s.handler, s.ordinal, s.depends_on, s.arguments, s.retryable, s.max_attempts,
           s.base_delay, s.max_delay, s.jitter, coalesce(s.timeout, case when tasker.runs_in_engine(s.options) then interval '1000 years' end, tool.timeout, interval '300 seconds') as timeout, s.tool, s.requires,
           s.acceptance, s.on_failure, s.condition, s.skips_dependents, s.sensitive, s.sensitive_result, s.delay, s.options
      from planned n
      join outlooks o using (plan_uuid, vocabulary, start)
      join unnest(p_steps) s on s.named_task_uuid = n.plan_uuid
      left join tasker.tools tool on tool.tool = coalesce(s.tool, s.handler)
    window creation as (order by n.task_uuid, s.ordinal)
  ), new_steps as (
    insert into tasker.workflow_steps
      (workflow_step_uuid, task_uuid, namespace, named_step_uuid, name, handler, lifecycle, ordinal, unmet_dependencies,
       max_attempts, retryable, base_delay, max_delay, jitter, timeout, arguments, tool, requires, acceptance, on_failure,
       condition, skips_dependents, sensitive, sensitive_result, delay, options, handed_out_at)
    select s.step_uuid, s.task_uuid, s.namespace, s.named_step_uuid, s.name, s.handler, s.step_lifecycle, s.ordinal,
           cardinality(s.depends_on), s.max_attempts, s.retryable, s.base_delay, s.max_delay, s.jitter, s.timeout, s.arguments,
           s.tool, s.requires, s.acceptance, s.on_failure, s.condition, s.skips_dependents, s.sensitive, s.sensitive_result, s.delay, s.options,
           case when s.enqueues and not s.queues_by_state and s.depends_on = '{}' then tasker.clock() end
      from steps_to_be s
  ), dependencies as materialized (  -- first, or every step of a task would be joined with every other one
    select s.task_uuid, s.step_uuid, d.ordinal as depends_on
      from steps_to_be s
     cross join lateral unnest(s.depends_on) as d(ordinal)
  ), new_edges as (
    insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
    select c.task_uuid, p.step_uuid, c.step_uuid
      from dependencies c
      join steps_to_be p on p.task_uuid = c.task_uuid and p.ordinal = c.depends_on
  )
  select (select array_agg(n.task_uuid) from planned n),
         (select array_agg((m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state, m.hop + 1, m.hop = m.hops,
                            null, m.metadata)::tasker.task_move order by m.task_uuid, m.hop)
            from (select n.task_uuid, n.namespace, o.task_lifecycle as lifecycle, null::text as from_state, 'create' as event,
                         o.task_initial as to_state, 0 as hop, o.hops,
                         jsonb_strip_nulls(jsonb_build_object('requested_by', n.requested_by, 'resumes', n.resumes_task_uuid, 'unique_key', n.unique_key,
                                                              'compensates', n.compensates_task_uuid)) as metadata
                    from planned n join outlooks o using (plan_uuid, vocabulary, start)
                  union all
                  select n.task_uuid, n.namespace, o.task_lifecycle, h.from_state, h.event, h.to_state, h.hop, o.hops,
                         case when h.phase = 'enqueuing' then jsonb_build_object('ready_steps', o.roots) else '{}' end
                    from planned n
                    join outlooks o using (plan_uuid, vocabulary, start)
                    join paths h using (plan_uuid, vocabulary, start)) m),
         (select array_agg((tasker.uuid_at(v_series, 3 * s.position + 1), s.step_uuid, s.task_uuid, s.namespace, s.step_lifecycle, null, 'create',
                            s.step_initial, 1, not (s.enqueues and q.event is not null and s.depends_on = '{}'), null)::tasker.step_move
                           order by s.task_uuid, s.ordinal)
            from steps_to_be s
            left join (select distinct r.lifecycle, r.from_state, r.event from tasker.lifecycle_transitions r where r.operation = 'enqueue') q
              on q.lifecycle = s.step_lifecycle and q.from_state = s.step_initial),
         (select array_agg((tasker.uuid_at(v_series, 3 * s.position + 2), s.step_uuid, s.task_uuid, s.namespace, s.step_lifecycle, s.step_initial,
                            r.event, r.to_state, 2, true, null)::tasker.step_move order by s.task_uuid, s.ordinal)
            from steps_to_be s
            left join tasker.lifecycle_transitions r
              on r.lifecycle = s.step_lifecycle and r.from_state = s.step_initial and r.operation = 'enqueue'
           where s.enqueues and s.depends_on = '{}' and (r.event is not null or not s.queues_by_state))
    into v_inserted, v_task_moves, v_step_moves, v_queued;

  -- a new row and the row after it are appended together: nothing has to be taken back
  perform tasker.append_task_transitions(v_task_moves, false);
  perform tasker.append_step_transitions(v_step_moves || array(select m from unnest(v_queued) m where m.event is not null), false);
  perform tasker.enqueue_steps(array(select m.workflow_step_uuid from unnest(v_queued) m),
                               array(select m.task_uuid from unnest(v_queued) m),
                               array(select m.namespace from unnest(v_queued) m), true);
  return coalesce(v_inserted, '{}');
end
$$;
comment on function tasker.insert_tasks(tasker.tasks[], uuid[], tasker.named_steps[], boolean[]) is
  'Creates tasks with their steps and edges, walks them as far as they go and queues their first steps, set-based. p_plans[i] names the steps of p_tasks[i] by their named_task_uuid. A task whose idempotency key is taken is left out of the answer.';
