create or replace function tasker.start_children(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  c_deepest  constant int := 20;
  v_steps    uuid[];
  v_requests jsonb[];
  v_tasks    uuid[];
  v_failed   uuid[];
  v_reports  jsonb[];
  v_problem  jsonb;
begin
  with asked as materialized (
    select s.workflow_step_uuid, s.task_uuid, s.namespace, s.options -> 'workflow' as workflow, t.depth, t.priority, t.correlation_id, t.requested_by,
           t.tags -> 'traceparent' as traceparent,
           case jsonb_typeof(s.options #> '{workflow,context}')
             when 'object' then s.options #> '{workflow,context}'
             when 'string' then jsonb_path_query_first(
               case when s.options ? 'wait_for'
                    then jsonb_set(over_what.scope, '{inputs}', over_what.scope -> 'inputs' || coalesce(tasker.event_input(s.workflow_step_uuid), '{}'))
                    else over_what.scope end,
               (s.options #>> '{workflow,context}')::jsonpath, '{}', true)
             else '{}' end as context
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid and s.claim_uuid is not null and s.worker_uuid is null limit 1) s
     cross join lateral (select t.depth, t.priority, t.correlation_id, t.requested_by, t.tags
                           from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
     cross join lateral tasker.step_scope(s.workflow_step_uuid) over_what
     where not exists (select from tasker.child_tasks c where c.workflow_step_uuid = s.workflow_step_uuid and c.claim_uuid = s.claim_uuid)
  ), judged as materialized (
    select a.*, case when a.depth >= c_deepest
                       then jsonb_build_object('type', 'too_deep', 'message', format('workflows that run workflows are at most %s deep, and this one would be the next', c_deepest))
                     when jsonb_typeof(a.context) is distinct from 'object'
                       then jsonb_build_object('type', 'no_context', 'message', format('its context is to be %s, which gives no JSON object', a.workflow ->> 'context')) end as problem
      from asked a
  )
  select array_agg(j.workflow_step_uuid order by j.workflow_step_uuid) filter (where j.problem is null),
         array_agg(jsonb_strip_nulls(jsonb_build_object(
                     'name', j.workflow -> 'name', 'version', j.workflow -> 'version', 'namespace', coalesce(j.workflow ->> 'namespace', j.namespace),
                     'parent_task_uuid', j.task_uuid, 'priority', j.priority, 'correlation_id', j.correlation_id, 'requested_by', j.requested_by,
                     'tags', jsonb_build_object('traceparent', j.traceparent))) || jsonb_build_object('context', j.context)
                   order by j.workflow_step_uuid) filter (where j.problem is null),
         array_agg(j.workflow_step_uuid) filter (where j.problem is not null), array_agg(j.problem) filter (where j.problem is not null)
    into v_steps, v_requests, v_failed, v_reports
    from judged j;

  if v_steps is not null then
    -- those of an attempt that nobody reported
    perform tasker.abandon_children(v_steps);
    begin
      v_tasks := array(select c from tasker.create_tasks(to_jsonb(v_requests)) with ordinality as c(c, position) order by c.position);
    exception
    when sqlstate 'TK400' or sqlstate 'TK403' or sqlstate 'TK404' or sqlstate 'TK409' or sqlstate 'TK413' or sqlstate 'TK422' or sqlstate 'TK429' then
      -- one that can't be created must not stop the others
      for v_place in 1 .. cardinality(v_steps) loop
        begin
          v_tasks[v_place] := (select c from tasker.create_tasks(jsonb_build_array(v_requests[v_place])) c);
        exception
        when sqlstate 'TK400' or sqlstate 'TK403' or sqlstate 'TK404' or sqlstate 'TK409' or sqlstate 'TK413' or sqlstate 'TK422' or sqlstate 'TK429' then
          v_tasks[v_place] := null;
          v_problem := jsonb_build_object('type', 'child_not_created', 'message', sqlerrm, 'code', sqlstate);
          v_failed := v_failed || v_steps[v_place];
          v_reports := v_reports || v_problem;
        end;
      end loop;
    end;
    insert into tasker.child_tasks (task_uuid, workflow_step_uuid, claim_uuid, on_parent_cancel)
    select c.task_uuid, s.workflow_step_uuid, s.claim_uuid, coalesce(s.options #>> '{workflow,on_parent_cancel}', 'cancel')
      from unnest(v_steps, v_tasks) as c(workflow_step_uuid, task_uuid)
     cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = c.workflow_step_uuid limit 1) s
     where c.task_uuid is not null;
  end if;
  if cardinality(v_failed) > 0 then
    perform tasker.report_by_engine(v_failed, array(select jsonb_build_object('success', false, 'category', 'permanent', 'error', r.error)
                                                      from unnest(v_reports) with ordinality as r(error, position) order by r.position));
  end if;
end
$$;
comment on function tasker.start_children(uuid[]) is
  'Creates the tasks that these held steps are to run, one for each attempt, with the correlation id, priority and trace of the parent. A step whose task can''t be created fails for good: its workflow is unknown, its context no object, or it is too deep.';
