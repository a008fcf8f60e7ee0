create or replace function tasker.recover(
  p_dry_run      boolean default true,
  p_task_uuid    uuid default null,
  p_reason       text default null,
  p_requested_by text default null,
  out problem     text,
  out entity_kind text,
  out entity_uuid uuid,
  out action      text,
  out done        boolean
) returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found    record;
  v_problems jsonb;
  v_bound    text[] := tasker.bound_namespaces();
begin
  if not p_dry_run then
    perform tasker.refuse_without_reason(p_reason, p_requested_by);
  end if;

  with found as (
    with queued as materialized (
      select m.step_uuid, m.queue_name from tasker.queued_messages() m
    ), open_tasks as materialized (
      select t.* from tasker.tasks t where (p_task_uuid is null or t.task_uuid = p_task_uuid) and t.completed_at is null
    ), steps as materialized (
      select s.workflow_step_uuid, s.task_uuid, s.namespace, s.claim_uuid, s.acceptance, c.sort_key, x.phase,
             -- it stands in its queue, or waits in a timer or in the line of a limit to be put there again
             x.phase in ('queued', 'trial') or (x.phase = 'pending' and s.handed_out_at is not null) as is_queued,
             exists (select from queued q where q.step_uuid = s.workflow_step_uuid) as has_message,
             exists (select from tasker.timers t where t.workflow_step_uuid = s.workflow_step_uuid and t.sort_key = c.sort_key)
             or exists (select from tasker.limit_waits w where w.workflow_step_uuid = s.workflow_step_uuid and w.sort_key = c.sort_key) as has_timer
        -- of a task that has ended, what could not be cancelled is left where it is
        from open_tasks o
       cross join lateral (select s.* from tasker.workflow_steps s where s.task_uuid = o.task_uuid offset 0) s
       cross join lateral (select c.* from tasker.workflow_step_transitions c
                            where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
        join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
       where not x.is_terminal and (v_bound is null or s.namespace = any (v_bound))
    )
    select 'queued_without_message' as problem, s.task_uuid, s.workflow_step_uuid, 'send it to its queue again' as action
      from steps s
     where s.is_queued and not s.has_message and not s.has_timer
    union all
    select 'reported_without_message', s.task_uuid, s.workflow_step_uuid, 'wake orchestration for it'
      from steps s
     where s.phase in ('reported_success', 'reported_failure')
       and not exists (select from queued q where q.step_uuid = s.workflow_step_uuid and q.queue_name = 'orchestration_step_results')
    union all
    select 'waits_for_what_is_there', s.task_uuid, s.workflow_step_uuid, 'tell it'
      from tasker.untold_steps(p_task_uuid) u join steps s on s.workflow_step_uuid = u.workflow_step_uuid
    union all
    select 'running_without_claim', s.task_uuid, s.workflow_step_uuid, 'report its attempt as failed'
      from steps s
     where (s.phase = 'running' or (s.phase = 'validating' and s.acceptance <> '[]'))
       and not exists (select from tasker.step_claims k where k.claim_uuid = s.claim_uuid)
    union all
    select 'waiting_for_retry_without_timer', s.task_uuid, s.workflow_step_uuid, 'retry it now'
      from steps s
     where s.phase in ('waiting_retry', 'circuit_open') and not s.has_timer and not s.has_message
    union all
    select 'task_waiting_for_retry_without_timer', t.task_uuid, null, 'retry it now'
      from open_tasks t
     cross join lateral (select c.* from tasker.task_transitions c where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'task_retry_due'
     where (v_bound is null or t.namespace = any (v_bound))
       and not exists (select from tasker.timers x where x.task_uuid = t.task_uuid and x.kind = 'task_retry' and x.sort_key = c.sort_key)
    union all
    select 'task_could_move', t.task_uuid, null, 'drive it'
      from open_tasks t
     cross join lateral (select c.* from tasker.task_transitions c where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and not x.is_terminal
     where (v_bound is null or t.namespace = any (v_bound))
       and (t.started_at is not null or t.start_at <= tasker.clock())
       and cardinality(tasker.foreign_owned(array[t.task_uuid], null)) = 0
       and exists (select from tasker.task_path(c.lifecycle, c.to_state, (
                     select row((f.facts).total_steps, (f.facts).pending_steps, (f.facts).ready_steps, (f.facts).in_flight_steps,
                                (f.facts).waiting_retry_steps, (f.facts).satisfied_steps, (f.facts).failed_steps, 0,
                                (f.facts).enqueue_failed, (f.facts).failed_critical_steps,
                                (f.facts).retries_left, (f.facts).workers_allocated, (f.facts).awaits_validation, (f.facts).cleans_up)::tasker.task_facts
                       from (select tasker.task_facts_of(t.task_uuid) as facts) f)))
  )
  select jsonb_agg(to_jsonb(f)) into v_problems from found f;
  if not p_dry_run then
    -- everything in one order before anything is mended
    perform tasker.lock_work(array(select f.task_uuid from jsonb_to_recordset(v_problems) as f(task_uuid uuid)));
  end if;
  for v_found in
    select f.* from jsonb_to_recordset(v_problems) as f(problem text, task_uuid uuid, workflow_step_uuid uuid, action text)
      left join tasker.workflow_steps s on s.workflow_step_uuid = f.workflow_step_uuid
     -- what reports results may move breakers, which come last and by name
     order by f.problem = 'running_without_claim', coalesce(s.tool, s.handler), f.task_uuid, f.workflow_step_uuid
  loop
    problem := v_found.problem;
    entity_kind := case when v_found.workflow_step_uuid is null then 'task' else 'step' end;
    entity_uuid := coalesce(v_found.workflow_step_uuid, v_found.task_uuid);
    action := v_found.action;
    done := not p_dry_run and tasker.recover_one(v_found.problem, v_found.task_uuid, v_found.workflow_step_uuid,
                                                 jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by,
                                                                    'manual', true, 'recovered_from', v_found.problem));
    return next;
  end loop;
end
$$;
comment on function tasker.recover(boolean, uuid, text, text) is
  'Finds work that nothing would move any more and mends it: lost messages, claims, timers, tasks that could go on. Dry run by default: it says what it would do. What it does is logged with reason and name.';
