create or replace function tasker.export_transitions(
  p_after     timestamptz default null,
  p_until     timestamptz default null,
  p_namespace text default null
) returns setof jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  -- Each part walks its log entity by entity along an index, so nothing is sorted or kept: called in a select list,
  -- rows leave as they are made. An entity whose newest row is older than the period has nothing in it.
  select jsonb_build_object(
           'timestamp', to_char(x.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'event_type', x.event_type,
           'severity', coalesce(x.severity, 'info'),
           'entity_id', x.entity_id,
           'from_state', x.from_state,
           'to_state', x.to_state,
           'trigger', x.event,
           'metadata', jsonb_build_object('duration_seconds', coalesce(extract(epoch from x.created_at - x.entered_at), 0),
                                          'retry_count', x.retry_count)
                       -- who and why; what was computed stays in the database
                       || jsonb_strip_nulls(jsonb_build_object('worker_uuid', x.metadata -> 'worker_uuid', 'reason', x.metadata -> 'reason',
                                                               'requested_by', x.metadata -> 'requested_by')),
           'lifecycle', x.lifecycle,
           'sort_key', x.sort_key)
         || x.more
    from (
      select t.*
        from tasker.task_transitions e
       cross join lateral (
         select 'workstream_state_transition' as event_type, l.task_uuid::text as entity_id, l.lifecycle, l.from_state, l.event, l.to_state,
                l.sort_key, l.metadata, l.created_at, r.severity, lag(l.created_at) over log as entered_at,
                count(*) filter (where exists (select from tasker.lifecycle_transitions d
                                                where d.lifecycle = l.lifecycle and d.from_state = l.to_state
                                                  and d.operation = 'task_retry_due')) over log as retry_count,
                jsonb_build_object('namespace', l.namespace, 'task_id', l.task_uuid) as more
           from tasker.task_transitions l
           left join tasker.lifecycle_transitions r
             on r.lifecycle = l.lifecycle and r.from_state = l.from_state and r.event = l.event and r.to_state = l.to_state
          where l.task_uuid = e.task_uuid
         window log as (order by l.sort_key)) t
       where e.most_recent and e.created_at > coalesce(p_after, '-infinity') and (p_namespace is null or e.namespace = p_namespace)
         and ((select tasker.bound_namespaces()) is null or e.namespace = any ((select tasker.bound_namespaces())::text[]))
      union all
      select t.*
        from tasker.workflow_step_transitions e
       cross join lateral (select s.name, s.on_failure, s.left_out from tasker.workflow_steps s
                            where s.workflow_step_uuid = e.workflow_step_uuid limit 1) s
       cross join lateral (
         select 'task_state_transition', l.workflow_step_uuid::text, l.lifecycle, l.from_state, l.event, l.to_state,
                l.sort_key, l.metadata, l.created_at, r.severity, lag(l.created_at) over log,
                count(*) filter (where n.phase in ('waiting_retry', 'trial')) over log,
                jsonb_build_object('namespace', l.namespace, 'task_id', l.task_uuid, 'name', s.name)
                || case when s.on_failure = 'continue' or s.left_out then '{"optional": true}' else '{}' end::jsonb
           from tasker.workflow_step_transitions l
           join tasker.lifecycle_states n on n.lifecycle = l.lifecycle and n.state = l.to_state
           left join tasker.lifecycle_transitions r
             on r.lifecycle = l.lifecycle and r.from_state = l.from_state and r.event = l.event and r.to_state = l.to_state
          where l.workflow_step_uuid = e.workflow_step_uuid
         window log as (order by l.sort_key)) t
       where e.most_recent and e.created_at > coalesce(p_after, '-infinity') and (p_namespace is null or e.namespace = p_namespace)
         and ((select tasker.bound_namespaces()) is null or e.namespace = any ((select tasker.bound_namespaces())::text[]))
      union all
      select t.*
        from tasker.worker_transitions e
       cross join lateral (
         select 'worker_state_transition', l.worker_uuid::text, l.lifecycle, l.from_state, l.event, l.to_state,
                l.sort_key, l.metadata, l.created_at, r.severity, lag(l.created_at) over log, 0, '{}'::jsonb
           from tasker.worker_transitions l
           left join tasker.lifecycle_transitions r
             on r.lifecycle = l.lifecycle and r.from_state = l.from_state and r.event = l.event and r.to_state = l.to_state
          where l.worker_uuid = e.worker_uuid
         window log as (order by l.sort_key)) t
       where e.most_recent and e.created_at > coalesce(p_after, '-infinity') and p_namespace is null
         and ((select tasker.bound_namespaces()) is null or tasker.may_see_worker(e.worker_uuid))
      union all
      select t.*
        from tasker.circuit_breaker_transitions e
       cross join lateral (select b.tool from tasker.circuit_breakers b
                            where b.circuit_breaker_uuid = e.circuit_breaker_uuid limit 1) b
       cross join lateral (
         select 'circuit_breaker_state_transition', l.circuit_breaker_uuid::text, l.lifecycle, l.from_state, l.event, l.to_state,
                l.sort_key, l.metadata, l.created_at, r.severity, lag(l.created_at) over log, 0, jsonb_build_object('name', b.tool)
           from tasker.circuit_breaker_transitions l
           left join tasker.lifecycle_transitions r
             on r.lifecycle = l.lifecycle and r.from_state = l.from_state and r.event = l.event and r.to_state = l.to_state
          where l.circuit_breaker_uuid = e.circuit_breaker_uuid
         window log as (order by l.sort_key)) t
       where e.most_recent and e.created_at > coalesce(p_after, '-infinity') and p_namespace is null
         and (select tasker.bound_namespaces()) is null
      union all
      select t.*
        from tasker.attached_transitions e
       cross join lateral (
         select 'custom_state_transition', l.attachment_uuid || ':' || l.entity_key, l.lifecycle, l.from_state, l.event, l.to_state,
                l.sort_key, l.metadata, l.created_at, r.severity, lag(l.created_at) over log, 0,
                jsonb_build_object('namespace', l.namespace, 'table', l.attached_table, 'key', l.entity_key)
           from tasker.attached_transitions l
           left join tasker.lifecycle_transitions r
             on r.lifecycle = l.lifecycle and r.from_state = l.from_state and r.event = l.event and r.to_state = l.to_state
          where l.attachment_uuid = e.attachment_uuid and l.entity_key = e.entity_key
         window log as (order by l.sort_key)) t
       where e.most_recent and e.created_at > coalesce(p_after, '-infinity') and (p_namespace is null or e.namespace = p_namespace)
         and ((select tasker.bound_namespaces()) is null or e.namespace = any ((select tasker.bound_namespaces())::text[]))
    ) x
   where x.created_at > coalesce(p_after, '-infinity')
     and x.created_at <= coalesce(p_until, 'infinity')
$$;
comment on function tasker.export_transitions(timestamptz, timestamptz, text) is
  'Every transition after p_after up to p_until as one JSON object in the event schema of seed 000, entity by entity, each in its order: workstream is our task, task our step. Workers and circuit breakers serve all namespaces and come only without one. A bound login gets what it sees. In a select list rows are streamed.';
