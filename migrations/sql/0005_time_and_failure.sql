-- Time, failure and repetition: lifecycles of workers and circuit breakers, timeouts, checkpoints, capabilities, idempotency.

alter table tasker.lifecycle_phases drop constraint lifecycle_phases_applies_to_check;
alter table tasker.lifecycle_phases add constraint lifecycle_phases_applies_to_check
  check (applies_to in ('task', 'step', 'worker', 'circuit_breaker', 'any'));
alter table tasker.engine_operations drop constraint engine_operations_applies_to_check;
alter table tasker.engine_operations add constraint engine_operations_applies_to_check
  check (applies_to in ('task', 'step', 'worker', 'circuit_breaker'));
alter table tasker.guards drop constraint guards_applies_to_check;
alter table tasker.guards add constraint guards_applies_to_check
  check (applies_to in ('task', 'step', 'worker', 'circuit_breaker', 'any'));
alter table tasker.changes drop constraint changes_log_check;
alter table tasker.changes add constraint changes_log_check check (log in ('task', 'step', 'worker', 'circuit_breaker'));

alter table tasker.vocabularies
  add column worker_lifecycle text,
  add column circuit_breaker_lifecycle text;
comment on column tasker.vocabularies.worker_lifecycle is 'The lifecycle that workers registered under it follow.';
comment on column tasker.vocabularies.circuit_breaker_lifecycle is 'The lifecycle that circuit breakers follow.';

-- Steps: which tool they use, what a worker must be able to do, how their result is accepted.
alter table tasker.named_steps
  add column tool text,
  add column requires text[] not null default '{}',
  add column acceptance jsonb not null default '[]';
comment on column tasker.named_steps.tool is 'The tool whose circuit breaker holds it back; null: the handler.';
comment on column tasker.named_steps.requires is 'Capabilities that a worker must have.';
comment on column tasker.named_steps.acceptance is 'Acceptance checks that run after the handler (seed 002, Acceptance Test Types).';
alter table tasker.workflow_steps
  add column tool text,
  add column requires text[] not null default '{}',
  add column acceptance jsonb not null default '[]';
comment on column tasker.workflow_steps.tool is 'The tool whose circuit breaker holds it back; null: the handler.';
comment on column tasker.workflow_steps.requires is 'Capabilities that a worker must have.';
comment on column tasker.workflow_steps.acceptance is 'Acceptance checks that run after the handler (seed 002, Acceptance Test Types).';
alter table tasker.tasks add column timeout interval check (timeout > interval '0');
comment on column tasker.tasks.timeout is 'How long the task may take from its start; null: for ever.';
alter type tasker.claimed_step add attribute tool text;
alter type tasker.claimed_step add attribute acceptance jsonb;
alter type tasker.claimed_step add attribute checkpoint jsonb;

create table tasker.capability_queues (
  namespace  text not null references tasker.task_namespaces,
  requires   text[] not null,
  queue_name text not null unique,
  primary key (namespace, requires)
);
comment on table tasker.capability_queues is 'Steps that ask for capabilities stand in a queue of their own, so that only workers who have them ever see them.';
comment on column tasker.capability_queues.namespace is 'The namespace.';
comment on column tasker.capability_queues.requires is 'The capabilities, sorted.';
comment on column tasker.capability_queues.queue_name is 'The pgmq queue.';

create table tasker.step_checkpoints (
  workflow_step_uuid uuid primary key references tasker.workflow_steps,
  task_uuid          uuid not null,
  namespace          text not null,
  checkpoint         jsonb not null,
  attempt            int not null,
  saved_at           timestamptz not null default clock_timestamp()
) with (fillfactor = 70);
comment on table tasker.step_checkpoints is 'Partial output that a worker saved while it runs: it survives timeouts, lost leases and cancellation, and the next attempt gets it (seed 002).';
comment on column tasker.step_checkpoints.workflow_step_uuid is 'The step.';
comment on column tasker.step_checkpoints.task_uuid is 'Its task.';
comment on column tasker.step_checkpoints.namespace is 'Its namespace.';
comment on column tasker.step_checkpoints.checkpoint is 'What was saved.';
comment on column tasker.step_checkpoints.attempt is 'The attempt that saved it.';
comment on column tasker.step_checkpoints.saved_at is 'When.';

