create or replace function tasker.retained_namespace(p_task_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.namespace from tasker.tasks t where t.task_uuid = p_task_uuid
  union all
  select a.namespace from tasker.archived_tasks a where a.task_uuid = p_task_uuid
  limit 1
$$;
comment on function tasker.retained_namespace(uuid) is 'The namespace of a task, here or in the archive; null where it is neither.';
