create or replace function tasker.task_status(p_task_uuid uuid) returns setof tasker.task_overview
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query select o.* from tasker.task_overview o where o.task_uuid = p_task_uuid and tasker.may_see(o.namespace);
  if not found then
    perform tasker.raise_error('TK404', format('there is no task %s', coalesce(p_task_uuid::text, 'null')),
                               jsonb_build_object('task_uuid', p_task_uuid), 'See them in tasker.task_overview.');
  end if;
end
$$;
comment on function tasker.task_status(uuid) is 'State and progress of one task.';
