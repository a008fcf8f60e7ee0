-- Who wrote what, as PostgreSQL itself knows it; events that move no lifecycle; seals over all evidence.

-- Every log row names its transaction; what is known of the session stands once for each statement, in changes. Rows that
-- are older than these columns keep null: nothing is known of them, and nothing is made up.
alter table tasker.task_transitions add column recorded_xid xid8;
alter table tasker.task_transitions alter column recorded_xid set default pg_current_xact_id();
comment on column tasker.task_transitions.recorded_xid is 'The writing transaction; with it the row is found in changes, which knows the session. Null in rows older than this column.';
alter table tasker.workflow_step_transitions add column recorded_xid xid8;
alter table tasker.workflow_step_transitions alter column recorded_xid set default pg_current_xact_id();
comment on column tasker.workflow_step_transitions.recorded_xid is 'The writing transaction; with it the row is found in changes, which knows the session. Null in rows older than this column.';
alter table tasker.worker_transitions add column recorded_xid xid8;
alter table tasker.worker_transitions alter column recorded_xid set default pg_current_xact_id();
comment on column tasker.worker_transitions.recorded_xid is 'The writing transaction; with it the row is found in changes, which knows the session. Null in rows older than this column.';
alter table tasker.circuit_breaker_transitions add column recorded_xid xid8;
alter table tasker.circuit_breaker_transitions alter column recorded_xid set default pg_current_xact_id();
comment on column tasker.circuit_breaker_transitions.recorded_xid is 'The writing transaction; with it the row is found in changes, which knows the session. Null in rows older than this column.';
alter table tasker.attached_transitions add column recorded_xid xid8;
alter table tasker.attached_transitions alter column recorded_xid set default pg_current_xact_id();
comment on column tasker.attached_transitions.recorded_xid is 'The writing transaction; with it the row is found in changes, which knows the session. Null in rows older than this column.';

alter table tasker.changes drop constraint changes_log_check;
alter table tasker.changes add constraint changes_log_check
  check (log in ('task', 'step', 'worker', 'circuit_breaker', 'attached', 'rejection', 'event', 'binding'));
alter table tasker.changes
  add column recorded_at      timestamptz,
  add column login            text,
  add column acting_role      text,
  add column application_name text,
  add column client_address   inet,
  add column backend_pid      int;
alter table tasker.changes
  alter column recorded_at      set default clock_timestamp(),
  alter column login            set default session_user,
  alter column acting_role      set default nullif(current_setting('role', true), 'none'),
  alter column application_name set default current_setting('application_name', true),
  alter column client_address   set default inet_client_addr(),
  alter column backend_pid      set default pg_backend_pid();
comment on table tasker.changes is
  'One row for each statement that appended evidence: its transaction, its session, its rows. The order in which changes_after reads, and what seal_audit seals.';
comment on column tasker.changes.log is 'Which log: a transition log, rejection (rejected_transitions), event (audit_events) or binding (login_binding_changes).';
comment on column tasker.changes.recorded_at is 'When, by the real clock.';
comment on column tasker.changes.login is 'The login of the session, whatever role it acts as. Null, as all that follows, in rows older than these columns.';
comment on column tasker.changes.acting_role is 'The role that the session took on with SET ROLE; null for none.';
comment on column tasker.changes.application_name is 'The application name of the session, which every session may set for itself.';
comment on column tasker.changes.client_address is 'Where the session came from; null over a local socket.';
comment on column tasker.changes.backend_pid is 'The process of the server that served the session: with the time it finds the session in the server''s own log.';
create index changes_change_id_idx on tasker.changes using brin (change_id) with (pages_per_range = 32, autosummarize = on);
comment on index tasker.changes_change_id_idx is 'The changes of a seal, and those not sealed yet.';
create index changes_recorded_at_idx on tasker.changes using brin (recorded_at) with (pages_per_range = 32, autosummarize = on);
comment on index tasker.changes_recorded_at_idx is 'What was written in a period?';
create index changes_login_idx on tasker.changes using brin (login text_bloom_ops) with (pages_per_range = 32, autosummarize = on);
comment on index tasker.changes_login_idx is 'What did a login write?';

