create or replace view tasker.metrics_state_visits as
select 'task' as kind, p.lifecycle, p.namespace, p.to_state as state, t.event, t.to_state as next_state, p.created_at as entered_at,
       t.created_at as left_at, extract(epoch from t.created_at - p.created_at)::double precision as seconds
  from tasker.task_transitions t
  join tasker.task_transitions p on p.task_uuid = t.task_uuid and p.sort_key = t.sort_key - 1
union all
select 'step', p.lifecycle, p.namespace, p.to_state, t.event, t.to_state, p.created_at, t.created_at,
       extract(epoch from t.created_at - p.created_at)::double precision
  from tasker.workflow_step_transitions t
  join tasker.workflow_step_transitions p on p.workflow_step_uuid = t.workflow_step_uuid and p.sort_key = t.sort_key - 1
union all
select 'worker', p.lifecycle, null, p.to_state, t.event, t.to_state, p.created_at, t.created_at,
       extract(epoch from t.created_at - p.created_at)::double precision
  from tasker.worker_transitions t
  join tasker.worker_transitions p on p.worker_uuid = t.worker_uuid and p.sort_key = t.sort_key - 1
union all
select 'circuit_breaker', p.lifecycle, null, p.to_state, t.event, t.to_state, p.created_at, t.created_at,
       extract(epoch from t.created_at - p.created_at)::double precision
  from tasker.circuit_breaker_transitions t
  join tasker.circuit_breaker_transitions p on p.circuit_breaker_uuid = t.circuit_breaker_uuid and p.sort_key = t.sort_key - 1
union all
select 'custom', p.lifecycle, p.namespace, p.to_state, t.event, t.to_state, p.created_at, t.created_at,
       extract(epoch from t.created_at - p.created_at)::double precision
  from tasker.attached_transitions t
  join tasker.attached_transitions p
    on p.attachment_uuid = t.attachment_uuid and p.entity_key = t.entity_key and p.sort_key = t.sort_key - 1;
comment on view tasker.metrics_state_visits is 'Every stay of an entity in a state that it has left. Ask for a period by left_at: the whole log is long.';
comment on column tasker.metrics_state_visits.kind is 'task, step, worker, circuit_breaker or custom.';
comment on column tasker.metrics_state_visits.lifecycle is 'The lifecycle.';
comment on column tasker.metrics_state_visits.namespace is 'Its namespace; null for workers and circuit breakers.';
comment on column tasker.metrics_state_visits.state is 'The state.';
comment on column tasker.metrics_state_visits.event is 'What ended the stay.';
comment on column tasker.metrics_state_visits.next_state is 'Where it led.';
comment on column tasker.metrics_state_visits.entered_at is 'From when.';
comment on column tasker.metrics_state_visits.left_at is 'Until when.';
comment on column tasker.metrics_state_visits.seconds is 'How long.';
