create or replace function tasker.tell_step(p_step_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.look_for_events(w.namespace, jsonb_build_array(jsonb_build_array(w.event, w.key)))
     from tasker.event_waits w where w.workflow_step_uuid = p_step_uuid and w.ended_at is null;
  perform tasker.wake_engine(array[c.workflow_step_uuid])
     from tasker.child_tasks c join tasker.workflow_steps s on s.workflow_step_uuid = c.workflow_step_uuid and s.claim_uuid = c.claim_uuid
    where c.workflow_step_uuid = p_step_uuid;
end
$$;
comment on function tasker.tell_step(uuid) is 'Has orchestration look whether what a step waits for, an event or the end of a task, is there.';
