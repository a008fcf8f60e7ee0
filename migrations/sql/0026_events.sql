-- Events from outside, and the steps that wait for them.
create table tasker.events (
  namespace  text not null references tasker.task_namespaces,
  event      text not null check (length(event) between 1 and 200),
  key        text not null check (length(key) between 1 and 500),
  payload    jsonb not null,
  emitted_by text,
  emitted_at timestamptz not null default clock_timestamp(),
  keep_until timestamptz,
  primary key (namespace, event, key)
);
comment on table tasker.events is 'What was told from outside. The first to tell it wins; a row never changes, and goes when its time is over and no step of a task that is here waited for it.';
comment on column tasker.events.namespace is 'Namespace of the steps that may wait for it.';
comment on column tasker.events.event is 'What happened, for example approved.';
comment on column tasker.events.key is 'To what, for example the number of an order.';
comment on column tasker.events.payload is 'What belongs to it: input of the steps that waited.';
comment on column tasker.events.emitted_by is 'Who told it, as the caller claims; the event event_emitted in audit_events leads to the login.';
comment on column tasker.events.emitted_at is 'When.';
comment on column tasker.events.keep_until is 'When tick may forget it; null: never.';
create index events_keep_until_idx on tasker.events (keep_until) where keep_until is not null;
comment on index tasker.events_keep_until_idx is 'What may be forgotten?';

create table tasker.event_waits (
  workflow_step_uuid uuid primary key,
  task_uuid          uuid not null,
  namespace          text not null,
  event              text not null,
  key                text not null,
  since              timestamptz not null default clock_timestamp(),
  due_at             timestamptz,
  ended_at           timestamptz,
  timed_out          boolean not null default false
);
comment on table tasker.event_waits is 'Which step waits, or waited, for which event. While it waits the step counts it as one more unmet dependency; a step that ends while it waits loses the row.';
comment on column tasker.event_waits.workflow_step_uuid is 'The step.';
comment on column tasker.event_waits.task_uuid is 'Its task.';
comment on column tasker.event_waits.namespace is 'Its namespace.';
comment on column tasker.event_waits.event is 'What it waits for.';
comment on column tasker.event_waits.key is 'And of what.';
comment on column tasker.event_waits.since is 'Since when.';
comment on column tasker.event_waits.due_at is 'How long at most; null: for ever.';
comment on column tasker.event_waits.ended_at is 'When the wait was over; null: it waits.';
comment on column tasker.event_waits.timed_out is 'It was over because the event did not come in time.';
create index event_waits_event_idx on tasker.event_waits (namespace, event, key);
comment on index tasker.event_waits_event_idx is 'Who waits for it, or did?';
create index event_waits_task_uuid_idx on tasker.event_waits (task_uuid);
comment on index tasker.event_waits_task_uuid_idx is 'What does a task wait for?';

alter table tasker.timers drop constraint timers_kind_check;
alter table tasker.timers add constraint timers_kind_check
  check (kind in ('retry', 'drive', 'task_timeout', 'task_retry', 'requeue', 'breaker_cooldown', 'event_timeout'));
comment on column tasker.timers.kind is
  'retry: a backoff or the cooldown of a step is over; drive: look whether the task can move, or start it; task_timeout: the task took too long; task_retry: the backoff of a task is over; requeue: a step with a delay, or one held back by a breaker, may be queued; breaker_cooldown: a breaker may be tried; event_timeout: a step has waited long enough for an event.';
