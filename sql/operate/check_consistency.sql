create or replace function tasker.check_consistency(
  p_task_uuid uuid default null,
  p_unfinished_only boolean default false,
  out finding       text,
  out entity_kind   text,
  out entity_uuid   uuid,
  out detail        jsonb,
  out proposed_call text
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with scope as materialized (
    select t.* from tasker.tasks t where t.task_uuid = p_task_uuid
    union all
    select t.* from tasker.tasks t where p_task_uuid is null and (not p_unfinished_only or t.completed_at is null)
  ), tasks as materialized (
    select t.*, c.to_state, c.sort_key, c.created_at as state_since, x.phase, x.is_terminal, x.satisfies_dependencies
      from scope t
      left join lateral (select c.* from tasker.task_transitions c where c.task_uuid = t.task_uuid and c.most_recent limit 1) c on true
      left join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
     where (select tasker.bound_namespaces()) is null or t.namespace = any ((select tasker.bound_namespaces())::text[])
  ), steps as materialized (
    select s.*, c.to_state, c.sort_key, c.metadata, x.phase, x.is_terminal,
           tasker.counts_as(x.counts_as, s.on_failure, s.left_out) as counts_as,
           -- it stands in its queue, or waits in a timer to be put there again
           x.phase in ('queued', 'trial') or (x.phase = 'pending' and s.handed_out_at is not null) as is_queued,
           s.options is not null and exists (select from tasker.event_waits w where w.workflow_step_uuid = s.workflow_step_uuid and w.ended_at is null) as waits,
           t.completed_at is not null as task_ended,
           exists (select from tasker.lifecycle_transitions r
                    where r.lifecycle = s.lifecycle and r.from_state = c.to_state and r.operation = 'cancel_step') as can_be_cancelled
      from scope t
      -- by key: of the logs, only what belongs to these tasks is read
     cross join lateral (select s.* from tasker.workflow_steps s where s.task_uuid = t.task_uuid offset 0) s
      left join lateral (select c.* from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c on true
      left join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
     where (select tasker.bound_namespaces()) is null or s.namespace = any ((select tasker.bound_namespaces())::text[])
  ), counted as (
    select s.task_uuid, count(*)::int as total_steps,
           (count(*) filter (where s.counts_as = 'pending'))::int as pending_steps,
           (count(*) filter (where s.counts_as = 'in_flight'))::int as in_flight_steps,
           (count(*) filter (where s.counts_as = 'waiting_retry'))::int as waiting_retry_steps,
           (count(*) filter (where s.counts_as = 'satisfied'))::int as satisfied_steps,
           (count(*) filter (where s.counts_as = 'failed'))::int as failed_steps
      from steps s group by s.task_uuid
  ), missed as (  -- an optional step may be sent back to work after its dependents went on without it
    select e.to_step_uuid, count(*)::int as missed
      from steps p
     cross join lateral (select e.to_step_uuid from tasker.workflow_step_edges e where e.from_step_uuid = p.workflow_step_uuid and e.waived is null offset 0) e
     where p.counts_as is distinct from 'satisfied' and p.on_failure <> 'continue'
     group by e.to_step_uuid
  ), queued as materialized (
    select distinct m.queue_name, m.step_uuid as workflow_step_uuid from tasker.queued_messages() m
  )
  select 'task_without_state', 'task', t.task_uuid, '{}'::jsonb, null::text from tasks t where t.to_state is null
  union all
  select 'step_without_state', 'step', s.workflow_step_uuid, '{}', null from steps s where s.to_state is null
  union all
  select 'progress_counters_differ', 'task', t.task_uuid,
         jsonb_build_object('stored', jsonb_build_array(t.pending_steps, t.in_flight_steps, t.waiting_retry_steps, t.satisfied_steps, t.failed_steps, t.total_steps),
                            'counted', jsonb_build_array(coalesce(c.pending_steps, 0), coalesce(c.in_flight_steps, 0), coalesce(c.waiting_retry_steps, 0),
                                                         coalesce(c.satisfied_steps, 0), coalesce(c.failed_steps, 0), coalesce(c.total_steps, 0))),
         format('update tasker.tasks set pending_steps = %s, in_flight_steps = %s, waiting_retry_steps = %s, satisfied_steps = %s, failed_steps = %s, total_steps = %s where task_uuid = %L',
                coalesce(c.pending_steps, 0), coalesce(c.in_flight_steps, 0), coalesce(c.waiting_retry_steps, 0),
                coalesce(c.satisfied_steps, 0), coalesce(c.failed_steps, 0), coalesce(c.total_steps, 0), t.task_uuid)
    from tasks t left join counted c on c.task_uuid = t.task_uuid
   where (t.pending_steps, t.in_flight_steps, t.waiting_retry_steps, t.satisfied_steps, t.failed_steps, t.total_steps)
         is distinct from (coalesce(c.pending_steps, 0), coalesce(c.in_flight_steps, 0), coalesce(c.waiting_retry_steps, 0),
                           coalesce(c.satisfied_steps, 0), coalesce(c.failed_steps, 0), coalesce(c.total_steps, 0))
  union all
  select 'unmet_dependencies_differ', 'step', s.workflow_step_uuid,
         jsonb_build_object('stored', s.unmet_dependencies, 'counted', u.unmet),
         format('update tasker.workflow_steps set unmet_dependencies = %s where workflow_step_uuid = %L', u.unmet, s.workflow_step_uuid)
    from steps s cross join lateral (select tasker.unmet_dependencies_of(s.workflow_step_uuid) as unmet) u
   where s.unmet_dependencies <> u.unmet
  union all
  select 'waits_for_what_is_there', 'step', u.workflow_step_uuid, '{}', format('select tasker.tell_step(%L)', u.workflow_step_uuid)
    from tasker.untold_steps(p_task_uuid) u
   where exists (select from steps s where s.workflow_step_uuid = u.workflow_step_uuid)
  union all
  select 'wait_of_a_step_that_does_not_wait', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state),
         format('select tasker.drop_waits(array[%L::uuid])', s.workflow_step_uuid)
    from steps s where s.waits and (s.phase <> 'pending' or s.task_ended)
  union all
  select 'handed_out_before_dependencies', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state, 'unmet', u.missed), null
    from steps s join missed u on u.to_step_uuid = s.workflow_step_uuid
   where s.options ->> 'run_when' is null and s.counts_as in ('in_flight', 'waiting_retry')
  union all
  select 'task_ended_well_with_unsatisfied_steps', 'task', t.task_uuid, jsonb_build_object('state', t.to_state), null
    from tasks t join counted c on c.task_uuid = t.task_uuid
   where t.phase = 'succeeded' and c.satisfied_steps < c.total_steps
  union all
  select 'task_ended_with_steps_under_way', 'task', t.task_uuid, jsonb_build_object('state', t.to_state, 'steps', count(*)),
         format('select tasker.cancel_open_steps(%L, ''{}'')', t.task_uuid)
    from tasks t join steps s on s.task_uuid = t.task_uuid
   where t.is_terminal and s.counts_as in ('in_flight', 'waiting_retry')
     and (s.can_be_cancelled or s.claim_uuid is not null)  -- seed 001 has no cancelled state for steps
   group by t.task_uuid, t.to_state
  union all
  select 'running_without_claim', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state, 'claim_uuid', s.claim_uuid),
         format('select * from tasker.recover(false, %L, p_reason => ''...'', p_requested_by => ''...'')', s.task_uuid)
    from steps s left join tasker.step_claims k on k.claim_uuid = s.claim_uuid
   where s.phase = 'running' and k.claim_uuid is null and s.metadata ? 'claim_uuid' and not s.task_ended
  union all
  select 'claimed_but_not_running', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state, 'claim_uuid', s.claim_uuid),
         format('update tasker.workflow_steps set claim_uuid = null where workflow_step_uuid = %L and claim_uuid = %L', s.workflow_step_uuid, s.claim_uuid)
    from steps s where s.claim_uuid is not null and s.phase not in ('running', 'validating')
  union all
  select 'claim_counts_differ', 'claim', k.claim_uuid, jsonb_build_object('stored', k.open_steps, 'counted', held.steps),
         case held.steps when 0 then format('delete from tasker.step_claims where claim_uuid = %L', k.claim_uuid)
                         else format('update tasker.step_claims set open_steps = %s where claim_uuid = %L', held.steps, k.claim_uuid) end
    from tasker.step_claims k
   cross join lateral (select count(h.claim_uuid)::int as steps
                         from unnest(k.step_uuids) as u(workflow_step_uuid)
                         join tasker.workflow_steps h on h.workflow_step_uuid = u.workflow_step_uuid and h.claim_uuid = k.claim_uuid) held
   where k.open_steps <> held.steps
     and ((select tasker.bound_namespaces()) is null or k.namespace = any ((select tasker.bound_namespaces())::text[]))
     and (p_task_uuid is null or exists (select from steps s where s.workflow_step_uuid = any (k.step_uuids)))
  union all
  select 'queued_without_message', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state, 'queue', n.queue_name),
         format('select tasker.enqueue_steps(array[%L::uuid])', s.workflow_step_uuid)
    from steps s join tasker.task_namespaces n on n.namespace = s.namespace
   where s.is_queued and not s.task_ended
     and not exists (select from queued q where (q.queue_name = 'orchestration_step_results') = tasker.runs_in_engine(s.options)
                        and q.workflow_step_uuid = s.workflow_step_uuid)
     and not exists (select from tasker.timers m where m.workflow_step_uuid = s.workflow_step_uuid and m.sort_key = s.sort_key)
     and not exists (select from tasker.limit_waits w where w.workflow_step_uuid = s.workflow_step_uuid and w.sort_key = s.sort_key)
  union all
  -- its slots count it as running; the other way round is no mistake: a limit that was set meanwhile may not know of it
  select 'slot_of_idle_step', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state, 'limit', l.limit_uuid),
         format('update tasker.limit_slots set workflow_step_uuid = null where limit_uuid = %L and workflow_step_uuid = %L', l.limit_uuid, s.workflow_step_uuid)
    from steps s join tasker.limit_slots l on l.workflow_step_uuid = s.workflow_step_uuid and l.reserved_until is null
   where s.claim_uuid is null
  union all
  select 'line_without_timer', 'limit', w.limit_uuid, jsonb_build_object('waiting', count(*)),
         format('select tasker.hand_on_slots(array[%L::uuid], tasker.clock())', w.limit_uuid)
    from tasker.limit_waits w
   where not exists (select from tasker.timers m where m.limit_uuid = w.limit_uuid)
     and ((select tasker.bound_namespaces()) is null or w.namespace = any ((select tasker.bound_namespaces())::text[]))
     and (p_task_uuid is null or w.task_uuid = p_task_uuid)
   group by w.limit_uuid
  union all
  select 'reported_without_message', 'step', s.workflow_step_uuid, jsonb_build_object('state', s.to_state),
         format('select tasker.settle_steps(array[%L::uuid])', s.workflow_step_uuid)
    from steps s
   where s.phase in ('reported_success', 'reported_failure')
     and not exists (select from queued q where q.queue_name = 'orchestration_step_results' and q.workflow_step_uuid = s.workflow_step_uuid)
  union all
  select 'task_at_rest', 'task', t.task_uuid, jsonb_build_object('state', t.to_state),
         format('select tasker.drive_tasks(array[%L::uuid])', t.task_uuid)
    from tasks t left join counted c on c.task_uuid = t.task_uuid
   where not t.is_terminal and t.phase not in ('pending', 'blocked')
     and coalesce(c.in_flight_steps + c.waiting_retry_steps, 0) = 0
     and not exists (select from tasker.timers m where m.task_uuid = t.task_uuid and m.kind in ('drive', 'task_retry'))
     and not exists (select from steps s where s.task_uuid = t.task_uuid and (s.is_queued or s.waits))
     and (t.worker_count is null or exists (select from tasker.job_workers j where j.task_uuid = t.task_uuid))
     -- seed 000 leaves a workstream with a failed task that is not critical where it is, until somebody decides
     and (coalesce(c.failed_steps, 0) = 0
          or exists (select from tasker.lifecycle_states b where b.lifecycle = t.lifecycle and b.phase = 'blocked'))
     -- where a lifecycle has no state for being blocked, a task may rest with its failures until somebody decides (seed 000)
     and (exists (select from tasker.lifecycle_states b where b.lifecycle = t.lifecycle and b.phase = 'blocked')
          or exists (select from tasker.task_path(t.lifecycle, t.to_state, tasker.task_facts_of(t.task_uuid))))
  union all
  select 'completion_time_differs', 'task', t.task_uuid,
         jsonb_build_object('state', t.to_state, 'completed_at', t.completed_at),
         format('update tasker.tasks set completed_at = %L where task_uuid = %L', case when t.is_terminal then t.state_since end, t.task_uuid)
    from tasks t where t.is_terminal <> (t.completed_at is not null)
  union all
  select 'waiting_for_retry_without_timer', 'step', s.workflow_step_uuid, '{}',
         format('select tasker.retry_step(%L, p_reason => ''...'', p_requested_by => ''...'')', s.workflow_step_uuid)
    from steps s where s.phase in ('waiting_retry', 'circuit_open') and not s.task_ended
     and not exists (select from tasker.timers t where t.workflow_step_uuid = s.workflow_step_uuid and t.sort_key = s.sort_key)
     -- where a worker claims it out of that state it stands in its queue once the backoff is over
     and not exists (select from queued q where q.workflow_step_uuid = s.workflow_step_uuid)
     and not exists (select from tasker.limit_waits w where w.workflow_step_uuid = s.workflow_step_uuid and w.sort_key = s.sort_key)
  union all
  select 'log_position_missing', 'step', s.workflow_step_uuid, jsonb_build_object('rows', l.rows, 'last', l.last), null
    from steps s
   cross join lateral (select count(*) as rows, max(t.sort_key) as last, count(*) filter (where t.most_recent) as newest
                         from tasker.workflow_step_transitions t where t.workflow_step_uuid = s.workflow_step_uuid) l
   where l.rows > 0 and (l.rows <> l.last or l.newest <> 1)
  union all
  select 'log_position_missing', 'task', s.task_uuid, jsonb_build_object('rows', l.rows, 'last', l.last), null
    from tasks s
   cross join lateral (select count(*) as rows, max(t.sort_key) as last, count(*) filter (where t.most_recent) as newest
                         from tasker.task_transitions t where t.task_uuid = s.task_uuid) l
   where l.rows > 0 and (l.rows <> l.last or l.newest <> 1)
  union all
  select 'result_without_audit', 'step', s.workflow_step_uuid, jsonb_build_object('transition_uuid', t.workflow_step_transition_uuid), null
    from steps s
   cross join lateral (select t.* from tasker.workflow_step_transitions t where t.workflow_step_uuid = s.workflow_step_uuid offset 0) t
    join tasker.lifecycle_transitions r on r.lifecycle = t.lifecycle and r.from_state = t.from_state and r.event = t.event
                                       and r.to_state = t.to_state and r.reports_result
    left join lateral (select a.workflow_step_uuid from tasker.workflow_step_result_audit a
                        where a.workflow_step_transition_uuid = t.workflow_step_transition_uuid
                          and a.workflow_step_uuid = t.workflow_step_uuid limit 1) a on true
   where a.workflow_step_uuid is null
  union all
  select 'result_payload_differs', 'step', s.workflow_step_uuid,
         jsonb_build_object('transition_uuid', t.workflow_step_transition_uuid, 'logged', t.metadata -> 'result_payload',
                            'stored', jsonb_build_object('sha256', p.sha256, 'size', p.size)), null
    from steps s
   cross join lateral (select t.* from tasker.workflow_step_transitions t
                        where t.workflow_step_uuid = s.workflow_step_uuid and t.metadata ? 'result_payload' offset 0) t
    left join tasker.step_payloads p on p.payload_uuid = t.workflow_step_transition_uuid
   where not s.sensitive_result
     and (t.metadata -> 'result_payload' ->> 'sha256' is distinct from p.sha256
          or encode(sha256(convert_to(p.payload::text, 'UTF8')), 'hex') <> p.sha256)
  union all
  select 'audit_without_result', 'step', s.workflow_step_uuid, jsonb_build_object('audit_uuid', a.workflow_step_result_audit_uuid), null
    from steps s
   cross join lateral (select a.* from tasker.workflow_step_result_audit a where a.workflow_step_uuid = s.workflow_step_uuid offset 0) a
   cross join lateral (select t.* from tasker.workflow_step_transitions t
                        where t.workflow_step_transition_uuid = a.workflow_step_transition_uuid limit 1) t
    left join tasker.lifecycle_transitions r on r.lifecycle = t.lifecycle and r.from_state = t.from_state and r.event = t.event
                                            and r.to_state = t.to_state and r.reports_result
   where r.lifecycle is null
$$;
comment on function tasker.check_consistency(uuid, boolean) is
  'Recomputes counters, dependencies, claims, logs and audit from first principles and returns every difference: of one task, of all, or of those that have not ended, which reads no log of what is over. It must find nothing; each finding proposes the call that mends it where there is one.';
