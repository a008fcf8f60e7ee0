-- Tasks that are created by the clock.
create table tasker.schedules (
  namespace      text not null references tasker.task_namespaces,
  schedule       text not null check (length(schedule) between 1 and 200),
  cron           text not null,
  time_zone      text not null,
  template       text not null,
  version        text,
  vocabulary     text,
  context        jsonb not null default '{}',
  tags           jsonb not null default '{}',
  priority       int not null default 0,
  catch_up       text not null check (catch_up in ('latest', 'all', 'none')),
  overlap        text not null check (overlap in ('allow', 'skip')),
  requested_by   text,
  created_at     timestamptz not null default clock_timestamp(),
  paused_at      timestamptz,
  next_due_at    timestamptz,
  last_due_at    timestamptz,
  last_task_uuid uuid,
  last_refusal   text,
  primary key (namespace, schedule)
);
comment on table tasker.schedules is 'What creates tasks by the clock: a cron expression in a time zone and what create_task is to be asked for. tick() does it.';
comment on column tasker.schedules.namespace is 'Where the tasks are created.';
comment on column tasker.schedules.schedule is 'Name, unique in its namespace.';
comment on column tasker.schedules.cron is 'When: minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly, @monthly, @yearly.';
comment on column tasker.schedules.time_zone is 'Whose clock is meant.';
comment on column tasker.schedules.template is 'Template of the tasks.';
comment on column tasker.schedules.version is 'Its version; null: the newest when the time comes.';
comment on column tasker.schedules.vocabulary is 'Vocabulary of the tasks; null: that of the template.';
comment on column tasker.schedules.context is 'Their context; scheduled_for is added to it.';
comment on column tasker.schedules.tags is 'Their tags; schedule is added to them.';
comment on column tasker.schedules.priority is 'Their priority.';
comment on column tasker.schedules.catch_up is 'Of times that passed while nobody ticked: latest makes one task for the newest, all one for each, none none that is over a minute late.';
comment on column tasker.schedules.overlap is 'Whether a task is created while the one before is not finished: allow, or skip.';
comment on column tasker.schedules.requested_by is 'Who asked for it; the tasks carry the name.';
comment on column tasker.schedules.created_at is 'Since when.';
comment on column tasker.schedules.paused_at is 'Since when it is paused.';
comment on column tasker.schedules.next_due_at is 'When its next time comes; null while it is paused, or when none comes.';
comment on column tasker.schedules.last_due_at is 'The newest time that was dealt with.';
comment on column tasker.schedules.last_task_uuid is 'The newest task, created or found.';
comment on column tasker.schedules.last_refusal is 'Why no task could be created the last time.';
comment on column tasker.rejected_transitions.entity_kind is 'task, step, worker, message, command or schedule.';
create index schedules_next_due_at_idx on tasker.schedules (next_due_at) where next_due_at is not null;
comment on index tasker.schedules_next_due_at_idx is 'Whose time has come?';
