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
  p_unique_key       text default null,
  p_unique_seconds   double precision default null,
  p_debounce_seconds double precision default null,
  p_debounce_max_seconds double precision default null,
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
                       'start_at', p_start_at, 'unique_key', p_unique_key, 'unique_seconds', p_unique_seconds,
                       'debounce_seconds', p_debounce_seconds, 'debounce_max_seconds', p_debounce_max_seconds)) || jsonb_build_object('context', p_context, 'tags', p_tags);
  v_answer  text := tasker.begin_request(p_request_id, 'create_task', v_request || jsonb_build_object('tags', tasker.request_tags(p_tags)));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, (
           select s.task_uuid::text from tasker.submit_tasks(jsonb_build_array(v_request)) s)))::uuid;
end
$$;
comment on function tasker.create_task(text, jsonb, text, text, text, uuid, int, uuid, jsonb, text, boolean, text, timestamptz, text, double precision, double precision, double precision, text) is
  'Creates a task from a template and hands out its first steps, all in the caller''s transaction. The same idempotency key with the same request returns the same task. p_start false leaves it in its initial state; p_start_at starts it then. p_vocabulary: under whose names it runs, if not those of the template. p_unique_key: as long as a task under the same key runs in the namespace, or for p_unique_seconds after it was created, that one is answered and nothing is created; with p_debounce_seconds a task under it that has not started is pushed back by so much, at most to p_debounce_max_seconds after the first request, and gets the newest context. submit_tasks also says which of it was the case.';
