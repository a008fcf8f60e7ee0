create or replace function tasker.command_task(
  p_task_uuid    uuid,
  p_operation    text,
  p_reason       text,
  p_requested_by text,
  p_metadata     jsonb default '{}'
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_current tasker.task_transitions;
  v_rule    tasker.lifecycle_transitions;
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_task_or_refuse(p_task_uuid);
  select * into v_current from tasker.task_transitions t where t.task_uuid = p_task_uuid and t.most_recent;
  select * into v_rule
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.operation = p_operation
   order by r.ordinal
   limit 1;
  if not found then
    perform tasker.refuse_transition('task', p_task_uuid, v_current.lifecycle, v_current.to_state, p_operation);
  end if;
  p_metadata := p_metadata || jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true);
  perform tasker.append_task_event(p_task_uuid, v_rule.event, v_rule.to_state, null, p_metadata);
  perform tasker.end_open_steps(p_task_uuid, v_rule.lifecycle, v_rule.to_state, p_metadata);
  return v_rule.to_state;
end
$$;
comment on function tasker.command_task(uuid, text, text, text, jsonb) is
  'A manual action on a task. Commands of people do not wait for the owning processor; the log keeps reason and name.';
