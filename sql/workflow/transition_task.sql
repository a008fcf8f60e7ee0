create or replace function tasker.transition_task(
  p_task_uuid      uuid,
  p_event          text,
  p_processor_uuid uuid default null,
  p_metadata       jsonb default '{}',
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'transition_task', jsonb_build_array(p_task_uuid, p_event, p_processor_uuid, p_metadata));
  v_current tasker.task_transitions;
  v_rule    tasker.lifecycle_transitions;
  v_owner   record;
  v_facts   tasker.task_facts;
  v_ended   record;
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.refuse_unknown_processor(p_processor_uuid);
  perform tasker.lock_task_or_refuse(p_task_uuid);
  select * into v_current from tasker.task_transitions t where t.task_uuid = p_task_uuid and t.most_recent;
  if not exists (select from tasker.lifecycle_transitions r
                  where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.event = p_event) then
    perform tasker.refuse_transition('task', p_task_uuid, v_current.lifecycle, v_current.to_state, p_event);
  end if;

  if exists (select from tasker.lifecycle_states s where s.lifecycle = v_current.lifecycle and s.state = v_current.to_state and s.is_terminal) then
    perform tasker.refuse_compensated(p_task_uuid);
  end if;
  v_facts := tasker.task_facts_of(p_task_uuid);
  select * into v_rule
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.event = p_event
     and tasker.task_guard_holds(r.guard, v_facts)
   order by r.ordinal
   limit 1;
  if not found then
    select * into v_rule from tasker.lifecycle_transitions r
     where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.event = p_event
     order by r.ordinal limit 1;
    perform tasker.raise_error(
      'TK422', format('task %s is %s: %s asks for %s', p_task_uuid, v_current.to_state, p_event, v_rule.guard),
      jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'event', p_event, 'guard', v_rule.guard, 'facts', to_jsonb(v_facts)),
      (select g.description from tasker.guards g where g.guard = v_rule.guard));
  end if;

  if v_rule.fired_by = 'command' then
    perform tasker.refuse_command_to_caller(v_rule.operation);
  end if;
  -- people's commands pass; a processor must own what it moves
  if v_rule.fired_by <> 'command' and cardinality(tasker.foreign_owned(array[p_task_uuid], p_processor_uuid)) > 0 then
    select p.* into v_owner from tasker.processors p where p.processor_uuid = v_current.processor_uuid;
    perform tasker.raise_error(
      'TK403', format('task %s belongs to processor %s until %s', p_task_uuid, v_owner.processor_uuid, v_owner.lease_expires_at),
      jsonb_build_object('task_uuid', p_task_uuid, 'owner', v_owner.processor_uuid, 'owner_name', v_owner.name,
                         'lease_expires_at', v_owner.lease_expires_at, 'processor_uuid', p_processor_uuid),
      'Wait until its lease ends, or let the owner do it.');
  end if;

  p_metadata := tasker.caller_metadata(p_metadata, v_rule.fired_by);
  if v_rule.fired_by <> 'command' and v_current.processor_uuid is not null and v_current.processor_uuid is distinct from p_processor_uuid
     and exists (select from tasker.lifecycle_states s
                  where s.lifecycle = v_current.lifecycle and s.state = v_current.to_state and s.requires_ownership) then
    p_metadata := p_metadata || jsonb_build_object('taken_over_from', v_current.processor_uuid);
  end if;
  perform tasker.append_task_event(p_task_uuid, v_rule.event, v_rule.to_state, p_processor_uuid, p_metadata);

  select s.phase, s.is_terminal into v_ended
    from tasker.lifecycle_states s where s.lifecycle = v_rule.lifecycle and s.state = v_rule.to_state;
  if v_ended.is_terminal then
    perform tasker.end_open_steps(p_task_uuid, v_rule.lifecycle, v_rule.to_state, p_metadata);
  elsif v_ended.phase = 'enqueuing' then
    perform tasker.enqueue_ready_steps(p_task_uuid);
  end if;
  -- Moved by hand, it may rest where it could go on. A processor has half a minute to do so itself, then the engine does.
  if not v_ended.is_terminal then
    insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
    values (tasker.clock() + case when p_processor_uuid is null then interval '0' else interval '30 seconds' end, 'drive', p_task_uuid, v_current.namespace, v_current.sort_key + 1);
  end if;
  return tasker.end_request(p_request_id, v_rule.to_state);
end
$$;
comment on function tasker.transition_task(uuid, text, uuid, jsonb, text) is
  'The generic door for tasks: makes one transition by its event. Rules, guards (TK422) and ownership (TK403) are checked under the lock. If nobody moves the task on, the engine does at the next tick, or 30 s after a processor moved it.';
