create or replace function tasker.metrics_step_durations(
  p_since                 timestamptz,
  out workflow_step_uuid     uuid,
  out task_uuid              uuid,
  out namespace              text,
  out name                   text,
  out handler                text,
  out attempt                int,
  out success                boolean,
  out execution_duration_ms  bigint,
  out validation_duration_ms bigint,
  out total_duration_ms      bigint,
  out output_size_bytes      bigint,
  out exit_code              int,
  out reported_at            timestamptz
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.workflow_step_uuid, a.task_uuid, a.namespace, s.name, s.handler, (t.metadata ->> 'attempt')::int, a.success,
         a.execution_time_ms,
         case when n.phase = 'validating' then tasker.metrics_milliseconds(validated.created_at - t.created_at) end,
         tasker.metrics_milliseconds(coalesce(case when n.phase = 'validating' then validated.created_at end, t.created_at) - p.created_at),
         -- as the worker reported it, else what the result takes as text
         coalesce(case when jsonb_typeof(r.reported -> 'output_size_bytes') = 'number' then (r.reported ->> 'output_size_bytes')::numeric::bigint end,
                  (t.metadata -> 'result_payload' ->> 'size')::bigint, octet_length(nullif(t.metadata -> 'result', 'null')::text)),
         case when jsonb_typeof(r.reported -> 'exit_code') = 'number' then (r.reported ->> 'exit_code')::numeric::int end,
         a.recorded_at
    from tasker.workflow_step_result_audit a
    join tasker.workflow_steps s on s.workflow_step_uuid = a.workflow_step_uuid
    join tasker.workflow_step_transitions t on t.workflow_step_transition_uuid = a.workflow_step_transition_uuid
    join tasker.lifecycle_states n on n.lifecycle = t.lifecycle and n.state = t.to_state
   cross join lateral (select coalesce(nullif(t.metadata -> 'result', 'null'), t.metadata -> 'error',
                                      (select p.payload from tasker.step_payloads p where p.payload_uuid = t.workflow_step_transition_uuid),
                                      '{}') as reported) r
    left join lateral (select p.created_at from tasker.workflow_step_transitions p
                        where p.workflow_step_uuid = t.workflow_step_uuid and p.sort_key = t.sort_key - 1 limit 1) p on true
    left join lateral (select v.created_at from tasker.workflow_step_transitions v
                        where v.workflow_step_uuid = t.workflow_step_uuid and v.sort_key = t.sort_key + 1 limit 1) validated on true
   where a.recorded_at >= p_since
     and ((select tasker.bound_namespaces()) is null or a.namespace = any ((select tasker.bound_namespaces())::text[]))
   order by a.recorded_at
$$;
comment on function tasker.metrics_step_durations(timestamptz) is
  'Every result reported since then with the metrics of seed 002. exit_code and output_size_bytes stand in the result or error as the worker reported them; without a size it is that of the result. Durations are the worker''s own (execution) and the log''s (validation, total).';

create or replace view tasker.metrics_step_durations as
select m.workflow_step_uuid, m.task_uuid, m.namespace, m.name, m.handler, m.attempt, m.success, m.execution_duration_ms,
       m.validation_duration_ms, m.total_duration_ms, m.output_size_bytes, m.exit_code, m.reported_at
  from tasker.metrics_step_durations('-infinity') m;
comment on view tasker.metrics_step_durations is 'Every reported result with the metrics of seed 002. It reads the whole audit: in daily use call metrics_step_durations(p_since).';
