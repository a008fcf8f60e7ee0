-- Retention: policies, legal holds, an archive by month, and what stays of what was purged.

create table tasker.retention_policies (
  policy        text primary key check (policy ~ '^[a-z][a-z0-9_-]{0,62}$'),
  namespace     text,
  archive_after interval not null check (archive_after >= interval '1 hour'),
  purge_after   interval not null,
  description   text not null,
  created_at    timestamptz not null default clock_timestamp(),
  constraint nothing_is_purged_before_it_is_archived check (purge_after >= archive_after)
);
comment on table tasker.retention_policies is 'How long tasks are kept: when they go to the archive, and when they leave it. Nothing happens by itself.';
comment on column tasker.retention_policies.policy is 'Name.';
comment on column tasker.retention_policies.namespace is 'The namespace it holds for; null: all.';
comment on column tasker.retention_policies.archive_after is 'How long after its end a task may be archived; by then its request ids and timers are over.';
comment on column tasker.retention_policies.purge_after is 'How long after its end a task may be purged.';
comment on column tasker.retention_policies.description is 'Which rule of the organisation it follows.';
comment on column tasker.retention_policies.created_at is 'Since when.';

create table tasker.legal_holds (
  task_uuid    uuid primary key,
  reason       text not null,
  requested_by text not null,
  held_at      timestamptz not null default clock_timestamp()
);
comment on table tasker.legal_holds is 'Tasks that are neither archived nor purged, with all that belong to their family. audit_events tells who held and released what.';
comment on column tasker.legal_holds.task_uuid is 'The task, here or in the archive.';
comment on column tasker.legal_holds.reason is 'Why.';
comment on column tasker.legal_holds.requested_by is 'Who asked for it.';
comment on column tasker.legal_holds.held_at is 'Since when.';

create table tasker.archived_tasks (
  task_uuid      uuid primary key,
  root_task_uuid uuid not null,
  namespace      text not null,
  name           text not null,
  correlation_id uuid not null,
  created_at     timestamptz not null,
  completed_at   timestamptz not null,
  content        jsonb not null,
  archived_at    timestamptz not null default clock_timestamp(),
  archived_xid   xid8 not null default pg_current_xact_id()
);
comment on table tasker.archived_tasks is 'Tasks that were moved out of the way of running work; their log rows and audit rows stand in archived_rows.';
comment on column tasker.archived_tasks.task_uuid is 'Key, as before.';
comment on column tasker.archived_tasks.root_task_uuid is 'The task from which its family comes: parents, children, and tasks that resume others go together.';
comment on column tasker.archived_tasks.namespace is 'Its namespace.';
comment on column tasker.archived_tasks.name is 'Name of the workflow.';
comment on column tasker.archived_tasks.correlation_id is 'Its correlation id.';
comment on column tasker.archived_tasks.created_at is 'When it was created.';
comment on column tasker.archived_tasks.completed_at is 'When it ended.';
comment on column tasker.archived_tasks.content is 'Its rows of tasks, workflow_steps, workflow_step_edges, step_checkpoints and job_workers.';
comment on column tasker.archived_tasks.archived_at is 'When it was archived.';
comment on column tasker.archived_tasks.archived_xid is 'The archiving transaction: in it, and in it alone, what was archived may leave the logs.';
create index archived_tasks_root_task_uuid_idx on tasker.archived_tasks (root_task_uuid);
comment on index tasker.archived_tasks_root_task_uuid_idx is 'A family.';
create index archived_tasks_correlation_id_idx on tasker.archived_tasks (correlation_id);
comment on index tasker.archived_tasks_correlation_id_idx is 'Everything with one correlation id.';
create index archived_tasks_completed_at_idx on tasker.archived_tasks (completed_at);
comment on index tasker.archived_tasks_completed_at_idx is 'What may be purged?';
create index archived_tasks_archived_xid_idx on tasker.archived_tasks (archived_xid);
comment on index tasker.archived_tasks_archived_xid_idx is 'Does this transaction archive?';

