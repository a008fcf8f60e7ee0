-- What auditors ask for, in time: by person, by worker, in a period, also of what was archived.

-- Commands of people are few; rows without one cost the test of a key.
create index task_transitions_manual_idx on tasker.task_transitions ((metadata ->> 'requested_by'), created_at) where metadata ? 'manual';
comment on index tasker.task_transitions_manual_idx is 'What did a person do, what was done by hand in a period?';
create index workflow_step_transitions_manual_idx on tasker.workflow_step_transitions ((metadata ->> 'requested_by'), created_at) where metadata ? 'manual';
comment on index tasker.workflow_step_transitions_manual_idx is 'What did a person do, what was done by hand in a period?';
create index worker_transitions_manual_idx on tasker.worker_transitions ((metadata ->> 'requested_by'), created_at) where metadata ? 'manual';
comment on index tasker.worker_transitions_manual_idx is 'What did a person do, what was done by hand in a period?';
create index circuit_breaker_transitions_manual_idx on tasker.circuit_breaker_transitions ((metadata ->> 'requested_by'), created_at) where metadata ? 'manual';
comment on index tasker.circuit_breaker_transitions_manual_idx is 'What did a person do, what was done by hand in a period?';
create index attached_transitions_manual_idx on tasker.attached_transitions ((metadata ->> 'requested_by'), created_at) where metadata ? 'requested_by';
comment on index tasker.attached_transitions_manual_idx is 'What did a person do, what was done by hand in a period?';

drop index tasker.idx_audit_worker_uuid;
create index idx_audit_worker_uuid on tasker.workflow_step_result_audit (worker_uuid, recorded_at) where worker_uuid is not null;
comment on index tasker.idx_audit_worker_uuid is 'Attribution investigation (seed 004): the newest of a worker without its others.';
drop index tasker.idx_audit_success;
create index idx_audit_success on tasker.workflow_step_result_audit (success, recorded_at);
comment on index tasker.idx_audit_success is 'Success and failure filtering (seed 004), in a period.';

-- Computed from the sealed text, so that no report on the archive can say anything else.
alter table tasker.archived_rows
  add column at           timestamptz generated always as (to_timestamp((content::jsonb ->> 12)::double precision / 1000000)) stored,
  add column requested_by text generated always as (case when content::jsonb -> 10 ? 'manual' then content::jsonb -> 10 ->> 'requested_by' end) stored,
  add column worker_uuid  uuid generated always as ((audit_content::jsonb ->> 8)::uuid) stored,
  add column success      boolean generated always as ((audit_content::jsonb ->> 10)::boolean) stored;
comment on column tasker.archived_rows.at is 'When it was written.';
comment on column tasker.archived_rows.requested_by is 'Who asked for it, if it was done by hand.';
comment on column tasker.archived_rows.worker_uuid is 'The worker, if it reported a result.';
comment on column tasker.archived_rows.success is 'Whether the work succeeded, if it reported a result.';
comment on column tasker.archived_rows_other.at is 'As in archived_rows.';
comment on column tasker.archived_rows_other.requested_by is 'As in archived_rows.';
comment on column tasker.archived_rows_other.worker_uuid is 'As in archived_rows.';
comment on column tasker.archived_rows_other.success is 'As in archived_rows.';
create index archived_rows_requested_by_idx on tasker.archived_rows (requested_by, at) where requested_by is not null;
comment on index tasker.archived_rows_requested_by_idx is 'What did a person do, what was done by hand in a period?';
create index archived_rows_worker_uuid_idx on tasker.archived_rows (worker_uuid, at) where worker_uuid is not null;
comment on index tasker.archived_rows_worker_uuid_idx is 'What did a worker report?';
create index archived_rows_failures_idx on tasker.archived_rows (at) where success = false;
comment on index tasker.archived_rows_failures_idx is 'Failures in a period.';

-- Keys are made in the order of time, so what a task may be asked for lies between its first and its last row.
drop index tasker.purged_tasks_row_uuids_idx;
create index purged_tasks_row_uuids_idx on tasker.purged_tasks ((row_uuids[1]), (row_uuids[cardinality(row_uuids)]));
comment on index tasker.purged_tasks_row_uuids_idx is 'Which purged tasks may have held a row?';

create type tasker.audit_action as (
  at               timestamptz,
  log              text,
  row_uuid         uuid,
  subject          text,
  task_uuid        uuid,
  namespace        text,
  event            text,
  from_state       text,
  to_state         text,
  requested_by     text,
  reason           text,
  worker_uuid      uuid,
  login            text,
  acting_role      text,
  application_name text,
  client_address   inet,
  is_archived      boolean,
  detail           jsonb
);
comment on type tasker.audit_action is 'One row of evidence in a report: what happened to what, who is said to have asked for it, and which session wrote it.';
