create or replace function tasker.workflow_problems(p_template jsonb, out path text, out message text) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off  -- the planner can't know how long a JSON array is
set jit = off
as $$
  with steps as (
    select s.step, format('steps[%s]', s.position - 1) as step_path, s.step -> 'workflow' as workflow
      from jsonb_array_elements(case when jsonb_typeof(p_template -> 'steps') = 'array' then p_template -> 'steps' else '[]' end)
           with ordinality as s(step, position)
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'workflow'), 'null') <> 'null'
  ), workflows as (
    select s.step_path, s.step_path || '.workflow' as path, s.workflow, s.step from steps s where jsonb_typeof(s.workflow) = 'object'
  )
  select s.step_path || '.workflow', 'workflow must be an object, for example {"name": "shipment", "context": "$.inputs.order"}' from steps s
   where jsonb_typeof(s.workflow) <> 'object'
   union all
  select w.path || '.' || k.key, 'unknown field; known are name, version, namespace, context, on_parent_cancel'
    from workflows w cross join lateral jsonb_object_keys(w.workflow) as k(key)
   where k.key not in ('name', 'version', 'namespace', 'context', 'on_parent_cancel')
   union all
  select w.path || '.name', 'a workflow needs the name of a template, 1 to 255 characters' from workflows w
   where coalesce(jsonb_typeof(w.workflow -> 'name'), '') <> 'string' or length(w.workflow ->> 'name') not between 1 and 255
   union all
  select w.path || '.version', 'a version is a string of 1 to 128 characters' from workflows w
   where w.workflow ->> 'version' is not null and (jsonb_typeof(w.workflow -> 'version') <> 'string' or length(w.workflow ->> 'version') not between 1 and 128)
   union all
  select w.path || '.namespace', 'a namespace has 1 to 63 letters, digits, underscores, dots and hyphens, beginning with a letter or digit' from workflows w
   where w.workflow ->> 'namespace' is not null
     and (jsonb_typeof(w.workflow -> 'namespace') <> 'string' or w.workflow ->> 'namespace' !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$')
   union all
  select w.path || '.context', 'a context is a JSON object, or an SQL/JSON path that goes through one list at most, for example $.inputs.order' from workflows w
   where w.workflow ->> 'context' is not null
     and case jsonb_typeof(w.workflow -> 'context') when 'object' then false when 'string' then tasker.condition_path(w.workflow ->> 'context') is null else true end
   union all
  select w.path || '.on_parent_cancel', 'on_parent_cancel must be cancel or leave' from workflows w
   where w.workflow ->> 'on_parent_cancel' is not null and w.workflow ->> 'on_parent_cancel' not in ('cancel', 'leave')
   union all
  select w.step_path || '.handler', 'a step runs a workflow or a handler' from workflows w where w.step ->> 'handler' is not null
   union all
  select w.step_path || '.acceptance', 'a workflow checks its results itself: no worker is there to do it' from workflows w
   where coalesce(w.step -> 'acceptance', 'null') not in ('null', '[]')
$$;
comment on function tasker.workflow_problems(jsonb) is 'What is wrong with the workflows that steps of a workflow definition run.';
