create or replace function tasker.lock_task_or_refuse(p_task_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from tasker.tasks t where t.task_uuid = p_task_uuid and tasker.may_see(t.namespace) for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no task %s', coalesce(p_task_uuid::text, 'null')),
                               jsonb_build_object('task_uuid', p_task_uuid), 'See them in tasker.task_overview.');
  end if;
end
$$;
comment on function tasker.lock_task_or_refuse(uuid) is 'Locks one task, or raises TK404, also for a task that this login may not see.';