create table tasker.archived_rows (
  month         date not null,
  row_uuid      uuid not null,
  task_uuid     uuid not null,
  log           text not null check (log in ('task', 'step')),
  content       text not null,
  audit_content text,
  primary key (row_uuid, month)
) partition by range (month);
comment on table tasker.archived_rows is 'Archived log rows, in partitions by month, as the seals know them: sha256 of the content is what was sealed.';
comment on column tasker.archived_rows.month is 'First day of the month that stands in the key (uuid_month).';
comment on column tasker.archived_rows.row_uuid is 'Key of the log row.';
comment on column tasker.archived_rows.task_uuid is 'The task.';
comment on column tasker.archived_rows.log is 'task: from task_transitions; step: from workflow_step_transitions.';
comment on column tasker.archived_rows.content is 'audit_content of the log row: all of it, as a JSON array.';
comment on column tasker.archived_rows.audit_content is 'audit_content of the audit row of a reported result.';
create index archived_rows_task_uuid_idx on tasker.archived_rows (task_uuid);
comment on index tasker.archived_rows_task_uuid_idx is 'The log of an archived task.';
create table tasker.archived_rows_other partition of tasker.archived_rows default;
comment on table tasker.archived_rows_other is 'Rows whose key names no month of this century.';
comment on column tasker.archived_rows_other.month is 'As in archived_rows.';
comment on column tasker.archived_rows_other.row_uuid is 'As in archived_rows.';
comment on column tasker.archived_rows_other.task_uuid is 'As in archived_rows.';
comment on column tasker.archived_rows_other.log is 'As in archived_rows.';
comment on column tasker.archived_rows_other.content is 'As in archived_rows.';
comment on column tasker.archived_rows_other.audit_content is 'As in archived_rows.';

create table tasker.purged_tasks (
  task_uuid    uuid primary key,
  namespace    text not null,
  name         text not null,
  completed_at timestamptz not null,
  policy       text not null,
  row_uuids    uuid[] not null,
  purge_uuid   uuid not null,
  purged_at    timestamptz not null default clock_timestamp(),
  purged_xid   xid8 not null default pg_current_xact_id()
);
comment on table tasker.purged_tasks is 'What stays of a purged task: that there was one, under which policy it was removed, and which sealed rows are gone. The event of the purge names who and holds a digest of these rows.';
comment on column tasker.purged_tasks.task_uuid is 'Key, as before.';
comment on column tasker.purged_tasks.namespace is 'Its namespace.';
comment on column tasker.purged_tasks.name is 'Name of the workflow.';
comment on column tasker.purged_tasks.completed_at is 'When it ended.';
comment on column tasker.purged_tasks.policy is 'The policy under which it was removed.';
comment on column tasker.purged_tasks.row_uuids is 'The log rows that were removed; seals keep their digests.';
comment on column tasker.purged_tasks.purge_uuid is 'The purge: subject of its event in audit_events.';
comment on column tasker.purged_tasks.purged_at is 'When.';
comment on column tasker.purged_tasks.purged_xid is 'The purging transaction: in it, and in it alone, what is listed here may leave the archive.';
create index purged_tasks_row_uuids_idx on tasker.purged_tasks using gin (row_uuids);
comment on index tasker.purged_tasks_row_uuids_idx is 'Was this row purged?';
create index purged_tasks_purge_uuid_idx on tasker.purged_tasks (purge_uuid);
comment on index tasker.purged_tasks_purge_uuid_idx is 'What one purge removed.';
create index purged_tasks_purged_xid_idx on tasker.purged_tasks (purged_xid);
comment on index tasker.purged_tasks_purged_xid_idx is 'Does this transaction purge?';

-- Removing a log row looks for audit rows that refer to it.
create index workflow_step_result_audit_transition_uuid_idx on tasker.workflow_step_result_audit (workflow_step_transition_uuid);
comment on index tasker.workflow_step_result_audit_transition_uuid_idx is 'The audit row of a log row: asked for each that is archived.';
create index tasks_created_at_idx on tasker.tasks using brin (created_at) with (pages_per_range = 32, autosummarize = on);
comment on index tasker.tasks_created_at_idx is 'Which tasks are old?';
