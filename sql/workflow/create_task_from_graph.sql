create or replace function tasker.create_task_from_graph(
  p_graph            jsonb,
  p_context          jsonb default '{}',
  p_namespace        text default null,
  p_idempotency_key  text default null,
  p_correlation_id   uuid default null,
  p_priority         int default 0,
  p_parent_task_uuid uuid default null,
  p_tags             jsonb default '{}',
  p_requested_by     text default null,
  p_start            boolean default true,
  p_start_at         timestamptz default null,
  p_request_id       text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'create_task_from_graph', jsonb_build_array(p_graph, p_context, p_namespace, p_idempotency_key, p_correlation_id, p_priority, p_parent_task_uuid, tasker.request_tags(p_tags), p_requested_by, p_start)
    || case when p_start_at is null then '[]' else jsonb_build_array(p_start_at) end);
  v_plan uuid := tasker.uuid_generate_v7();
  v_task tasker.tasks;
  v_task_uuid uuid;
begin
  if v_answer is not null then
    return v_answer::uuid;
  end if;
  perform tasker.refuse_template(p_graph);
  if coalesce(jsonb_typeof(p_context), 'null') not in ('object', 'null') or coalesce(jsonb_typeof(p_tags), 'null') not in ('object', 'null') then
    perform tasker.raise_error('TK400', 'context and tags must be JSON objects',
                               jsonb_build_object('context', jsonb_typeof(p_context), 'tags', jsonb_typeof(p_tags)));
  end if;
  if p_start_at is not null and (not p_start or p_start_at > clock_timestamp() + interval '100 years') then
    perform tasker.raise_error('TK400', 'start_at is a time within 100 years, and start can''t be false beside it',
                               jsonb_build_object('start_at', p_start_at, 'start', p_start));
  end if;
  if length(p_idempotency_key) not between 1 and 255 then
    perform tasker.raise_error('TK400', 'idempotency_key has 1 to 255 characters', jsonb_build_object('length', length(p_idempotency_key)));
  end if;
  if p_namespace <> p_graph ->> 'namespace' then
    perform tasker.raise_error('TK400', format('the graph is one of namespace %s, and the task was asked for in %s', p_graph ->> 'namespace', p_namespace),
                               jsonb_build_object('graph', p_graph ->> 'namespace', 'asked', p_namespace), 'Name the namespace once.');
  end if;
  v_task.namespace := tasker.ensure_namespace(coalesce(p_namespace, p_graph ->> 'namespace', 'default'));
  perform tasker.refuse_large_arguments(p_graph, v_task.namespace);
  v_task.task_uuid := tasker.uuid_generate_v7();
  v_task.name := p_graph ->> 'name';
  v_task.version := p_graph ->> 'version';
  v_task.vocabulary := coalesce(p_graph ->> 'vocabulary', 'tasker');
  v_task.parent_task_uuid := p_parent_task_uuid;
  v_task.correlation_id := coalesce(p_correlation_id, tasker.trace_uuid(p_tags), tasker.uuid_generate_v7());
  v_task.idempotency_key := p_idempotency_key;
  if p_idempotency_key is not null then
    v_task.request_hash := tasker.content_hash(jsonb_build_array(p_graph, p_context, p_priority, p_parent_task_uuid, tasker.request_tags(p_tags), p_start)::text || coalesce(p_start_at::text, ''),
                                               jsonb_path_exists(p_graph, '$.sensitive') or jsonb_path_exists(p_graph, '$.steps[*].sensitive'));
  end if;
  v_task.priority := coalesce(p_priority, 0);
  v_task.requested_by := p_requested_by;
  v_task.context := coalesce(nullif(p_context, 'null'), '{}');
  v_task.sensitive := tasker.text_array(p_graph -> 'sensitive');
  v_task.tags := coalesce(p_tags, '{}');
  v_task.worker_count := (p_graph ->> 'worker_count')::int;
  v_task.final_validation := coalesce((p_graph ->> 'final_validation')::boolean, false);
  v_task.start_at := p_start_at;
  v_task.depth := coalesce((select k.depth + 1 from tasker.tasks k where k.task_uuid = p_parent_task_uuid), 0);
  v_task.max_retries := coalesce((p_graph ->> 'max_retries')::int, 0);
  v_task.timeout := (p_graph ->> 'timeout_seconds')::double precision * interval '1 second';
  v_task_uuid := (tasker.create_or_find_tasks(
    array[v_task], array[v_plan],
    array(select (null, s.named_task_uuid, s.name, s.handler, s.ordinal, s.depends_on, s.arguments, s.retryable, s.max_attempts,
                  s.base_delay, s.max_delay, s.jitter, s.timeout, s.tool, s.requires, s.acceptance, s.on_failure,
                  s.condition, s.skips_dependents, s.sensitive, s.sensitive_result, s.delay, s.options)::tasker.named_steps
            from tasker.template_steps(tasker.redact_template(p_graph), v_plan) s),
    array[coalesce(p_start, true) and coalesce(p_start_at <= tasker.clock(), true)]))[1];
  if v_task_uuid = v_task.task_uuid then
    perform tasker.keep_sensitive_arguments(p_graph, v_task_uuid, v_task.namespace, array_agg(s.name), array_agg(s.workflow_step_uuid))
       from tasker.workflow_steps s where s.task_uuid = v_task_uuid;
  end if;
  return tasker.end_request(p_request_id, v_task_uuid::text)::uuid;
end
$$;
comment on function tasker.create_task_from_graph(jsonb, jsonb, text, text, uuid, int, uuid, jsonb, text, boolean, timestamptz, text) is
  'Creates a task from an ad-hoc graph: a workflow definition that is not registered.';
