create or replace function tasker.explain_task(p_task_uuid uuid) returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_task    tasker.task_overview;
  v_summary text;
  v_reasons jsonb;
  v_owner   record;
  v_start_at timestamptz;
begin
  select * into v_task from tasker.task_status(p_task_uuid);
  select t.start_at into v_start_at from tasker.tasks t where t.task_uuid = p_task_uuid;

  select jsonb_agg(jsonb_build_object('step', w.name, 'step_uuid', w.workflow_step_uuid, 'state', w.state, 'why', w.why, 'call', w.call)
                   order by w.importance, w.ordinal)
    into v_reasons
    from (select o.name, o.workflow_step_uuid, o.state, o.ordinal,
                 case o.phase when 'failed' then 1 when 'cancelled' then 1 when 'waiting_retry' then 2 when 'running' then 3 else 4 end as importance,
                 case when o.phase = 'failed' then format('failed at attempt %s of %s: %s', o.attempts, o.max_attempts,
                                                          coalesce(o.last_error ->> 'message', o.last_error::text, 'no error was given'))
                      when o.phase = 'cancelled' then 'was cancelled, so what depends on it can''t start'
                      when o.phase = 'waiting_retry' then format('failed at attempt %s of %s and is tried again at %s', o.attempts, o.max_attempts, o.next_retry_at)
                      when o.phase = 'running' and child.task_uuid is not null
                        then format('waits for task %s (%s), which is %s', child.task_uuid, child.name, tasker.task_state(child.task_uuid))
                      when o.phase = 'running' and o.worker_uuid is null then 'is run by the engine'
                      when o.phase = 'running' then format('is held by worker %s until %s', o.worker_uuid, o.lease_expires_at)
                      when o.phase in ('queued', 'pending') and o.unmet_dependencies <= 0 and requeued.due_at is not null
                        then format('waits until %s to stand in its queue', requeued.due_at)
                      when limited.scope is not null
                        then format('waits for %s %s, of which %s: it is number %s in line', limited.scope, limited.name,
                                    concat_ws(' and ', limited.concurrency || ' run at once', limited.rate || ' start in ' || limited.per), limited.place)
                      when o.phase = 'queued' and (select n.paused_at is not null from tasker.task_namespaces n where n.namespace = o.namespace)
                        then format('stands in the queue of namespace %s, which is paused', o.namespace)
                      when left_here.handler is not null
                        then format('was left by a worker without handler %s; %s', left_here.handler,
                                    coalesce(tasker.handler_missing(o.namespace, o.handler), 'one that has it should take it soon'))
                      when o.phase = 'queued' then format('stands in the queue of namespace %s; %s', o.namespace,
                                    coalesce(tasker.handler_missing(o.namespace, o.handler), 'a worker should take it soon'))
                      when o.phase in ('reported_success', 'reported_failure') then 'has reported and waits for orchestration'
                      when o.phase = 'pending' and wait.event is not null then
                        format('waits for %s since %s', o.waits_for, wait.since)
                        || coalesce(format(', until %s: then it %s', wait.due_at, case wait.on_timeout when 'skip' then 'is left out'
                                                                                     when 'run' then 'runs without it' else 'fails' end), '')
                      when o.phase = 'pending' and o.unmet_dependencies > 0 then tasker.explain_dependencies(o.workflow_step_uuid)
                      when o.phase = 'pending' then 'is ready and will be queued when its task moves' end as why,
                 case when o.phase = 'failed' then format('select tasker.retry_step(%L, p_reason => ''...'', p_requested_by => ''...'')', o.workflow_step_uuid)
                      when o.phase = 'cancelled' then format('select tasker.give_up_task(%L, p_reason => ''...'', p_requested_by => ''...'')', o.task_uuid)
                      when o.phase = 'waiting_retry' and o.next_retry_at > tasker.clock()
                        then format('select tasker.retry_step(%L, p_reason => ''...'', p_requested_by => ''...'')', o.workflow_step_uuid)
                      when o.phase = 'waiting_retry' then 'select tasker.tick()'
                      when o.phase = 'pending' and wait.event is not null
                        then format('select * from tasker.emit_event(%L, %L, ''{...}'', %L)', wait.event, wait.key, o.namespace)
                      when o.phase = 'running' and child.task_uuid is not null then format('select tasker.explain_task(%L)', child.task_uuid)
                      when o.phase = 'running' and o.lease_expires_at <= tasker.clock() then 'select tasker.tick()'
                      when o.phase in ('queued', 'pending') and o.unmet_dependencies <= 0 and requeued.due_at is not null then null
                      when limited.scope is not null then 'select * from tasker.limit_overview'
                      when o.phase = 'queued' and (select n.paused_at is not null from tasker.task_namespaces n where n.namespace = o.namespace)
                        then format('select tasker.resume_namespace(%L, p_reason => ''...'', p_requested_by => ''...'')', o.namespace)
                      when o.phase = 'queued' or left_here.handler is not null then format('pgtasker worker run your_module:worker --namespace %s', o.namespace)
                      when o.phase in ('reported_success', 'reported_failure') then 'select tasker.orchestrate()' end as call
            from tasker.step_overview o
            left join lateral (select w.handler from tasker.handler_waits w
                                 join tasker.workflow_step_transitions c
                                   on c.workflow_step_uuid = w.workflow_step_uuid and c.most_recent and c.sort_key = w.sort_key
                                where w.workflow_step_uuid = o.workflow_step_uuid limit 1) left_here on true
            left join lateral (select min(m.due_at) as due_at from tasker.timers m
                                where m.workflow_step_uuid = o.workflow_step_uuid and m.kind = 'requeue') requeued on true
            left join lateral (select w.event, w.key, w.since, w.due_at, s.options #>> '{wait_for,on_timeout}' as on_timeout
                                 from tasker.event_waits w join tasker.workflow_steps s on s.workflow_step_uuid = w.workflow_step_uuid
                                where w.workflow_step_uuid = o.workflow_step_uuid and w.ended_at is null) wait on o.waits_for is not null
            left join lateral (select l.*, (select count(*) from tasker.limit_waits x where x.limit_uuid = w.limit_uuid and x.place <= w.place) as place
                                 from tasker.limit_waits w
                                 join tasker.limits l on l.limit_uuid = w.limit_uuid
                                where w.workflow_step_uuid = o.workflow_step_uuid and o.phase in ('queued', 'pending', 'trial')
                                order by w.sort_key desc limit 1) limited on true
            left join lateral (select k.task_uuid, k.name from tasker.child_tasks c join tasker.tasks k on k.task_uuid = c.task_uuid
                                where c.workflow_step_uuid = o.workflow_step_uuid and c.claim_uuid = o.claim_uuid
                                  and tasker.may_see(k.namespace)) child on o.waits_for is not null
           where o.task_uuid = p_task_uuid
             and not (o.is_terminal and (o.phase in ('succeeded', 'resolved') or o.left_out))
           order by 4, o.ordinal
           limit 50) w;

  select p.name, p.lease_expires_at into v_owner
    from tasker.task_transitions c
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and s.requires_ownership
    join tasker.processors p on p.processor_uuid = c.processor_uuid and p.lease_expires_at > tasker.clock()
   where c.task_uuid = p_task_uuid and c.most_recent;

  v_summary := case
    when v_task.is_terminal then format('The task ended as %s at %s: %s of %s steps done.', v_task.state, v_task.completed_at,
                                        v_task.satisfied_steps, v_task.total_steps)
    when v_task.phase = 'blocked' then format('The task is blocked: %s step(s) failed and nothing that is left can start. Retry or resolve what failed, or resolve or give up the task.', v_task.failed_steps)
    when v_task.satisfied_steps = v_task.total_steps and (tasker.task_facts_of(p_task_uuid)).awaits_validation
      then 'Every step is done, and the final validation is waited for: pass_validation or fail_validation gives it.'
    when v_task.phase = 'pending' and v_start_at is not null
      then format('The task was created and starts at %s. select tasker.transition_task(task_uuid, ''start'') starts it now.', v_start_at)
    when v_task.phase = 'pending' then 'The task was created and not started. select tasker.transition_task(task_uuid, ''start'') starts it.'
    when v_task.in_flight_steps > 0 then format('The task is moving: %s step(s) are queued, running or reported; %s of %s are done.', v_task.in_flight_steps, v_task.satisfied_steps, v_task.total_steps)
    when v_task.waiting_retry_steps > 0 then format('The task waits for the retry of %s step(s).', v_task.waiting_retry_steps)
    when tasker.open_waits(p_task_uuid) > 0 then format('%s step(s) wait for events.', tasker.open_waits(p_task_uuid))
    else 'Nothing is under way. The engine looks at it again at the next tick.' end
    || case when v_task.compensated_by is not null then format(' What it did is undone by task %s, which is %s.', v_task.compensated_by, tasker.task_state(v_task.compensated_by)) else '' end
    || case when v_task.compensates_task_uuid is not null then format(' It undoes what task %s did.', v_task.compensates_task_uuid) else '' end
    || case when v_owner.name is not null then format(' Processor %s owns it until %s.', v_owner.name, v_owner.lease_expires_at) else '' end;

  return jsonb_build_object('task_uuid', p_task_uuid, 'state', v_task.state, 'summary', v_summary, 'reasons', coalesce(v_reasons, '[]'));
end
$$;
comment on function tasker.explain_task(uuid) is
  'Why is the task not further? In words, step by step (up to 50), with the call that would move it.';
