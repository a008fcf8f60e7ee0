-- Limits: how many steps run at once, and how many start in a time, for each tool, namespace and template.
create table tasker.limits (
  limit_uuid  uuid primary key default tasker.uuid_generate_v7(),
  scope       text not null check (scope in ('tool', 'namespace', 'template')),
  name        text not null check (name <> ''),
  namespace   text references tasker.task_namespaces,
  breadth     smallint not null check (breadth between 1 and 4),
  concurrency int check (concurrency between 1 and 10000),
  rate        int check (rate between 1 and 10000),
  per         interval check (per > interval '0'),
  created_at  timestamptz not null default clock_timestamp(),
  constraint limits_key unique nulls not distinct (scope, name, namespace),
  constraint a_limit_limits_something check (concurrency is not null or rate is not null),
  constraint a_rate_is_per_something check ((rate is null) = (per is null)),
  constraint only_tools_are_shared check (scope = 'tool' or namespace is not null)
);
comment on table tasker.limits is 'How many steps of a tool, a namespace or a template run at once, and how many start in a time.';
comment on column tasker.limits.limit_uuid is 'Key.';
comment on column tasker.limits.scope is 'What it holds for: tool, namespace or template.';
comment on column tasker.limits.name is 'Which tool, namespace or template.';
comment on column tasker.limits.namespace is 'The namespace whose steps it counts; null: those of all.';
comment on column tasker.limits.breadth is 'Slots of several limits are taken in this order: 1 a template, 2 a tool within a namespace, 3 a namespace, 4 a tool of all.';
comment on column tasker.limits.concurrency is 'So many run at once; null: any number.';
comment on column tasker.limits.rate is 'So many start in any stretch of time as long as per; null: any number.';
comment on column tasker.limits.per is 'How long that stretch is.';
comment on column tasker.limits.created_at is 'When it was set first.';

create table tasker.limit_slots (
  limit_uuid         uuid not null references tasker.limits on delete cascade,
  kind               text not null check (kind in ('concurrency', 'rate')),
  number             int not null,
  workflow_step_uuid uuid,
  reserved_until     timestamptz,
  free_at            timestamptz not null default '-infinity',
  primary key (limit_uuid, kind, number),
  constraint only_a_step_has_a_reservation check (reserved_until is null or workflow_step_uuid is not null)
);
comment on table tasker.limit_slots is 'What a limit has to give: one row for each step that may run at once, and for each that may start in its time. A claim takes a free one with skip locked, so nobody waits for anybody and no two take the same.';
comment on column tasker.limit_slots.limit_uuid is 'Limit.';
comment on column tasker.limit_slots.kind is 'concurrency: taken while a step is held by a worker; rate: taken by the start of a step, until free_at.';
comment on column tasker.limit_slots.number is 'From 1. Beyond what the limit says now: taken before it was lowered, and gone when it is given back.';
comment on column tasker.limit_slots.workflow_step_uuid is 'The step that has it.';
comment on column tasker.limit_slots.reserved_until is 'The step stands in its queue and has it until then; null: the step runs, or nobody has it.';
comment on column tasker.limit_slots.free_at is 'When a step may start on it again; infinity: given back while the limit has too many, so it may have to go.';
create index limit_slots_open_idx on tasker.limit_slots (limit_uuid, kind, free_at, number) where workflow_step_uuid is null;
comment on index tasker.limit_slots_open_idx is 'Which slot may be taken?';
create index limit_slots_workflow_step_uuid_idx on tasker.limit_slots (workflow_step_uuid) where workflow_step_uuid is not null;
comment on index tasker.limit_slots_workflow_step_uuid_idx is 'What does this step hold?';

create table tasker.limit_waits (
  workflow_step_uuid uuid not null,
  sort_key           int not null,
  limit_uuid         uuid not null,  -- without a foreign key, whose checks would make the limit a row that all lock
  task_uuid          uuid not null,
  namespace          text not null,
  place              timestamptz not null,
  moves              int not null default 0,
  created_at         timestamptz not null default clock_timestamp(),
  primary key (workflow_step_uuid, sort_key)
);
comment on table tasker.limit_waits is 'Steps that a worker would have taken, if a limit had had a slot for them. They stand in no queue until one is reserved for them.';
comment on column tasker.limit_waits.workflow_step_uuid is 'Step.';
comment on column tasker.limit_waits.sort_key is 'Position in its log: it waits in that visit of its state only.';
comment on column tasker.limit_waits.limit_uuid is 'The first of its limits that had no slot.';
comment on column tasker.limit_waits.task_uuid is 'Its task.';
comment on column tasker.limit_waits.namespace is 'Its namespace.';
comment on column tasker.limit_waits.place is 'Its place in the line: since when it may be claimed, a minute earlier for each step of priority.';
comment on column tasker.limit_waits.moves is 'How often it had a slot of one limit and none of another.';
comment on column tasker.limit_waits.created_at is 'Since when it waits.';
create index limit_waits_line_idx on tasker.limit_waits (limit_uuid, place);
comment on index tasker.limit_waits_line_idx is 'Who is next?';

alter table tasker.timers drop constraint timers_kind_check;
alter table tasker.timers add constraint timers_kind_check
  check (kind in ('retry', 'drive', 'task_timeout', 'task_retry', 'requeue', 'breaker_cooldown', 'event_timeout', 'limit'));
alter table tasker.timers add column limit_uuid uuid;
comment on column tasker.timers.limit_uuid is 'The limit, for timers of limits.';
comment on column tasker.timers.kind is
  'retry: a backoff or the cooldown of a step is over; drive: look whether the task can move, or start it; task_timeout: the task took too long; task_retry: the backoff of a task is over; requeue: a step with a delay, or one held back by a breaker, may be queued; breaker_cooldown: a breaker may be tried; event_timeout: a step has waited long enough for an event; limit: a slot of a limit for which steps wait may be free.';
create index timers_limit_uuid_idx on tasker.timers (limit_uuid) where limit_uuid is not null;
comment on index tasker.timers_limit_uuid_idx is 'When is this limit looked at next?';
