-- The step result audit of seed 004, with its six indexes, and audit rows for results that were reported before it existed.

create table tasker.workflow_step_result_audit (
  workflow_step_result_audit_uuid uuid primary key default tasker.uuid_generate_v7(),
  workflow_step_uuid              uuid not null references tasker.workflow_steps,
  workflow_step_transition_uuid   uuid not null references tasker.workflow_step_transitions,
  task_uuid                       uuid not null references tasker.tasks,
  namespace                       text not null,
  recorded_at                     timestamptz not null default clock_timestamp(),
  worker_uuid                     uuid,
  correlation_id                  uuid,
  success                         boolean not null,
  execution_time_ms               bigint,
  is_backfilled                   boolean not null default false,
  created_at                      timestamptz not null default clock_timestamp(),
  updated_at                      timestamptz not null default clock_timestamp(),
  unique (workflow_step_uuid, workflow_step_transition_uuid)
);
comment on table tasker.workflow_step_result_audit is
  'One row for each result that a worker reported (SOC2, seed 004): who and how, with a reference to the log row that holds the result itself.';
comment on column tasker.workflow_step_result_audit.workflow_step_result_audit_uuid is 'Key.';
comment on column tasker.workflow_step_result_audit.workflow_step_uuid is 'The step.';
comment on column tasker.workflow_step_result_audit.workflow_step_transition_uuid is 'The log row that holds the result.';
comment on column tasker.workflow_step_result_audit.task_uuid is 'The task.';
comment on column tasker.workflow_step_result_audit.namespace is 'Its namespace.';
comment on column tasker.workflow_step_result_audit.recorded_at is 'When the result was persisted, by the real clock.';
comment on column tasker.workflow_step_result_audit.worker_uuid is 'The worker that held the claim; null in backfilled rows.';
comment on column tasker.workflow_step_result_audit.correlation_id is 'Correlation id of the task; null in backfilled rows.';
comment on column tasker.workflow_step_result_audit.success is 'Whether the work succeeded.';
comment on column tasker.workflow_step_result_audit.execution_time_ms is 'How long the handler ran, in milliseconds, as the worker measured it.';
comment on column tasker.workflow_step_result_audit.is_backfilled is 'True for results reported before the audit existed: never mixed silently with recorded ones.';
comment on column tasker.workflow_step_result_audit.created_at is 'When the row was made.';
comment on column tasker.workflow_step_result_audit.updated_at is 'Same as created_at: audit rows do not change.';

create index idx_audit_step_uuid on tasker.workflow_step_result_audit (workflow_step_uuid);
comment on index tasker.idx_audit_step_uuid is 'Audit history of a step (seed 004).';
create index idx_audit_task_uuid on tasker.workflow_step_result_audit (task_uuid);
comment on index tasker.idx_audit_task_uuid is 'All audit records of a task (seed 004).';
create index idx_audit_recorded_at on tasker.workflow_step_result_audit (recorded_at);
comment on index tasker.idx_audit_recorded_at is 'Time-range queries of audit reports (seed 004).';
create index idx_audit_worker_uuid on tasker.workflow_step_result_audit (worker_uuid) where worker_uuid is not null;
comment on index tasker.idx_audit_worker_uuid is 'Attribution investigation (seed 004).';
create index idx_audit_correlation_id on tasker.workflow_step_result_audit (correlation_id) where correlation_id is not null;
comment on index tasker.idx_audit_correlation_id is 'Distributed tracing (seed 004).';
create index idx_audit_success on tasker.workflow_step_result_audit (success);
comment on index tasker.idx_audit_success is 'Success and failure filtering (seed 004).';

create type tasker.audit_record as (
  workflow_step_result_audit_uuid uuid,
  workflow_step_uuid              uuid,
  workflow_step_transition_uuid   uuid,
  task_uuid                       uuid,
  recorded_at                     timestamptz,
  worker_uuid                     uuid,
  correlation_id                  uuid,
  success                         boolean,
  execution_time_ms               bigint,
  is_backfilled                   boolean,
  step_name                       text,
  from_state                      text,
  to_state                        text,
  event                           text,
  metadata                        jsonb,
  transition_created_at           timestamptz
);
comment on type tasker.audit_record is 'An audit row joined with the transition it refers to.';

-- Backfill (seed 004, Historical Data): attribution was not captured then, so it stays null. The two state names are those
-- under which results were persisted when this revision was written; a frozen fact, not a rule.
insert into tasker.workflow_step_result_audit
  (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, recorded_at, success, is_backfilled)
select t.workflow_step_uuid, t.workflow_step_transition_uuid, t.task_uuid, t.namespace, t.created_at,
       t.to_state = 'enqueued_for_orchestration', true
  from tasker.workflow_step_transitions t
 where t.to_state in ('enqueued_for_orchestration', 'enqueued_as_error_for_orchestration')
    on conflict do nothing;
