-- Lifecycles of rows in users' own tables, guards of one's own for them, and counters from which metrics are made.

alter table tasker.guards drop constraint guards_applies_to_check;
alter table tasker.guards add constraint guards_applies_to_check
  check (applies_to in ('task', 'step', 'worker', 'circuit_breaker', 'custom', 'any'));
alter table tasker.guards
  add column guard_function text,
  add constraint only_custom_guards_have_a_function check ((guard_function is not null) = (applies_to = 'custom'));
comment on column tasker.guards.guard_function is 'The function that decides, for guards of one''s own: schema.name(text), which takes the key of the row. Text, since pg_upgrade takes no regprocedure.';
alter table tasker.changes drop constraint changes_log_check;
alter table tasker.changes add constraint changes_log_check check (log in ('task', 'step', 'worker', 'circuit_breaker', 'attached'));

create table tasker.attached_lifecycles (
  attachment_uuid uuid primary key default tasker.uuid_generate_v7(),
  attached_table  regclass not null,
  table_name      text not null,
  key_column      name not null,
  key_type        regtype not null,
  lifecycle       text not null references tasker.lifecycles,
  namespace       text not null references tasker.task_namespaces,
  attached_by     text not null default session_user,
  attached_at     timestamptz not null default clock_timestamp(),
  detached_by     text,
  detached_at     timestamptz
);
comment on table tasker.attached_lifecycles is 'Which tables of users have a lifecycle, or had one. Their logs stay after they are detached.';
comment on column tasker.attached_lifecycles.attachment_uuid is 'Key. A table that is attached again gets a new one, and with it new logs.';
comment on column tasker.attached_lifecycles.attached_table is 'The table.';
comment on column tasker.attached_lifecycles.table_name is 'schema.name of the table when it was attached.';
comment on column tasker.attached_lifecycles.key_column is 'The column that tells its rows apart.';
comment on column tasker.attached_lifecycles.key_type is 'Type of that column.';
comment on column tasker.attached_lifecycles.lifecycle is 'The lifecycle that its rows follow; of kind custom.';
comment on column tasker.attached_lifecycles.namespace is 'The namespace under which it is published and exported.';
comment on column tasker.attached_lifecycles.attached_by is 'The login that attached it.';
comment on column tasker.attached_lifecycles.attached_at is 'When.';
comment on column tasker.attached_lifecycles.detached_by is 'The login that detached it.';
comment on column tasker.attached_lifecycles.detached_at is 'When; null while it is attached.';
create unique index attached_lifecycles_attached_table_idx on tasker.attached_lifecycles (attached_table) where detached_at is null;
comment on index tasker.attached_lifecycles_attached_table_idx is 'A table has one lifecycle at a time.';

create table tasker.attached_transitions (
  attached_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  attachment_uuid          uuid not null references tasker.attached_lifecycles,
  attached_table           text not null,
  entity_key               text not null check (octet_length(entity_key) between 1 and 200 and entity_key !~ '[[:cntrl:]]'),
  namespace                text not null,
  lifecycle                text not null,
  to_state                 text not null,
  from_state               text,
  event                    text not null,
  metadata                 jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  sort_key                 int not null check (sort_key >= 1),
  most_recent              boolean not null default false,
  login                    text not null default session_user,
  created_at               timestamptz not null default clock_timestamp(),
  updated_at               timestamptz not null default clock_timestamp(),
  constraint only_the_first_row_has_no_from_state check ((from_state is null) = (sort_key = 1))
);
comment on table tasker.attached_transitions is
  'The append-only log of rows in users'' own tables; the most recent row of a key is its state. Insert attached_table, entity_key, event and metadata: the rest is filled in.';
