create or replace function tasker.create_task(
  p_name             text,
  p_context          jsonb default '{}',
  p_namespace        text default 'default',
  p_version          text default null,
  p_idempotency_key  text default null,
  p_correlation_id   uuid default null,
  p_priority         int default 0,
  p_parent_task_uuid uuid default null,
  p_tags             jsonb default '{}',
  p_requested_by     text default null,
  p_start            boolean default true
) returns uuid
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.task_uuid
    from tasker.create_tasks(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'name', p_name, 'namespace', p_namespace, 'version', p_version, 'idempotency_key', p_idempotency_key,
      'correlation_id', p_correlation_id, 'priority', p_priority, 'parent_task_uuid', p_parent_task_uuid,
      'requested_by', p_requested_by, 'start', p_start)) || jsonb_build_object('context', p_context, 'tags', p_tags))) as c(task_uuid)
$$;
comment on function tasker.create_task(text, jsonb, text, text, text, uuid, int, uuid, jsonb, text, boolean) is
  'Creates a task from a template and hands out its first steps, all in the caller''s transaction. The same idempotency key with the same request returns the same task. p_start false leaves it in its initial state.';
