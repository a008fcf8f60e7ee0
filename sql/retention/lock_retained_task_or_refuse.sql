create or replace function tasker.lock_retained_task_or_refuse(p_task_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- an archivist or a purge that is under way goes first: then it is clear where the task is, if anywhere
  lock table tasker.archived_tasks in row exclusive mode;
  if not coalesce(tasker.may_see(tasker.retained_namespace(p_task_uuid)), false) or tasker.retained_namespace(p_task_uuid) is null then
    perform tasker.raise_error('TK404', format('there is no task %s, here or in the archive', coalesce(p_task_uuid::text, 'null')),
                               jsonb_build_object('task_uuid', p_task_uuid), 'See them in tasker.task_overview and tasker.archived_tasks.');
  end if;
end
$$;
comment on function tasker.lock_retained_task_or_refuse(uuid) is
  'Keeps a task where it is, here or in the archive, until the end of the transaction; TK404 where it is neither.';