create table tasker.audit_events (
  audit_event_uuid uuid primary key default tasker.uuid_generate_v7(),
  event            text not null,
  subject          text not null,
  namespace        text,
  requested_by     text,
  reason           text,
  detail           jsonb not null default '{}' check (jsonb_typeof(detail) = 'object'),
  created_at       timestamptz not null default clock_timestamp(),
  recorded_xid     xid8 not null default pg_current_xact_id()
);
comment on table tasker.audit_events is
  'What was done to the system rather than to a task: rules, templates, breakers and namespaces set up, refused commands, legal holds, archiving and purging. Append-only.';
comment on column tasker.audit_events.audit_event_uuid is 'Key.';
comment on column tasker.audit_events.event is 'What was done, named after the function that did it.';
comment on column tasker.audit_events.subject is 'What it was done to.';
comment on column tasker.audit_events.namespace is 'The namespace, if it belongs to one.';
comment on column tasker.audit_events.requested_by is 'Who asked for it, as the caller claims; changes knows the login.';
comment on column tasker.audit_events.reason is 'Why, where a reason is asked for.';
comment on column tasker.audit_events.detail is 'What belongs to the event.';
comment on column tasker.audit_events.created_at is 'When, by the real clock.';
comment on column tasker.audit_events.recorded_xid is 'The writing transaction.';
create index audit_events_created_at_idx on tasker.audit_events (created_at);
comment on index tasker.audit_events_created_at_idx is 'Events in a period.';

create table tasker.audit_seals (
  seal_number     bigint primary key check (seal_number >= 1),
  format          text not null,
  change_ids      int8multirange not null,
  row_count       bigint not null,
  total_rows      bigint not null,
  leaves          bytea[] not null,
  previous_digest bytea not null,
  digest          bytea not null,
  next_change_id  bigint not null,
  settled_below   bigint not null,
  sealed_at       timestamptz not null default clock_timestamp(),
  login           text not null default session_user,
  recorded_xid    xid8 not null default pg_current_xact_id()
);
alter table tasker.audit_seals alter column leaves set storage external;  -- digests do not compress
comment on table tasker.audit_seals is
  'Seals: each is a sha256 digest over a set of changes, all their rows, and the digest before. A row that is changed, removed or slipped in afterwards does not fit any more.';
comment on column tasker.audit_seals.seal_number is 'From 1 without gaps.';
comment on column tasker.audit_seals.format is 'Of the content that is digested: v1.';
comment on column tasker.audit_seals.change_ids is 'The changes that it seals.';
comment on column tasker.audit_seals.row_count is 'How many rows of evidence they hold.';
comment on column tasker.audit_seals.total_rows is 'How many rows all seals up to this one hold.';
comment on column tasker.audit_seals.leaves is
  'sha256 of each change and, behind it, of its rows in their order (of a reported result: with that of its audit row behind it); they name the row that was tampered with, and stay when rows are purged.';
comment on column tasker.audit_seals.previous_digest is 'Digest of the seal before; 32 zero bytes in the first.';
comment on column tasker.audit_seals.digest is 'sha256 over the columns of this row and all leaves. Keep it outside of the database.';
comment on column tasker.audit_seals.next_change_id is 'The change that comes after the last one that was begun when it was made.';
comment on column tasker.audit_seals.settled_below is 'No change below this one is still to come: it is sealed here or before, or was never committed.';
comment on column tasker.audit_seals.sealed_at is 'When, by the real clock.';
comment on column tasker.audit_seals.login is 'The login that sealed.';
comment on column tasker.audit_seals.recorded_xid is 'The sealing transaction: when all older ones are over, every change begun by then is decided.';