-- A claim wakes tick when its lease ends or when the first of its steps has run for too long.
alter table tasker.step_claims add column first_timeout_at timestamptz not null default 'infinity';
alter table tasker.step_claims alter column first_timeout_at drop default;
comment on column tasker.step_claims.first_timeout_at is 'When the first of its steps has run for too long.';
drop index tasker.step_claims_lease_expires_at_idx;
create index step_claims_due_at_idx on tasker.step_claims (least(lease_expires_at, first_timeout_at));
comment on index tasker.step_claims_due_at_idx is 'Which claims ended or hold a step for too long?';

alter table tasker.timers drop constraint timers_kind_check;
alter table tasker.timers add constraint timers_kind_check
  check (kind in ('retry', 'drive', 'task_timeout', 'requeue', 'breaker_cooldown'));
alter table tasker.timers
  alter column task_uuid drop not null,
  alter column namespace drop not null,
  add column tool text;
comment on column tasker.timers.kind is
  'retry: a backoff is over; drive: look whether the task can move; task_timeout: the task took too long; requeue: a step held back by a breaker may be queued again; breaker_cooldown: a breaker may be tried.';
comment on column tasker.timers.tool is 'The tool, for timers of circuit breakers.';
create index timers_tool_idx on tasker.timers (tool) where tool is not null;
comment on index tasker.timers_tool_idx is 'What waits for a tool?';

-- Workers get a lifecycle; what was written on the row is now in their log.
alter table tasker.workers
  add column lifecycle text references tasker.lifecycles,
  add column heartbeat_interval interval not null default '10 seconds' check (heartbeat_interval > interval '0'),
  add column max_missed_heartbeats int not null default 3 check (max_missed_heartbeats >= 1),
  add column shutdown_requested_at timestamptz,
  drop column shut_down_at,
  drop column shut_down_reason;
comment on column tasker.workers.lifecycle is 'The lifecycle it follows.';
comment on column tasker.workers.heartbeat_interval is 'How often it is expected to be heard of.';
comment on column tasker.workers.max_missed_heartbeats is 'So many missed heartbeats make it unresponsive, and twice as many end it (seed 000).';
comment on column tasker.workers.shutdown_requested_at is 'It claims nothing since then; it ends when it holds nothing more.';
alter table tasker.workers alter column max_concurrent set default 1000;

create table tasker.worker_transitions (
  worker_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  worker_uuid            uuid not null references tasker.workers,
  lifecycle              text not null,
  to_state               text not null,
  from_state             text,
  event                  text not null,
  metadata               jsonb,
  sort_key               int not null check (sort_key >= 1),
  most_recent            boolean not null default false,
  created_at             timestamptz not null default clock_timestamp(),
  updated_at             timestamptz not null default clock_timestamp(),
  constraint only_the_first_row_has_no_from_state check ((from_state is null) = (sort_key = 1))
);
comment on table tasker.worker_transitions is 'The append-only log of worker states; the most recent row of a worker is its state.';
comment on column tasker.worker_transitions.worker_transition_uuid is 'Key.';
comment on column tasker.worker_transitions.worker_uuid is 'The worker.';
comment on column tasker.worker_transitions.lifecycle is 'The rules it follows.';
comment on column tasker.worker_transitions.to_state is 'State after.';
comment on column tasker.worker_transitions.from_state is 'State before; null in the first row.';
comment on column tasker.worker_transitions.event is 'What happened.';
comment on column tasker.worker_transitions.metadata is 'What belongs to the event.';
comment on column tasker.worker_transitions.sort_key is 'Position in the worker''s log, from 1 without gaps.';
comment on column tasker.worker_transitions.most_recent is 'True in the newest row of the worker only.';
comment on column tasker.worker_transitions.created_at is 'When it was written, by the real clock.';
comment on column tasker.worker_transitions.updated_at is 'When most_recent was taken from it.';
create unique index worker_transitions_worker_uuid_sort_key_idx on tasker.worker_transitions (worker_uuid, sort_key);
comment on index tasker.worker_transitions_worker_uuid_sort_key_idx is 'Two writers can''t append the same position.';
create unique index worker_transitions_most_recent_idx on tasker.worker_transitions (worker_uuid, most_recent) where most_recent = true;
comment on index tasker.worker_transitions_most_recent_idx is 'The current state of a worker, and there is only one.';

