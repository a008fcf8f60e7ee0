create or replace function tasker.misplaced_current_rows(
  out log      text,
  out row_uuid uuid
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
  select 'task', t.task_transition_uuid
    from tasker.task_transitions t
    left join tasker.task_transitions n on n.task_uuid = t.task_uuid and n.sort_key = t.sort_key + 1
   where t.most_recent <> (n.sort_key is null)
  union all
  select 'step', t.workflow_step_transition_uuid
    from tasker.workflow_step_transitions t
    left join tasker.workflow_step_transitions n on n.workflow_step_uuid = t.workflow_step_uuid and n.sort_key = t.sort_key + 1
   where t.most_recent <> (n.sort_key is null)
  union all
  select 'worker', t.worker_transition_uuid
    from tasker.worker_transitions t
    left join tasker.worker_transitions n on n.worker_uuid = t.worker_uuid and n.sort_key = t.sort_key + 1
   where t.most_recent <> (n.sort_key is null)
  union all
  select 'circuit_breaker', t.circuit_breaker_transition_uuid
    from tasker.circuit_breaker_transitions t
    left join tasker.circuit_breaker_transitions n on n.circuit_breaker_uuid = t.circuit_breaker_uuid and n.sort_key = t.sort_key + 1
   where t.most_recent <> (n.sort_key is null)
  union all
  select 'attached', t.attached_transition_uuid
    from tasker.attached_transitions t
    left join tasker.attached_transitions n
      on n.attachment_uuid = t.attachment_uuid and n.entity_key = t.entity_key and n.sort_key = t.sort_key + 1
   where t.most_recent <> (n.sort_key is null)
$$;
comment on function tasker.misplaced_current_rows() is
  'Log rows that claim to be the current state and have a successor, or the other way round. most_recent is not digested, since it changes; here it is compared with the order of the log.';
