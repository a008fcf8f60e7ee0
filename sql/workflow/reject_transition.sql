create or replace function tasker.reject_transition(
  p_entity_kind text,
  p_entity_uuid uuid,
  p_code        text,
  p_message     text,
  p_detail      jsonb default '{}'
) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into tasker.rejected_transitions (entity_kind, entity_uuid, task_uuid, namespace, code, message, detail)
  select p_entity_kind, p_entity_uuid, s.task_uuid, s.namespace, p_code, p_message, coalesce(p_detail, '{}')
    from (values (1)) as one
    left join tasker.workflow_steps s on s.workflow_step_uuid = p_entity_uuid and tasker.may_see(s.namespace)
$$;
comment on function tasker.reject_transition(text, uuid, text, text, jsonb) is
  'Records a refusal in the transaction that goes on without it. Of a step that the caller may not see only the key it gave is kept.';
