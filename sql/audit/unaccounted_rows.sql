create or replace function tasker.unaccounted_rows(
  out log      text,
  out row_uuid uuid,
  out created_at timestamptz
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
  select l.log, l.row_uuid, l.created_at
    from (
      select 'task' as log, t.task_transition_uuid as row_uuid, t.created_at from tasker.task_transitions t
      union all
      select 'step', t.workflow_step_transition_uuid, t.created_at from tasker.workflow_step_transitions t
      union all
      select 'worker', t.worker_transition_uuid, t.created_at from tasker.worker_transitions t
      union all
      select 'circuit_breaker', t.circuit_breaker_transition_uuid, t.created_at from tasker.circuit_breaker_transitions t
      union all
      select 'attached', t.attached_transition_uuid, t.created_at from tasker.attached_transitions t
      union all
      select 'rejection', t.rejected_transition_uuid, t.created_at from tasker.rejected_transitions t
      union all
      select 'event', t.audit_event_uuid, t.created_at from tasker.audit_events t
      union all
      select t.log, t.row_uuid, null from tasker.archived_rows t
      union all
      select 'binding', t.login_binding_change_uuid, t.created_at from tasker.login_binding_changes t
    ) l
    left join (select c.log, u.row_uuid from tasker.changes c cross join lateral unnest(c.transition_uuids) as u(row_uuid)) c
      on c.row_uuid = l.row_uuid and c.log = l.log
   where c.row_uuid is null
$$;
comment on function tasker.unaccounted_rows() is
  'Rows of evidence that no change names: written past the triggers that record who writes. It reads everything.';
