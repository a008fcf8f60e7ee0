create or replace function tasker.transition_step(
  p_step_uuid uuid,
  p_event     text,
  p_metadata  jsonb default '{}',
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'transition_step', jsonb_build_array(p_step_uuid, p_event, p_metadata));
  v_task    uuid := tasker.lock_step_or_refuse(p_step_uuid);
  v_step    tasker.workflow_steps;
  v_current tasker.workflow_step_transitions;
  v_rule    tasker.lifecycle_transitions;
  v_facts   tasker.step_facts;
  v_move    tasker.step_move;
  v_state   tasker.lifecycle_states;
begin
  if v_answer is not null then
    return v_answer;
  end if;
  p_metadata := tasker.caller_metadata(p_metadata, null);
  select * into v_step from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid;
  select * into v_current from tasker.workflow_step_transitions t where t.workflow_step_uuid = p_step_uuid and t.most_recent;
  if not exists (select from tasker.lifecycle_transitions r
                  where r.lifecycle = v_step.lifecycle and r.from_state = v_current.to_state and r.event = p_event) then
    perform tasker.refuse_transition('step', p_step_uuid, v_step.lifecycle, v_current.to_state, p_event);
  end if;

  v_facts := row(v_step.unmet_dependencies, v_step.attempts, v_step.max_attempts, v_step.retryable, v_step.claim_uuid is not null,
                 coalesce(p_metadata ->> 'success', v_current.metadata ->> 'success', 'true') <> 'false',
                 coalesce(p_metadata ->> 'category', v_current.metadata ->> 'category'));
  select * into v_rule
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_step.lifecycle and r.from_state = v_current.to_state and r.event = p_event
     and tasker.step_guard_holds(r.guard, v_facts)
   order by r.ordinal limit 1;
  if not found then
    select * into v_rule from tasker.lifecycle_transitions r
     where r.lifecycle = v_step.lifecycle and r.from_state = v_current.to_state and r.event = p_event order by r.ordinal limit 1;
    perform tasker.raise_error(
      'TK422', format('step %s is %s: %s asks for %s', p_step_uuid, v_current.to_state, p_event, v_rule.guard),
      jsonb_build_object('kind', 'step', 'uuid', p_step_uuid, 'event', p_event, 'guard', v_rule.guard, 'facts', to_jsonb(v_facts),
                         'missing', (select jsonb_agg(d.name)
                                       from tasker.workflow_step_edges e
                                       join tasker.workflow_steps d on d.workflow_step_uuid = e.from_step_uuid
                                       join tasker.workflow_step_transitions c on c.workflow_step_uuid = d.workflow_step_uuid and c.most_recent
                                       join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
                                      where e.to_step_uuid = p_step_uuid and not s.satisfies_dependencies)),
      (select g.description from tasker.guards g where g.guard = v_rule.guard));
  end if;

  p_metadata := tasker.caller_metadata(p_metadata, v_rule.fired_by);
  if p_metadata ? 'result' then
    perform tasker.refuse_decision(p_step_uuid, p_metadata -> 'result');
  end if;
  perform tasker.refuse_large('the metadata', p_metadata, v_step.namespace);
  select * into v_state from tasker.lifecycle_states s where s.lifecycle = v_rule.lifecycle and s.state = v_rule.to_state;
  perform tasker.refuse_work_in_ended_task(v_task, p_step_uuid, v_rule.lifecycle, v_rule.to_state);
  -- attribution is what the engine knows, not what the caller says: the worker that holds the step, if one does
  if v_rule.reports_result then
    p_metadata := p_metadata || jsonb_build_object(
      'worker_uuid', case when v_step.claim_uuid is not null then v_step.worker_uuid end,
      'success', not (v_state.is_error or v_state.phase = 'reported_failure'),
      'correlation_id', (select t.correlation_id from tasker.tasks t where t.task_uuid = v_task));
  end if;
  v_move := (tasker.uuid_generate_v7(), p_step_uuid, v_task, v_step.namespace, v_step.lifecycle, v_current.to_state, v_rule.event,
             v_rule.to_state, v_current.sort_key + 1, true, p_metadata);
  v_move := (tasker.schedule_retries(tasker.keep_results(array[v_move])))[1];
  perform tasker.append_step_transitions(array[v_move]);
  if p_metadata ? 'result' or v_rule.reports_result then
    update tasker.workflow_steps s set result_transition_uuid = v_move.transition_uuid where s.workflow_step_uuid = p_step_uuid;
  end if;

  if v_state.phase = 'queued' then
    perform tasker.enqueue_steps(array[p_step_uuid]);
  elsif v_state.phase in ('reported_success', 'reported_failure') then
    perform tasker.release_claims(array[p_step_uuid]);
    perform tasker.wake_orchestration(array[p_step_uuid]);
  elsif v_state.phase <> 'running' then
    perform tasker.after_step_moves(v_task, array[v_move]);
  end if;
  return tasker.end_request(p_request_id, v_rule.to_state);
end
$$;
comment on function tasker.transition_step(uuid, text, jsonb, text) is
  'The generic door for steps: makes one transition by its event. Rules and guards (TK422 tells what is missing) are checked under the lock, and what follows from the new state follows.';
