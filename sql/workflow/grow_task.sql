create or replace function tasker.grow_task(
  p_task_uuid uuid,
  p_steps     tasker.named_steps[],
  p_from      int[] default '{}',
  p_to        uuid[] default '{}'
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_series text := tasker.uuid_series();  -- a step and its first move take two of it
  v_uuids uuid[] := array(select tasker.uuid_at(v_series, 2 * n) from generate_series(1, cardinality(p_steps)) n order by n);
  v_first int := p_steps[1].ordinal;
  v_moves tasker.step_move[];
  v_ready uuid[];
begin
  if coalesce(cardinality(p_steps), 0) = 0 then
    return array[]::uuid[];
  end if;
  perform tasker.ensure_work_queue(q.namespace, q.requires, q.priority)
     from (select distinct t.namespace, s.requires, tasker.queue_priority(t.priority) as priority
             from unnest(p_steps) s cross join tasker.tasks t
            where t.task_uuid = p_task_uuid and (s.requires <> '{}' or t.priority <> 0)
            order by 2) q;

  with steps_to_be as materialized (
    select v_uuids[s.ordinality] as step_uuid, k.task_uuid, k.namespace, v.step_lifecycle, l.initial_state, s.*,
           coalesce(s.timeout, tool.timeout, interval '300 seconds') as its_timeout
      from unnest(p_steps) with ordinality as s
      left join tasker.tools tool on tool.tool = coalesce(s.tool, s.handler)
     cross join lateral (select t.task_uuid, t.namespace, t.vocabulary from tasker.tasks t where t.task_uuid = p_task_uuid limit 1) k
      join tasker.vocabularies v on v.vocabulary = k.vocabulary
      join tasker.lifecycles l on l.lifecycle = v.step_lifecycle
     order by s.ordinal
  ), new_steps as (
    insert into tasker.workflow_steps
      (workflow_step_uuid, task_uuid, namespace, named_step_uuid, name, handler, lifecycle, ordinal, unmet_dependencies,
       max_attempts, retryable, base_delay, max_delay, jitter, timeout, arguments, tool, requires, acceptance, on_failure,
       condition, skips_dependents, sensitive, sensitive_result, delay, options)
    select s.step_uuid, s.task_uuid, s.namespace, s.named_step_uuid, s.name, s.handler, s.step_lifecycle, s.ordinal,
           cardinality(s.depends_on), s.max_attempts, s.retryable, s.base_delay, s.max_delay, s.jitter, s.its_timeout, s.arguments,
           s.tool, s.requires, s.acceptance, s.on_failure, s.condition, s.skips_dependents, s.sensitive, s.sensitive_result, s.delay, s.options
      from steps_to_be s
  ), dependencies as materialized (
    select s.step_uuid, d.ordinal as depends_on from steps_to_be s cross join lateral unnest(s.depends_on) as d(ordinal)
  ), new_edges as (
    insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
    select p_task_uuid, v_uuids[d.depends_on - v_first + 1], d.step_uuid from dependencies d where d.depends_on >= v_first
     union all
    select p_task_uuid, p.workflow_step_uuid, d.step_uuid
      from dependencies d join tasker.workflow_steps p on p.task_uuid = p_task_uuid and p.ordinal = d.depends_on
     where d.depends_on < v_first
     union all
    select p_task_uuid, v_uuids[f.ordinal - v_first + 1], f.to_step_uuid from unnest(p_from, p_to) as f(ordinal, to_step_uuid)
  ), counted as (
    update tasker.tasks t
       set total_steps = t.total_steps + cardinality(p_steps), pending_steps = t.pending_steps + cardinality(p_steps)
     where t.task_uuid = p_task_uuid
  ), held_up as (
    update tasker.workflow_steps s
       set unmet_dependencies = s.unmet_dependencies + f.steps
      from (select u.to_step_uuid, count(*)::int as steps from unnest(p_to) as u(to_step_uuid) group by 1) f
     where s.workflow_step_uuid = f.to_step_uuid
  )
  select array_agg((tasker.uuid_at(v_series, 2 * s.ordinality + 1), s.step_uuid, s.task_uuid, s.namespace, s.step_lifecycle, null, 'create', s.initial_state, 1, true,
                    '{"grown": true}')::tasker.step_move order by s.ordinal)
    into v_moves
    from steps_to_be s;
  perform tasker.append_step_transitions(v_moves, false);

  -- what they depend on may have ended already
  update tasker.workflow_steps s
     set unmet_dependencies = tasker.unmet_dependencies_of(s.workflow_step_uuid)
    from unnest(v_moves) m
   where s.workflow_step_uuid = m.workflow_step_uuid and s.unmet_dependencies > 0;
  select array_agg(s.workflow_step_uuid order by m.ordinality)
    into v_ready
    from unnest(v_moves) with ordinality as m
   cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                        where s.workflow_step_uuid = m.workflow_step_uuid and s.unmet_dependencies <= 0 limit 1) s;
  return coalesce(v_ready, '{}');
end
$$;
comment on function tasker.grow_task(uuid, tasker.named_steps[], int[], uuid[]) is
  'New steps for a task that runs and is locked, set-based: rows, edges, log, counters. The ordinals of new steps run on from the last one. depends_on names ordinals of new steps and of those that are there; p_from[i], an ordinal of a new step, is what step p_to[i], which has not started, depends on from now on. Answers the new steps that are ready.';
