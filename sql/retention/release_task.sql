create or replace function tasker.release_task(p_task_uuid uuid, p_reason text, p_requested_by text) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_retained_task_or_refuse(p_task_uuid);
  delete from tasker.legal_holds h where h.task_uuid = p_task_uuid;
  if found then
    insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
    values ('task_released', p_task_uuid::text, tasker.retained_namespace(p_task_uuid), p_requested_by, p_reason);
  end if;
  return found;
end
$$;
comment on function tasker.release_task(uuid, text, text) is 'Ends a legal hold; false where there was none.';