create table tasker.circuit_breakers (
  circuit_breaker_uuid uuid primary key default tasker.uuid_generate_v7(),
  tool                 text not null unique,
  lifecycle            text not null references tasker.lifecycles,
  failure_threshold    int not null default 5 check (failure_threshold >= 1),
  cooldown             interval not null default '60 seconds' check (cooldown >= interval '0'),
  success_threshold    int not null default 1 check (success_threshold >= 1),
  max_error_repeats    int check (max_error_repeats >= 1),
  failures             int not null default 0,
  successes            int not null default 0,
  last_error_signature text,
  error_repeats        int not null default 0,
  generation           int not null default 1,
  cools_until          timestamptz,
  trial_step_uuid      uuid,
  trial_permit_uuid    uuid,
  trial_expires_at     timestamptz,
  created_at           timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table tasker.circuit_breakers is 'One circuit breaker a tool (seeds 001, 002). Its state is the newest row of circuit_breaker_transitions.';
comment on column tasker.circuit_breakers.circuit_breaker_uuid is 'Key.';
comment on column tasker.circuit_breakers.tool is 'The tool (seed 001: tool_id).';
comment on column tasker.circuit_breakers.lifecycle is 'The rules it follows.';
comment on column tasker.circuit_breakers.failure_threshold is 'So many failures in a row open it.';
comment on column tasker.circuit_breakers.cooldown is 'How long it stays open.';
comment on column tasker.circuit_breakers.success_threshold is 'So many successful trials close it.';
comment on column tasker.circuit_breakers.max_error_repeats is 'The same error repeated more often opens it (seed 002); null: not looked at.';
comment on column tasker.circuit_breakers.failures is 'Failures in a row.';
comment on column tasker.circuit_breakers.successes is 'Successful trials since it was half open.';
comment on column tasker.circuit_breakers.last_error_signature is 'Hash of the latest error, to notice repetition.';
comment on column tasker.circuit_breakers.error_repeats is 'How often that error came in a row.';
comment on column tasker.circuit_breakers.generation is 'Goes up with every change of state; results of an older generation do not move it.';
comment on column tasker.circuit_breakers.cools_until is 'Until when it stays open.';
comment on column tasker.circuit_breakers.trial_step_uuid is 'The step that is the trial now, if a step is.';
comment on column tasker.circuit_breakers.trial_permit_uuid is 'The permit of the trial that runs now: the claim of the step, or what breaker_permit gave.';
comment on column tasker.circuit_breakers.trial_expires_at is 'A trial that has not reported by then is given to another.';
comment on column tasker.circuit_breakers.created_at is 'When it was configured.';

create table tasker.circuit_breaker_transitions (
  circuit_breaker_transition_uuid uuid primary key default tasker.uuid_generate_v7(),
  circuit_breaker_uuid            uuid not null references tasker.circuit_breakers,
  lifecycle                       text not null,
  to_state                        text not null,
  from_state                      text,
  event                           text not null,
  metadata                        jsonb,
  sort_key                        int not null check (sort_key >= 1),
  most_recent                     boolean not null default false,
  created_at                      timestamptz not null default clock_timestamp(),
  updated_at                      timestamptz not null default clock_timestamp(),
  constraint only_the_first_row_has_no_from_state check ((from_state is null) = (sort_key = 1))
);
comment on table tasker.circuit_breaker_transitions is 'The append-only log of circuit breaker states; the most recent row of a breaker is its state.';
comment on column tasker.circuit_breaker_transitions.circuit_breaker_transition_uuid is 'Key.';
comment on column tasker.circuit_breaker_transitions.circuit_breaker_uuid is 'The breaker.';
comment on column tasker.circuit_breaker_transitions.lifecycle is 'The rules it follows.';
comment on column tasker.circuit_breaker_transitions.to_state is 'State after.';
comment on column tasker.circuit_breaker_transitions.from_state is 'State before; null in the first row.';
comment on column tasker.circuit_breaker_transitions.event is 'What happened.';
comment on column tasker.circuit_breaker_transitions.metadata is 'What belongs to the event.';
comment on column tasker.circuit_breaker_transitions.sort_key is 'Position in the breaker''s log, from 1 without gaps.';
comment on column tasker.circuit_breaker_transitions.most_recent is 'True in the newest row of the breaker only.';
comment on column tasker.circuit_breaker_transitions.created_at is 'When it was written, by the real clock.';
comment on column tasker.circuit_breaker_transitions.updated_at is 'When most_recent was taken from it.';
create unique index circuit_breaker_transitions_uuid_sort_key_idx on tasker.circuit_breaker_transitions (circuit_breaker_uuid, sort_key);
comment on index tasker.circuit_breaker_transitions_uuid_sort_key_idx is 'Two writers can''t append the same position.';
create unique index circuit_breaker_transitions_most_recent_idx
  on tasker.circuit_breaker_transitions (circuit_breaker_uuid, most_recent) where most_recent = true;
comment on index tasker.circuit_breaker_transitions_most_recent_idx is 'The current state of a breaker, and there is only one.';

create table tasker.idempotency_keys (
  request_id      text primary key check (length(request_id) between 1 and 255),
  endpoint        text not null,
  request_hash    text not null,
  response_status int not null,
  response_body   text not null,
  hits            int not null default 0,
  created_at      timestamptz not null default clock_timestamp(),
  expires_at      timestamptz not null
);
comment on table tasker.idempotency_keys is 'Answers to requests that carried a request id: the same request again gets the same answer (seed 003).';
comment on column tasker.idempotency_keys.request_id is 'The caller''s key.';
comment on column tasker.idempotency_keys.endpoint is 'The function that was called.';
comment on column tasker.idempotency_keys.request_hash is 'sha256 of its arguments.';
comment on column tasker.idempotency_keys.response_status is '200 once answered; 102 inside the transaction that works on it.';
comment on column tasker.idempotency_keys.response_body is 'The answer.';
comment on column tasker.idempotency_keys.hits is 'How often the stored answer was given.';
comment on column tasker.idempotency_keys.created_at is 'When the request came first.';
comment on column tasker.idempotency_keys.expires_at is 'Until when the answer is kept.';
create index idx_expires_at on tasker.idempotency_keys (expires_at);
comment on index tasker.idx_expires_at is 'What can be purged? (seed 003)';


create type tasker.worker_facts as (
  held_steps int
);
comment on type tasker.worker_facts is 'What a worker guard may look at.';
create type tasker.breaker_facts as (
  failures          int,
  failure_threshold int,
  successes         int,
  success_threshold int,
  error_repeats     int,
  max_error_repeats int,
  cooled            boolean
);
comment on type tasker.breaker_facts is 'What a circuit breaker guard may look at.';

-- What the failure of a step means for its task (seeds 000 critical tasks, 002 optional steps).
alter table tasker.named_steps add column on_failure text not null default 'block' check (on_failure in ('block', 'stop', 'continue'));
comment on column tasker.named_steps.on_failure is 'block: what depends on it can''t start; stop: critical, nothing new starts; continue: optional, its dependents go on.';
alter table tasker.workflow_steps add column on_failure text not null default 'block' check (on_failure in ('block', 'stop', 'continue'));
comment on column tasker.workflow_steps.on_failure is 'block: what depends on it can''t start; stop: critical, nothing new starts; continue: optional, its dependents go on.';
alter table tasker.tasks add column failed_critical_steps int not null default 0 check (failed_critical_steps >= 0);
comment on column tasker.tasks.failed_critical_steps is 'How many critical steps failed; none may start while there is one.';
comment on column tasker.tasks.satisfied_steps is 'Steps whose dependents may start: done, or optional and failed.';
comment on column tasker.tasks.failed_steps is 'Steps that ended without satisfying their dependents.';
alter type tasker.task_facts add attribute failed_critical_steps int;

-- What the engine has to know of a lifecycle before it takes its locks; define_vocabulary derives it from the rules.
alter table tasker.lifecycles
  add column settles_at_report boolean not null default false,
  add column watches_starts    boolean not null default false,
  add column queues_by_state   boolean not null default true;
comment on column tasker.lifecycles.settles_at_report is 'A report ends the step, or sends it to a retry, without waiting for orchestration.';
comment on column tasker.lifecycles.watches_starts is 'The task moves when the first of its steps starts.';
comment on column tasker.lifecycles.queues_by_state is 'A queued step is in a state of its own; otherwise handed_out_at tells.';
alter table tasker.lifecycle_states drop column counts_as;
alter table tasker.lifecycle_states add column counts_as text not null generated always as (
  case when is_terminal and satisfies_dependencies then 'satisfied'
       when is_terminal or phase = 'failed' then 'failed'
       when phase = 'pending' then 'pending'
       when phase in ('waiting_retry', 'circuit_open') then 'waiting_retry'
       else 'in_flight' end) stored;
comment on column tasker.lifecycle_states.counts_as is 'The progress counter of its task in which a step in this state stands.';
alter table tasker.workflow_steps add column handed_out_at timestamptz;
comment on column tasker.workflow_steps.handed_out_at is 'When it was put into its queue, where its lifecycle has no state for that.';
alter table tasker.tasks
  add column retry_count int not null default 0,
  add column max_retries int not null default 0 check (max_retries >= 0),
  add constraint retry_count_never_exceeds_max_retries check (retry_count between 0 and max_retries);
comment on column tasker.tasks.retry_count is 'How often the whole task was retried (seed 001 workstreams).';
comment on column tasker.tasks.max_retries is 'How often it may be.';
alter type tasker.task_facts add attribute retries_left int;
alter table tasker.timers drop constraint timers_kind_check;
alter table tasker.timers add constraint timers_kind_check
  check (kind in ('retry', 'drive', 'task_timeout', 'task_retry', 'requeue', 'breaker_cooldown'));
comment on column tasker.timers.kind is
  'retry: a backoff or the cooldown of a step is over; drive: look whether the task can move; task_timeout: the task took too long; task_retry: the backoff of a task is over; requeue: a step held back by a breaker may be queued again; breaker_cooldown: a breaker may be tried.';
alter table tasker.lifecycles add column has_enqueuing_phase boolean not null default false;
comment on column tasker.lifecycles.has_enqueuing_phase is 'A task hands out its steps in a state of its own; otherwise whenever it is starting or running.';

-- Jobs of seed 003: parents to depth 5, 1 to 10 workers allocated atomically.
alter table tasker.tasks
  add column worker_count int check (worker_count between 1 and 10),
  add column depth int not null default 0 check (depth >= 0),
  add constraint jobs_are_at_most_five_deep check (worker_count is null or depth <= 5);
comment on column tasker.tasks.worker_count is 'How many supervised workers the job needs before it runs; null: it needs none of its own.';
comment on column tasker.tasks.depth is 'How many parents it has above it.';
alter type tasker.task_facts add attribute workers_allocated boolean;
create table tasker.job_workers (
  task_uuid    uuid not null references tasker.tasks,
  worker_uuid  uuid not null references tasker.workers,
  allocated_at timestamptz not null default clock_timestamp(),
  released_at  timestamptz,
  primary key (task_uuid, worker_uuid)
);
comment on table tasker.job_workers is 'Which supervised workers a job was given (seed 003). A worker serves one job in its life.';
comment on column tasker.job_workers.task_uuid is 'The job.';
comment on column tasker.job_workers.worker_uuid is 'The worker.';
comment on column tasker.job_workers.allocated_at is 'Since when.';
comment on column tasker.job_workers.released_at is 'Until when.';
create unique index job_workers_worker_uuid_idx on tasker.job_workers (worker_uuid);
comment on index tasker.job_workers_worker_uuid_idx is 'No worker is given away twice.';
