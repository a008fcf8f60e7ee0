create or replace function tasker.keep_sensitive_arguments(
  p_template  jsonb,
  p_task_uuid uuid,
  p_namespace text,
  p_names     text[],
  p_uuids     uuid[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if jsonb_path_exists(p_template, '$.steps[*].sensitive') then
    perform tasker.keep_sensitive(k.step_uuid, 'arguments', p_task_uuid, p_namespace, s.step -> 'arguments', tasker.text_array(s.step -> 'sensitive'))
       from unnest(p_names, p_uuids) as k(name, step_uuid)
       join jsonb_array_elements(p_template -> 'steps') as s(step) on s.step ->> 'name' = k.name
      where jsonb_typeof(s.step -> 'sensitive') = 'array' and jsonb_typeof(s.step -> 'arguments') = 'object';
  end if;
end
$$;
comment on function tasker.keep_sensitive_arguments(jsonb, uuid, text, text[], uuid[]) is
  'Keeps the sensitive arguments of a workflow definition under the keys of its steps.';
