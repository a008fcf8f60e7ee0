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
  p_start            boolean default true,
  p_vocabulary       text default null,
  p_start_at         timestamptz default null,
  p_request_id       text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_request jsonb := jsonb_strip_nulls(jsonb_build_object(
                       'name', p_name, 'namespace', p_namespace, 'version', p_version, 'idempotency_key', p_idempotency_key,
                       'correlation_id', p_correlation_id, 'priority', p_priority, 'parent_task_uuid', p_parent_task_uuid,
                       'requested_by', p_requested_by, 'start', p_start, 'vocabulary', p_vocabulary,
                       'start_at', p_start_at)) || jsonb_build_object('context', p_context, 'tags', p_tags);
  v_answer  text := tasker.begin_request(p_request_id, 'create_task', v_request || jsonb_build_object('tags', tasker.request_tags(p_tags)));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, (
           select c.task_uuid::text from tasker.create_tasks(jsonb_build_array(v_request)) as c(task_uuid))))::uuid;
end
$$;
comment on function tasker.create_task(text, jsonb, text, text, text, uuid, int, uuid, jsonb, text, boolean, text, timestamptz, text) is
  'Creates a task from a template and hands out its first steps, all in the caller''s transaction. The same idempotency key with the same request returns the same task. p_start false leaves it in its initial state; p_start_at starts it then. p_vocabulary: under whose names it runs, if not those of the template.';
