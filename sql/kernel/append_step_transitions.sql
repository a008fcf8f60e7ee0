create or replace function tasker.append_step_transitions(
  p_moves        tasker.step_move[],
  p_update_tasks boolean default true
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_expected int;
  v_started  uuid[];
begin
  if coalesce(cardinality(p_moves), 0) = 0 then
    return;
  end if;

  -- the steps whose current row ends: those whose first move is not their creation
  select array_agg(f.workflow_step_uuid)
    into v_started
    from (select m.workflow_step_uuid from unnest(p_moves) m
           group by m.workflow_step_uuid having min(m.sort_key) > 1) f;

  with ended as (
    update tasker.workflow_step_transitions t
       set most_recent = false, updated_at = clock_timestamp()
     where t.workflow_step_uuid = any (v_started)
       and t.most_recent
    returning 1
  )
  insert into tasker.workflow_step_transitions
    (workflow_step_transition_uuid, workflow_step_uuid, task_uuid, namespace, lifecycle, to_state, from_state, event,
     metadata, sort_key, most_recent)
  select m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.to_state, m.from_state, m.event,
         m.metadata, m.sort_key, m.most_recent
    from unnest(p_moves) m
   where (select count(*) from ended) = coalesce(cardinality(v_started), 0);  -- the old rows end before the new ones stand
  get diagnostics v_expected = row_count;
  if v_expected <> cardinality(p_moves) then
    perform tasker.raise_error('TK409', 'a step moved meanwhile', jsonb_build_object('steps', to_jsonb(v_started)),
                               'Lock the steps before reading their state.');
  end if;

  if not p_update_tasks then  -- a new task is inserted with these columns as they will be
    return;
  end if;
  -- progress counters of the tasks: moves between two states that count the same cost nothing here
  update tasker.tasks t
     set pending_steps         = t.pending_steps         + d.pending,
         in_flight_steps       = t.in_flight_steps       + d.in_flight,
         waiting_retry_steps   = t.waiting_retry_steps   + d.waiting_retry,
         satisfied_steps       = t.satisfied_steps       + d.satisfied,
         failed_steps          = t.failed_steps          + d.failed,
         failed_critical_steps = t.failed_critical_steps + d.failed_critical
    from (select m.task_uuid,
                 sum((m.counts_as = 'pending')::int       - (m.counted_as = 'pending')::int)       as pending,
                 sum((m.counts_as = 'in_flight')::int     - (m.counted_as = 'in_flight')::int)     as in_flight,
                 sum((m.counts_as = 'waiting_retry')::int - (m.counted_as = 'waiting_retry')::int) as waiting_retry,
                 sum((m.counts_as = 'satisfied')::int     - (m.counted_as = 'satisfied')::int)     as satisfied,
                 sum((m.counts_as = 'failed')::int        - (m.counted_as = 'failed')::int)        as failed,
                 sum(case when m.on_failure = 'stop' then m.fails::int - m.failed::int else 0 end)  as failed_critical
            from (select m.task_uuid, s.on_failure, tasker.counts_as(o.counts_as, s.on_failure, s.left_out) as counted_as,
                         tasker.counts_as(n.counts_as, s.on_failure, s.left_out) as counts_as,
                         -- one that somebody cancelled or skipped has not failed
                         o.phase = 'failed' as failed, n.phase = 'failed' as fails
                    from unnest(p_moves) m
                    join tasker.lifecycle_states o on o.lifecycle = m.lifecycle and o.state = m.from_state
                    join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state
                   cross join lateral (select s.on_failure, s.left_out from tasker.workflow_steps s
                                        where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
                   where o.counts_as <> n.counts_as or (o.phase = 'failed') <> (n.phase = 'failed')) m
           group by m.task_uuid) d
   where t.task_uuid = d.task_uuid;
end
$$;
comment on function tasker.append_step_transitions(tasker.step_move[], boolean) is
  'The one door for steps: ends the current row of each step, appends its moves and keeps the progress counters of its task. The caller holds the locks: the task if the counters change, then the steps by uuid.';
