create or replace function tasker.register_template(
  p_template jsonb,
  p_request_id text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'register_template', jsonb_build_array(p_template));
  v_namespace text := coalesce(p_template ->> 'namespace', 'default');
  v_version   text := coalesce(p_template ->> 'version', '1.0.0');
  v_hash      text;
  v_known     tasker.named_tasks;
  v_uuid      uuid;
begin
  if v_answer is not null then
    return v_answer::uuid;
  end if;
  perform tasker.refuse_template(p_template);
  v_hash := tasker.content_hash((p_template - 'namespace' - 'version')::text, jsonb_path_exists(p_template, '$.steps[*].sensitive'));
  perform tasker.ensure_namespace(v_namespace);
  perform tasker.refuse_large_arguments(p_template, v_namespace);

  insert into tasker.named_tasks (namespace, name, version, vocabulary, description, configuration, content_hash)
  values (v_namespace, p_template ->> 'name', v_version, coalesce(p_template ->> 'vocabulary', 'tasker'),
          p_template ->> 'description', tasker.redact_template(p_template), v_hash)
      on conflict (namespace, name, version) do nothing
  returning named_task_uuid into v_uuid;
  if v_uuid is null then
    select * into v_known from tasker.named_tasks k
     where k.namespace = v_namespace and k.name = p_template ->> 'name' and k.version = v_version;
    if v_known.content_hash <> v_hash then
      perform tasker.raise_error(
        'TK400', format('version %s of %s.%s is registered with other content', v_version, v_namespace, p_template ->> 'name'),
        jsonb_build_object('problems', jsonb_build_array(jsonb_build_object(
          'path', 'version', 'message', 'the version exists with other content', 'registered_at', v_known.created_at))),
        'A version never changes: register the new content under a new version.');
    end if;
    return tasker.end_request(p_request_id, v_known.named_task_uuid::text)::uuid;
  end if;

  insert into tasker.named_steps select * from tasker.template_steps(tasker.redact_template(p_template), v_uuid);
  perform tasker.keep_sensitive_arguments(p_template, null, v_namespace, array_agg(s.name), array_agg(s.named_step_uuid))
     from tasker.named_steps s where s.named_task_uuid = v_uuid;
  return tasker.end_request(p_request_id, v_uuid::text)::uuid;
end
$$;
comment on function tasker.register_template(jsonb, text) is
  'Stores a workflow under (namespace, name, version). The same content again is the same template; other content under the same version is refused.';
