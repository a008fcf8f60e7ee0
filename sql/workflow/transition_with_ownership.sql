create or replace function tasker.transition_with_ownership(
  p_task_uuid      uuid,
  p_from_state     text,
  p_to_state       text,
  p_processor_uuid uuid,
  p_metadata       jsonb default '{}'
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_current tasker.task_transitions;
  v_event   text;
begin
  perform tasker.lock_task_or_refuse(p_task_uuid);
  select * into v_current from tasker.task_transitions t where t.task_uuid = p_task_uuid and t.most_recent;
  if v_current.to_state <> p_from_state then
    return false;  -- somebody was faster
  end if;
  select r.event into v_event
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_current.lifecycle and r.from_state = p_from_state and r.to_state = p_to_state
     and tasker.task_guard_holds(r.guard, tasker.task_facts_of(p_task_uuid))
   order by r.ordinal
   limit 1;
  if v_event is null then
    select r.event into v_event from tasker.lifecycle_transitions r
     where r.lifecycle = v_current.lifecycle and r.from_state = p_from_state and r.to_state = p_to_state
     order by r.ordinal limit 1;
    if v_event is null then
      perform tasker.refuse_transition('task', p_task_uuid, v_current.lifecycle, p_from_state, 'transition', p_to_state);
    end if;
  end if;
  if tasker.transition_task(p_task_uuid, v_event, p_processor_uuid, p_metadata) <> p_to_state then
    perform tasker.raise_error('TK422', format('task %s is %s: %s leads elsewhere now', p_task_uuid, p_from_state, v_event),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'event', v_event, 'to_state', p_to_state),
                               'A rule with the same event comes first and its guard holds; see allowed_events.');
  end if;
  return true;
end
$$;
comment on function tasker.transition_with_ownership(uuid, text, text, uuid, jsonb) is
  'Seed 004 transition_with_ownership: compare and set. False when the task is not in p_from_state any more; TK403 when another processor owns it.';
