-- Work: namespaces, templates, tasks, steps, edges, and the transition logs whose newest row is the current state.

create table tasker.task_namespaces (
  namespace     text primary key check (namespace ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
  queue_name    text not null unique,
  notifications text not null default 'work' check (notifications in ('off', 'work', 'tasks', 'all')),
  description   text,
  created_at    timestamptz not null default clock_timestamp()
);
comment on table tasker.task_namespaces is 'A namespace owns a queue and is the unit of tenancy, quota, export and retention.';
comment on column tasker.task_namespaces.namespace is 'Name.';
comment on column tasker.task_namespaces.queue_name is 'The pgmq queue of its claimable steps.';
comment on column tasker.task_namespaces.notifications is 'off: none; work: tasker_work; tasks: also tasker_task_state; all: also tasker_step_state.';
comment on column tasker.task_namespaces.description is 'What it is for.';
comment on column tasker.task_namespaces.created_at is 'When it was made.';

create table tasker.named_tasks (
  named_task_uuid uuid primary key default tasker.uuid_generate_v7(),
  namespace       text not null references tasker.task_namespaces,
  name            text not null,
  version         text not null,
  vocabulary      text not null references tasker.vocabularies,
  description     text,
  configuration   jsonb not null,
  content_hash    text not null,
  created_at      timestamptz not null default clock_timestamp(),
  unique (namespace, name, version)
);
comment on table tasker.named_tasks is 'Templates: named, versioned workflows. A version never changes.';
comment on column tasker.named_tasks.named_task_uuid is 'Key.';
comment on column tasker.named_tasks.namespace is 'Namespace of its tasks.';
comment on column tasker.named_tasks.name is 'Name.';
comment on column tasker.named_tasks.version is 'Version; the newest registered one is the default of create_task.';
comment on column tasker.named_tasks.vocabulary is 'The vocabulary under which its tasks run.';
comment on column tasker.named_tasks.description is 'What it does.';
comment on column tasker.named_tasks.configuration is 'The template as it was registered.';
comment on column tasker.named_tasks.content_hash is 'sha256 of the content: the same version with other content is refused.';
comment on column tasker.named_tasks.created_at is 'When it was registered.';

create table tasker.named_steps (
  named_step_uuid uuid primary key default tasker.uuid_generate_v7(),
  named_task_uuid uuid not null references tasker.named_tasks,
  name            text not null,
  handler         text not null,
  ordinal         int not null,
  depends_on      int[] not null default '{}',
  arguments       jsonb not null default '{}',
  retryable       boolean not null default true,
  max_attempts    int not null check (max_attempts between 1 and 1000000),
  base_delay      interval not null,
  max_delay       interval not null,
  jitter          real not null check (jitter between 0 and 1),
  timeout         interval not null,
  unique (named_task_uuid, ordinal),
  unique (named_task_uuid, name)
);
comment on table tasker.named_steps is 'The steps of a template.';
comment on column tasker.named_steps.named_step_uuid is 'Key.';
comment on column tasker.named_steps.named_task_uuid is 'The template.';
comment on column tasker.named_steps.name is 'Name, unique in its template.';
comment on column tasker.named_steps.handler is 'What a worker runs for it.';
comment on column tasker.named_steps.ordinal is 'Position in the template, from 1.';
comment on column tasker.named_steps.depends_on is 'Ordinals of the steps that must be satisfied first.';
comment on column tasker.named_steps.arguments is 'Fixed arguments for the handler.';
comment on column tasker.named_steps.retryable is 'False: a failure is final.';
comment on column tasker.named_steps.max_attempts is 'Attempts including the first.';
comment on column tasker.named_steps.base_delay is 'Delay before the second attempt; it doubles from there.';
comment on column tasker.named_steps.max_delay is 'No delay is longer.';
comment on column tasker.named_steps.jitter is 'Fraction by which a delay may differ, either way.';
comment on column tasker.named_steps.timeout is 'How long one attempt may take.';

-- A row of tasks changes several times in one transaction, and every foreign key would be looked up again each time. What
-- they would guard is checked once, when rows are inserted (sql/kernel/check_tasks.sql).
create table tasker.tasks (
  task_uuid           uuid primary key default tasker.uuid_generate_v7(),
  namespace           text not null,
  named_task_uuid     uuid,
  name                text not null,
  version             text,
  vocabulary          text not null,
  lifecycle           text not null,
  parent_task_uuid    uuid references tasker.tasks,
  correlation_id      uuid not null,
  idempotency_key     text,
  request_hash        text,
  priority            int not null default 0,
  requested_by        text,
  context             jsonb not null default '{}',
  tags                jsonb not null default '{}',
  total_steps         int not null default 0,
  pending_steps       int not null default 0,
  in_flight_steps     int not null default 0,
  waiting_retry_steps int not null default 0,
  satisfied_steps     int not null default 0,
  failed_steps        int not null default 0,
  created_at          timestamptz not null default clock_timestamp(),
  started_at          timestamptz,
  completed_at        timestamptz,
  constraint progress_counters_are_never_negative
    check (least(pending_steps, in_flight_steps, waiting_retry_steps, satisfied_steps, failed_steps) >= 0),
  constraint progress_counters_add_up
    check (pending_steps + in_flight_steps + waiting_retry_steps + satisfied_steps + failed_steps = total_steps),
  constraint started_at_is_not_before_created_at check (started_at >= created_at),
  constraint completed_at_is_not_before_started_at check (completed_at >= started_at)
) with (fillfactor = 80);
comment on table tasker.tasks is 'One run of a workflow. Its state is the newest row of task_transitions.';
comment on column tasker.tasks.task_uuid is 'Key.';
comment on column tasker.tasks.namespace is 'Its namespace.';
comment on column tasker.tasks.named_task_uuid is 'The template; null for an ad-hoc graph.';
comment on column tasker.tasks.name is 'Name of the workflow.';
comment on column tasker.tasks.version is 'Version of the template.';
comment on column tasker.tasks.vocabulary is 'The vocabulary under which it runs.';
comment on column tasker.tasks.lifecycle is 'The lifecycle of that vocabulary''s tasks.';
comment on column tasker.tasks.parent_task_uuid is 'The task that asked for it.';
comment on column tasker.tasks.correlation_id is 'Follows the request through all systems (seed 004: distributed tracing).';
comment on column tasker.tasks.idempotency_key is 'The caller''s key: the same key in a namespace makes one task.';
comment on column tasker.tasks.request_hash is 'sha256 of the request, to tell a repetition from another request with the same key.';
comment on column tasker.tasks.priority is 'Higher is more urgent.';
comment on column tasker.tasks.requested_by is 'Who asked for it, as the caller claims.';
comment on column tasker.tasks.context is 'Input of the whole task.';
comment on column tasker.tasks.tags is 'Free labels to search by.';
comment on column tasker.tasks.total_steps is 'Number of steps.';
comment on column tasker.tasks.pending_steps is 'Steps not yet handed out.';
comment on column tasker.tasks.in_flight_steps is 'Steps queued, running, or reported and not yet settled.';
comment on column tasker.tasks.waiting_retry_steps is 'Steps waiting for their next attempt.';
comment on column tasker.tasks.satisfied_steps is 'Steps whose dependents may start.';
comment on column tasker.tasks.failed_steps is 'Steps that ended without satisfying their dependents.';
comment on column tasker.tasks.created_at is 'When it was created.';
comment on column tasker.tasks.started_at is 'When it first left its initial state.';
comment on column tasker.tasks.completed_at is 'When it reached a terminal state.';

create unique index tasks_idempotency_key_idx on tasker.tasks (namespace, idempotency_key) where idempotency_key is not null;
comment on index tasker.tasks_idempotency_key_idx is 'One task for one idempotency key.';
create index tasks_correlation_id_idx on tasker.tasks (correlation_id);
comment on index tasker.tasks_correlation_id_idx is 'Everything with one correlation id.';
create index tasks_parent_task_uuid_idx on tasker.tasks (parent_task_uuid) where parent_task_uuid is not null;
comment on index tasker.tasks_parent_task_uuid_idx is 'The children of a task.';

create table tasker.workflow_steps (
  workflow_step_uuid     uuid primary key default tasker.uuid_generate_v7(),
  task_uuid              uuid not null references tasker.tasks,
  namespace              text not null,
  named_step_uuid        uuid,
  name                   text not null,
  handler                text not null,
  lifecycle              text not null,
  ordinal                int not null,
  unmet_dependencies     int not null default 0 check (unmet_dependencies >= 0),
  attempts               int not null default 0,
  max_attempts           int not null,
  retryable              boolean not null default true,
  base_delay             interval not null,
  max_delay              interval not null,
  jitter                 real not null,
  timeout                interval not null,
  claim_uuid             uuid,
  worker_uuid            uuid,
  last_attempted_at      timestamptz,
  result_transition_uuid uuid,
  arguments              jsonb not null default '{}',
  created_at             timestamptz not null default clock_timestamp(),
  constraint attempts_never_exceed_max_attempts check (attempts between 0 and max_attempts)
) with (fillfactor = 70);
comment on table tasker.workflow_steps is 'One step of a task. Its state is the newest row of workflow_step_transitions.';
comment on column tasker.workflow_steps.workflow_step_uuid is 'Key.';
comment on column tasker.workflow_steps.task_uuid is 'Its task.';
comment on column tasker.workflow_steps.namespace is 'Namespace of its task.';
comment on column tasker.workflow_steps.named_step_uuid is 'The step of the template; null for an ad-hoc graph.';
comment on column tasker.workflow_steps.name is 'Name, unique in its task.';
comment on column tasker.workflow_steps.handler is 'What a worker runs for it.';
comment on column tasker.workflow_steps.lifecycle is 'The lifecycle of its vocabulary''s steps.';
comment on column tasker.workflow_steps.ordinal is 'Position in the workflow, from 1.';
comment on column tasker.workflow_steps.unmet_dependencies is 'How many of its dependencies are not satisfied yet; it may start at 0.';
comment on column tasker.workflow_steps.attempts is 'How often it was claimed.';
comment on column tasker.workflow_steps.max_attempts is 'Attempts including the first.';
comment on column tasker.workflow_steps.retryable is 'False: a failure is final.';
comment on column tasker.workflow_steps.base_delay is 'Delay before the second attempt.';
comment on column tasker.workflow_steps.max_delay is 'No delay is longer.';
comment on column tasker.workflow_steps.jitter is 'Fraction by which a delay may differ, either way.';
comment on column tasker.workflow_steps.timeout is 'How long one attempt may take.';
comment on column tasker.workflow_steps.claim_uuid is 'The claim that holds it now: the fence against late workers. Null when nobody holds it.';
comment on column tasker.workflow_steps.worker_uuid is 'The worker of the latest attempt.';
comment on column tasker.workflow_steps.last_attempted_at is 'When the latest attempt was claimed.';
comment on column tasker.workflow_steps.result_transition_uuid is 'The log row whose metadata holds the latest reported result: results are stored once.';
comment on column tasker.workflow_steps.arguments is 'Fixed arguments for the handler.';
comment on column tasker.workflow_steps.created_at is 'When it was created.';

create unique index workflow_steps_task_uuid_name_idx on tasker.workflow_steps (task_uuid, name);
comment on index tasker.workflow_steps_task_uuid_name_idx is 'The steps of a task; a name stands once in it.';

create table tasker.workflow_step_edges (
  task_uuid      uuid not null,
  from_step_uuid uuid not null,
  to_step_uuid   uuid not null,
  primary key (from_step_uuid, to_step_uuid),
  constraint a_step_does_not_depend_on_itself check (from_step_uuid <> to_step_uuid)
);
comment on table tasker.workflow_step_edges is 'to_step depends on from_step. Both belong to task_uuid.';
comment on column tasker.workflow_step_edges.task_uuid is 'The task of both steps.';
comment on column tasker.workflow_step_edges.from_step_uuid is 'The dependency.';
comment on column tasker.workflow_step_edges.to_step_uuid is 'The dependent.';
create index workflow_step_edges_to_step_uuid_idx on tasker.workflow_step_edges (to_step_uuid);
comment on index tasker.workflow_step_edges_to_step_uuid_idx is 'The dependencies of a step.';

-- Seed 004 prints TIMESTAMP; timestamptz here, so that no session's time zone changes a fact (docs/decisions.md).
create table tasker.task_transitions (
  task_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  task_uuid            uuid not null,
  namespace            text not null,
  lifecycle            text not null,
  to_state             text not null,
  from_state           text,
  event                text not null,
  processor_uuid       uuid,
  metadata             jsonb,
  sort_key             int not null check (sort_key >= 1),
  most_recent          boolean not null default false,
  created_at           timestamptz not null default clock_timestamp(),
  updated_at           timestamptz not null default clock_timestamp(),
  constraint only_the_first_row_has_no_from_state check ((from_state is null) = (sort_key = 1))
);
comment on table tasker.task_transitions is 'The append-only log of task states; the most recent row of a task is its state.';
comment on column tasker.task_transitions.task_transition_uuid is 'Key.';
comment on column tasker.task_transitions.task_uuid is 'The task.';
comment on column tasker.task_transitions.namespace is 'Its namespace.';
comment on column tasker.task_transitions.lifecycle is 'The rules it follows.';
comment on column tasker.task_transitions.to_state is 'State after.';
comment on column tasker.task_transitions.from_state is 'State before; null in the first row.';
comment on column tasker.task_transitions.event is 'What happened.';
comment on column tasker.task_transitions.processor_uuid is 'The processor that made the transition; it owns the task while the state requires ownership and its lease lives.';
comment on column tasker.task_transitions.metadata is 'What belongs to the event: reason, who asked, counts.';
comment on column tasker.task_transitions.sort_key is 'Position in the task''s log, from 1 without gaps.';
comment on column tasker.task_transitions.most_recent is 'True in the newest row of the task only.';
comment on column tasker.task_transitions.created_at is 'When it was written, by the real clock.';
comment on column tasker.task_transitions.updated_at is 'When most_recent was taken from it.';

create unique index task_transitions_task_uuid_sort_key_idx on tasker.task_transitions (task_uuid, sort_key);
comment on index tasker.task_transitions_task_uuid_sort_key_idx is 'Two writers can''t append the same position.';
create unique index task_transitions_most_recent_idx on tasker.task_transitions (task_uuid, most_recent) where most_recent = true;
comment on index tasker.task_transitions_most_recent_idx is 'The current state of a task, and there is only one (seed 004).';

create table tasker.workflow_step_transitions (
  workflow_step_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  workflow_step_uuid            uuid not null,
  task_uuid                     uuid not null,
  namespace                     text not null,
  lifecycle                     text not null,
  to_state                      text not null,
  from_state                    text,
  event                         text not null,
  metadata                      jsonb,
  sort_key                      int not null check (sort_key >= 1),
  most_recent                   boolean not null default false,
  created_at                    timestamptz not null default clock_timestamp(),
  updated_at                    timestamptz not null default clock_timestamp(),
  constraint only_the_first_row_has_no_from_state check ((from_state is null) = (sort_key = 1))
);
comment on table tasker.workflow_step_transitions is 'The append-only log of step states; the most recent row of a step is its state.';
comment on column tasker.workflow_step_transitions.workflow_step_transition_uuid is 'Key.';
comment on column tasker.workflow_step_transitions.workflow_step_uuid is 'The step.';
comment on column tasker.workflow_step_transitions.task_uuid is 'Its task.';
comment on column tasker.workflow_step_transitions.namespace is 'Its namespace.';
comment on column tasker.workflow_step_transitions.lifecycle is 'The rules it follows.';
comment on column tasker.workflow_step_transitions.to_state is 'State after.';
comment on column tasker.workflow_step_transitions.from_state is 'State before; null in the first row.';
comment on column tasker.workflow_step_transitions.event is 'What happened.';
comment on column tasker.workflow_step_transitions.metadata is 'What belongs to the event; the full result or error of a report stands here and nowhere else.';
comment on column tasker.workflow_step_transitions.sort_key is 'Position in the step''s log, from 1 without gaps.';
comment on column tasker.workflow_step_transitions.most_recent is 'True in the newest row of the step only.';
comment on column tasker.workflow_step_transitions.created_at is 'When it was written, by the real clock.';
comment on column tasker.workflow_step_transitions.updated_at is 'When most_recent was taken from it.';

create unique index workflow_step_transitions_step_uuid_sort_key_idx
  on tasker.workflow_step_transitions (workflow_step_uuid, sort_key);
comment on index tasker.workflow_step_transitions_step_uuid_sort_key_idx is 'Two writers can''t append the same position.';
create unique index workflow_step_transitions_most_recent_idx
  on tasker.workflow_step_transitions (workflow_step_uuid, most_recent) where most_recent = true;
comment on index tasker.workflow_step_transitions_most_recent_idx is 'The current state of a step, and there is only one (seed 004).';

create table tasker.changes (
  recorded_xid     xid8 not null default pg_current_xact_id(),
  change_id        bigint not null generated always as identity,
  log              text not null check (log in ('task', 'step')),
  transition_uuids uuid[] not null,
  primary key (recorded_xid, change_id)
);
comment on table tasker.changes is 'Which transaction appended which log rows: the order in which changes_after reads, so that no late commit is missed.';
comment on column tasker.changes.recorded_xid is 'The writing transaction.';
comment on column tasker.changes.change_id is 'Order inside that transaction.';
comment on column tasker.changes.log is 'Which log.';
comment on column tasker.changes.transition_uuids is 'The appended rows, in order.';

create table tasker.rejected_transitions (
  rejected_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  entity_kind              text not null,
  entity_uuid              uuid,
  task_uuid                uuid,
  namespace                text,
  code                     text not null,
  message                  text not null,
  detail                   jsonb not null default '{}',
  login                    text not null default session_user,
  application_name         text default current_setting('application_name', true),
  client_address           inet default inet_client_addr(),
  created_at               timestamptz not null default clock_timestamp()
);
comment on table tasker.rejected_transitions is 'Refused rows of batch calls: who tried what forbidden thing, when.';
comment on column tasker.rejected_transitions.rejected_transition_uuid is 'Key.';
comment on column tasker.rejected_transitions.entity_kind is 'task, step or message.';
comment on column tasker.rejected_transitions.entity_uuid is 'The entity it was aimed at.';
comment on column tasker.rejected_transitions.task_uuid is 'The task of that entity, if known.';
comment on column tasker.rejected_transitions.namespace is 'The namespace, if known.';
comment on column tasker.rejected_transitions.code is 'The SQLSTATE of the refusal.';
comment on column tasker.rejected_transitions.message is 'Why it was refused.';
comment on column tasker.rejected_transitions.detail is 'What was asked.';
comment on column tasker.rejected_transitions.login is 'The database login.';
comment on column tasker.rejected_transitions.application_name is 'The application name of the session.';
comment on column tasker.rejected_transitions.client_address is 'Where the session came from; null over a local socket.';
comment on column tasker.rejected_transitions.created_at is 'When.';
create index rejected_transitions_created_at_idx on tasker.rejected_transitions (created_at);
comment on index tasker.rejected_transitions_created_at_idx is 'Refusals in a period.';

-- Rows that the kernel passes between its functions, and rows that callers get.
create type tasker.step_move as (
  transition_uuid    uuid,
  workflow_step_uuid uuid,
  task_uuid          uuid,
  namespace          text,
  lifecycle          text,
  from_state         text,
  event              text,
  to_state           text,
  sort_key           int,
  most_recent        boolean,
  metadata           jsonb
);
comment on type tasker.step_move is 'One row to append to workflow_step_transitions.';

create type tasker.task_move as (
  task_uuid      uuid,
  namespace      text,
  lifecycle      text,
  from_state     text,
  event          text,
  to_state       text,
  sort_key       int,
  most_recent    boolean,
  processor_uuid uuid,
  metadata       jsonb
);
comment on type tasker.task_move is 'One row to append to task_transitions.';

create type tasker.step_report as (
  position   int,
  step_uuid  uuid,
  claim_uuid uuid,
  success    boolean,
  metadata   jsonb,
  problem    text
);
comment on type tasker.step_report is 'One reported result on its way in; problem tells why it could not be read.';

create type tasker.claimed_step as (
  workflow_step_uuid uuid,
  task_uuid          uuid,
  namespace          text,
  task_name          text,
  name               text,
  handler            text,
  attempt            int,
  max_attempts       int,
  claim_uuid         uuid,
  lease_expires_at   timestamptz,
  timeout            interval,
  arguments          jsonb,
  context            jsonb,
  inputs             jsonb,
  correlation_id     uuid
);
comment on type tasker.claimed_step is 'What a worker gets with a claim. inputs: the result of each dependency by name.';

create type tasker.step_outcome as (
  workflow_step_uuid uuid,
  state              text,
  code               text,
  message            text
);
comment on type tasker.step_outcome is 'What became of one reported result: the new state, or the code and reason of its refusal.';

create type tasker.drive_counts as (
  messages       int,
  steps_settled  int,
  steps_enqueued int,
  tasks_moved    int,
  tasks_finished int
);
comment on type tasker.drive_counts is 'What one call of orchestrate did.';

create type tasker.tick_counts as (
  timers_fired   int,
  leases_expired int,
  steps_enqueued int,
  tasks_moved    int,
  next_due_at    timestamptz
);
comment on type tasker.tick_counts is 'What one call of tick did, and when the next timer is due.';
