create or replace function tasker.report_validation(
  p_step_uuid  uuid,
  p_claim_uuid uuid,
  p_passed     boolean,
  p_details    jsonb default '{}'
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_step  tasker.workflow_steps;
  v_moves tasker.step_move[];
begin
  if p_passed is null then
    perform tasker.raise_error('TK400', 'a validation passes or fails', jsonb_build_object('step_uuid', p_step_uuid));
  end if;
  perform tasker.lock_step_or_refuse(p_step_uuid);
  select * into v_step from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid;
  if p_claim_uuid is null or v_step.claim_uuid is distinct from p_claim_uuid then
    perform tasker.raise_error('TK412', format('step %s is not held under this claim any more: its lease ended or it was taken away', p_step_uuid),
                               jsonb_build_object('step_uuid', p_step_uuid, 'claim_uuid', p_claim_uuid),
                               'Drop the work: somebody else does it, or nobody needs it any more.');
  end if;
  v_moves := array(select m from tasker.step_moves(
    array[p_step_uuid], case when p_passed then 'validation_pass' else 'validation_fail' end,
    jsonb_build_object('validation', coalesce(p_details, '{}'), 'passed', p_passed, 'worker_uuid', v_step.worker_uuid)
    -- the same checks on the same result fail again: no retry
    || case when p_passed then '{}'::jsonb else '{"success": false, "category": "permanent"}'::jsonb end) m);
  if cardinality(v_moves) = 0 then
    perform tasker.refuse_transition('step', p_step_uuid, v_step.lifecycle, tasker.step_state(p_step_uuid),
                                     case when p_passed then 'validation_pass' else 'validation_fail' end);
  end if;
  perform tasker.append_step_transitions(v_moves);
  perform tasker.release_claims(array[p_step_uuid]);
  perform tasker.settle_steps(array[p_step_uuid], null, v_moves);
  return tasker.step_state(p_step_uuid);
end
$$;
comment on function tasker.report_validation(uuid, uuid, boolean, jsonb) is
  'Reports the acceptance checks of a step that is being validated (seeds 000 and 002). A failed validation is final: it is never retried.';
