create or replace function tasker.command_step(
  p_step_uuid    uuid,
  p_operations   text[],
  p_reason       text,
  p_requested_by text,
  p_metadata     jsonb default '{}'
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task  uuid;
  v_moves tasker.step_move[];
  v_step  tasker.workflow_steps;
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  v_task := tasker.lock_step_or_refuse(p_step_uuid);
  for v_place in 1 .. cardinality(p_operations) loop
    v_moves := array(select m from tasker.step_moves(
      array[p_step_uuid], p_operations[v_place],
      p_metadata || jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true)) m);
    exit when cardinality(v_moves) > 0;
  end loop;
  if cardinality(v_moves) = 0 then
    select * into v_step from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    perform tasker.refuse_transition('step', p_step_uuid, v_step.lifecycle, tasker.step_state(p_step_uuid), p_operations[1]);
  end if;
  perform tasker.refuse_work_in_ended_task(v_task, p_step_uuid, v_moves[1].lifecycle, v_moves[1].to_state);
  if p_metadata ? 'result' then
    perform tasker.refuse_decision(p_step_uuid, p_metadata -> 'result');
    perform tasker.refuse_large('the result', p_metadata -> 'result', v_moves[1].namespace);
    v_moves := tasker.keep_results(v_moves);
  end if;
  perform tasker.append_step_transitions(v_moves);
  if p_metadata ? 'result' then
    update tasker.workflow_steps s set result_transition_uuid = v_moves[1].transition_uuid
     where s.workflow_step_uuid = p_step_uuid;
  end if;
  perform tasker.after_step_moves(v_task, v_moves);
  return tasker.step_state(p_step_uuid);
end
$$;
comment on function tasker.command_step(uuid, text[], text, text, jsonb) is
  'A manual action on a step: the first of these operations that its lifecycle has from here. Task first, then step, is locked; the log keeps reason and name.';
