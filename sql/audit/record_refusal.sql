create or replace function tasker.record_refusal(
  p_command     text,
  p_entity_uuid uuid,
  p_code        text,
  p_message     text,
  p_detail      jsonb default '{}'
) returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into tasker.rejected_transitions (entity_kind, entity_uuid, task_uuid, namespace, code, message, detail)
  select case when p_command like '%task' or p_command like '%validation' then 'task' when p_command like '%worker' then 'worker' when p_command like '%step' then 'step' else 'command' end,
         p_entity_uuid, coalesce(s.task_uuid, t.task_uuid), coalesce(s.namespace, t.namespace), left(p_code, 5), left(p_message, 2000),
         coalesce(p_detail, '{}') || jsonb_build_object('command', p_command)
    from (values (1)) as one
    left join tasker.workflow_steps s on s.workflow_step_uuid = p_entity_uuid and tasker.may_see(s.namespace)
    left join tasker.tasks t on t.task_uuid = p_entity_uuid and tasker.may_see(t.namespace)
$$;
comment on function tasker.record_refusal(text, uuid, text, text, jsonb) is
  'Keeps a refused command in rejected_transitions, with the session that was refused. Of what the caller may not see only the key it gave is kept. attempt_command calls it.';
