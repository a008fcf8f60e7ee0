create or replace function tasker.save_checkpoint(p_step_uuid uuid, p_claim_uuid uuid, p_checkpoint jsonb) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_step tasker.workflow_steps;
begin
  select * into v_step from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid and tasker.may_see(s.namespace) for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no step %s', coalesce(p_step_uuid::text, 'null')), jsonb_build_object('step_uuid', p_step_uuid));
  elsif v_step.claim_uuid is distinct from p_claim_uuid or p_claim_uuid is null then
    perform tasker.raise_error('TK412', format('step %s is not held under this claim any more: its lease ended or it was taken away', p_step_uuid),
                               jsonb_build_object('step_uuid', p_step_uuid, 'claim_uuid', p_claim_uuid),
                               'Drop the work: somebody else does it, or nobody needs it any more.');
  elsif p_checkpoint is null then
    perform tasker.raise_error('TK400', 'a checkpoint can''t be null', jsonb_build_object('step_uuid', p_step_uuid));
  end if;
  perform tasker.refuse_large('the checkpoint', p_checkpoint, v_step.namespace);
  if v_step.sensitive_result then
    p_checkpoint := tasker.keep_sensitive(p_step_uuid, 'checkpoint', v_step.task_uuid, v_step.namespace, p_checkpoint, '{""}');
  end if;
  insert into tasker.step_checkpoints (workflow_step_uuid, task_uuid, namespace, checkpoint, attempt)
  values (p_step_uuid, v_step.task_uuid, v_step.namespace, p_checkpoint, v_step.attempts)
      on conflict (workflow_step_uuid) do update
     set checkpoint = excluded.checkpoint, attempt = excluded.attempt, saved_at = clock_timestamp();
end
$$;
comment on function tasker.save_checkpoint(uuid, uuid, jsonb) is
  'Keeps partial output of a running step (seed 002 checkpoint, save_partial_output): the next attempt gets it, whatever ends this one. Same fence as a report.';
