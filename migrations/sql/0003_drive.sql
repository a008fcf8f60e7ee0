-- What drives work: workers, processors, claims, timers, the throttle of notifications and the clock of tests.

create table tasker.workers (
  worker_uuid       uuid primary key default tasker.uuid_generate_v7(),
  name              text not null,
  vocabulary        text not null references tasker.vocabularies,
  namespaces        text[],
  capabilities      text[] not null default '{}',
  max_concurrent    int not null default 1 check (max_concurrent between 1 and 100000),
  registered_at     timestamptz not null default clock_timestamp(),
  last_heartbeat_at timestamptz not null default clock_timestamp(),
  shut_down_at      timestamptz,
  shut_down_reason  text
) with (fillfactor = 70);
comment on table tasker.workers is 'Every start of a worker process is a new row: a restarted process never inherits the claims of the old one.';
comment on column tasker.workers.worker_uuid is 'Key.';
comment on column tasker.workers.name is 'Name given by the process; not unique.';
comment on column tasker.workers.vocabulary is 'The vocabulary of its own lifecycle.';
comment on column tasker.workers.namespaces is 'Namespaces it works for; null for all.';
comment on column tasker.workers.capabilities is 'What it can do.';
comment on column tasker.workers.max_concurrent is 'How many steps it runs at once.';
comment on column tasker.workers.registered_at is 'When it registered.';
comment on column tasker.workers.last_heartbeat_at is 'When it was last heard of.';
comment on column tasker.workers.shut_down_at is 'When it shut down; a worker that shut down can''t claim.';
comment on column tasker.workers.shut_down_reason is 'Why.';

create table tasker.processors (
  processor_uuid   uuid primary key default tasker.uuid_generate_v7(),
  name             text not null,
  lease_expires_at timestamptz not null,
  registered_at    timestamptz not null default clock_timestamp()
);
comment on table tasker.processors is 'Processors that own tasks across transactions (seed 004, Processor Ownership). An owner whose lease ended can be replaced.';
comment on column tasker.processors.processor_uuid is 'Key.';
comment on column tasker.processors.name is 'Name given by the process.';
comment on column tasker.processors.lease_expires_at is 'Until then its tasks are its own.';
comment on column tasker.processors.registered_at is 'When it registered.';

create table tasker.step_claims (
  claim_uuid       uuid primary key,
  worker_uuid      uuid not null,
  namespace        text not null,
  step_uuids       uuid[] not null,
  open_steps       int not null,
  claimed_at       timestamptz not null,
  lease_expires_at timestamptz not null
) with (fillfactor = 70);
comment on table tasker.step_claims is 'One row for each batch of steps that a worker holds; gone when all of them are reported.';
comment on column tasker.step_claims.claim_uuid is 'The fence: only reports that carry it are taken.';
comment on column tasker.step_claims.worker_uuid is 'The worker.';
comment on column tasker.step_claims.namespace is 'Namespace of its steps.';
comment on column tasker.step_claims.step_uuids is 'The steps of the batch.';
comment on column tasker.step_claims.open_steps is 'How many of them are not reported yet.';
comment on column tasker.step_claims.claimed_at is 'When they were claimed.';
comment on column tasker.step_claims.lease_expires_at is 'After that, tick gives the steps to others.';
create index step_claims_lease_expires_at_idx on tasker.step_claims (lease_expires_at);
comment on index tasker.step_claims_lease_expires_at_idx is 'Which leases have ended?';
create index step_claims_worker_uuid_idx on tasker.step_claims (worker_uuid);
comment on index tasker.step_claims_worker_uuid_idx is 'What does a worker hold?';

create table tasker.timers (
  timer_uuid         uuid primary key default tasker.uuid_generate_v7(),
  due_at             timestamptz not null,
  kind               text not null check (kind in ('retry', 'drive')),
  task_uuid          uuid not null,
  namespace          text not null,
  workflow_step_uuid uuid,
  sort_key           int not null,
  created_at         timestamptz not null default clock_timestamp()
);
comment on table tasker.timers is 'What happens because time passes. A row is deleted when it fires; one whose entity has moved on meanwhile does nothing.';
comment on column tasker.timers.timer_uuid is 'Key.';
comment on column tasker.timers.due_at is 'When it is due.';
comment on column tasker.timers.kind is 'retry: a step''s backoff is over; drive: look whether the task can move.';
comment on column tasker.timers.task_uuid is 'The task.';
comment on column tasker.timers.namespace is 'Its namespace.';
comment on column tasker.timers.workflow_step_uuid is 'The step, if it is about a step.';
comment on column tasker.timers.sort_key is 'Position in the entity''s log when it was set: it fires for that visit of the state only.';
comment on column tasker.timers.created_at is 'When it was set.';
create index timers_due_at_idx on tasker.timers (due_at);
comment on index tasker.timers_due_at_idx is 'What is due?';

create table tasker.work_signals (
  namespace        text primary key,
  last_notified_at timestamptz not null
) with (fillfactor = 50);
comment on table tasker.work_signals is 'When tasker_work was last sent for a namespace: NOTIFY takes a lock over all databases at commit, so it is throttled.';
comment on column tasker.work_signals.namespace is 'The namespace.';
comment on column tasker.work_signals.last_notified_at is 'When.';

create table tasker.test_clock (
  singleton boolean primary key default true check (singleton),
  shift     interval not null
);
comment on table tasker.test_clock is 'Empty in production. A row shifts tasker.clock() for tests; only the owner may write it, and no audit column reads it.';
comment on column tasker.test_clock.singleton is 'There is at most one row.';
comment on column tasker.test_clock.shift is 'Added to the real time.';
