-- Tasks of which there is to be one at a time, and starts that are pushed back.
alter table tasker.tasks add column unique_key text;
comment on column tasker.tasks.unique_key is 'What there is to be one task of; null: nothing.';

create table tasker.unique_keys (
  namespace  text not null,
  unique_key text not null,
  task_uuid  uuid not null,
  taken_at   timestamptz not null,
  primary key (namespace, unique_key)
);
comment on table tasker.unique_keys is 'The newest task of each unique key: whoever asks for another one looks at it, under the lock of this row.';
comment on column tasker.unique_keys.namespace is 'Namespace.';
comment on column tasker.unique_keys.unique_key is 'The key.';
comment on column tasker.unique_keys.task_uuid is 'The task that was created last under it.';
comment on column tasker.unique_keys.taken_at is 'When that was asked for first, by tasker.clock().';

create type tasker.unique_rule as (
  window_length interval,
  debounce      interval,
  longest_wait  interval
);
comment on type tasker.unique_rule is
  'How a request asks to be the only one: while another task runs (all null), within a time after it was created, or by pushing back one that has not started, up to a longest wait.';

create type tasker.submitted_task as (
  task_uuid uuid,
  outcome   text
);
comment on type tasker.submitted_task is
  'What became of a request. created: a new task; found: the task that its idempotency key made before; duplicate: nothing was created, since this task stands for its unique key; pushed_back: the same, and that task starts later, with the context of this request.';

create type tasker.unique_answer as (
  asked     uuid,
  task_uuid uuid,
  outcome   text
);
comment on type tasker.unique_answer is 'A task that is not created, since another one stands for its unique key, and that one.';
