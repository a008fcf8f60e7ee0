create or replace function tasker.hold_task(p_task_uuid uuid, p_reason text, p_requested_by text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_retained_task_or_refuse(p_task_uuid);
  insert into tasker.legal_holds (task_uuid, reason, requested_by) values (p_task_uuid, p_reason, p_requested_by)
      on conflict (task_uuid) do nothing;
  if found then
    insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
    values ('task_held', p_task_uuid::text, tasker.retained_namespace(p_task_uuid), p_requested_by, p_reason);
  end if;
end
$$;
comment on function tasker.hold_task(uuid, text, text) is
  'Legal hold: the task, here or in the archive, and its family stay until release_task. Held twice is held once; the first reason stands.';