comment on column tasker.attached_transitions.attached_transition_uuid is 'Key.';
comment on column tasker.attached_transitions.attachment_uuid is 'The attachment.';
comment on column tasker.attached_transitions.attached_table is 'schema.name of the table.';
comment on column tasker.attached_transitions.entity_key is 'Key of the row, as text.';
comment on column tasker.attached_transitions.namespace is 'Namespace of the attachment.';
comment on column tasker.attached_transitions.lifecycle is 'The rules it follows.';
comment on column tasker.attached_transitions.to_state is 'State after.';
comment on column tasker.attached_transitions.from_state is 'State before; null in the first row.';
comment on column tasker.attached_transitions.event is 'What happened.';
comment on column tasker.attached_transitions.metadata is 'What belongs to the event: requested_by, reason, anything.';
comment on column tasker.attached_transitions.sort_key is 'Position in the log of the row, from 1 without gaps.';
comment on column tasker.attached_transitions.most_recent is 'True in the newest entry of the row only.';
comment on column tasker.attached_transitions.login is 'The login that wrote it.';
comment on column tasker.attached_transitions.created_at is 'When it was written, by the real clock.';
comment on column tasker.attached_transitions.updated_at is 'When most_recent was taken from it.';
create unique index attached_transitions_sort_key_idx on tasker.attached_transitions (attachment_uuid, entity_key, sort_key);
comment on index tasker.attached_transitions_sort_key_idx is 'Two writers can''t append the same position.';
create unique index attached_transitions_most_recent_idx
  on tasker.attached_transitions (attachment_uuid, entity_key, most_recent) where most_recent = true;
comment on index tasker.attached_transitions_most_recent_idx is 'The current state of a row, and there is only one.';

-- Exports and metrics of a period read the pages of that period. A BRIN costs an insert next to nothing.
create index task_transitions_created_at_idx on tasker.task_transitions using brin (created_at) with (pages_per_range = 32);
comment on index tasker.task_transitions_created_at_idx is 'What happened in a period?';
create index workflow_step_transitions_created_at_idx on tasker.workflow_step_transitions using brin (created_at) with (pages_per_range = 32);
comment on index tasker.workflow_step_transitions_created_at_idx is 'What happened in a period?';

-- Counters grow by what the change feed says is new, so that a scrape costs what happened since the last one.
create table tasker.metrics_transition_totals (
  lifecycle   text not null,
  from_state  text not null,
  event       text not null,
  to_state    text not null,
  transitions bigint not null,
  primary key (lifecycle, from_state, event, to_state)
) with (fillfactor = 50);
comment on table tasker.metrics_transition_totals is 'How often each transition was made, up to metrics_cursor.';
comment on column tasker.metrics_transition_totals.lifecycle is 'The lifecycle.';
comment on column tasker.metrics_transition_totals.from_state is 'State before; empty for creations.';
comment on column tasker.metrics_transition_totals.event is 'What happened.';
comment on column tasker.metrics_transition_totals.to_state is 'State after.';
comment on column tasker.metrics_transition_totals.transitions is 'How often.';

create table tasker.metrics_visit_totals (
  lifecycle text not null,
  state     text not null,
  bucket    int not null,
  visits    bigint not null,
  seconds   double precision not null,
  primary key (lifecycle, state, bucket)
) with (fillfactor = 50);
comment on table tasker.metrics_visit_totals is 'How long entities stayed in each state, in buckets, up to metrics_cursor.';
comment on column tasker.metrics_visit_totals.lifecycle is 'The lifecycle.';
comment on column tasker.metrics_visit_totals.state is 'The state that was left.';
comment on column tasker.metrics_visit_totals.bucket is 'Which of the buckets of metrics_buckets(), from 0.';
comment on column tasker.metrics_visit_totals.visits is 'How many visits.';
comment on column tasker.metrics_visit_totals.seconds is 'Their duration together.';

create table tasker.metrics_cursor (
  singleton    boolean primary key default true check (singleton),
  recorded_xid xid8 not null,
  change_id    bigint not null
);
comment on table tasker.metrics_cursor is 'How far the change feed is counted.';
comment on column tasker.metrics_cursor.singleton is 'There is one row.';
comment on column tasker.metrics_cursor.recorded_xid is 'The last change counted.';
comment on column tasker.metrics_cursor.change_id is 'The last change counted, in its transaction.';
insert into tasker.metrics_cursor (recorded_xid, change_id) values ('0', 0);
