-- What a template marks as sensitive stands in a table of its own, which nobody but the owner reads. Everywhere else stands a mark,
-- so that no view, log, export or error has to think of it.

create table tasker.sensitive_values (
  entity_uuid uuid not null,
  part        text not null check (part in ('context', 'arguments', 'result', 'checkpoint')),
  task_uuid   uuid,
  namespace   text not null,
  hidden      jsonb not null check (jsonb_typeof(hidden) = 'object'),
  created_at  timestamptz not null default clock_timestamp(),
  primary key (entity_uuid, part)
);
comment on table tasker.sensitive_values is 'The values that templates mark as sensitive. Whoever claims a step gets them; nobody reads this table.';
comment on column tasker.sensitive_values.entity_uuid is
  'context: the task; arguments: the step of the template, or of the task if it has no template; result: the log row; checkpoint: the step.';
comment on column tasker.sensitive_values.part is 'Where the values belong.';
comment on column tasker.sensitive_values.task_uuid is 'The task; null for arguments of templates.';
comment on column tasker.sensitive_values.namespace is 'Namespace.';
comment on column tasker.sensitive_values.hidden is 'Value by key or JSON Pointer; the empty key is the whole.';
comment on column tasker.sensitive_values.created_at is 'When they were stored.';
create index sensitive_values_task_uuid_idx on tasker.sensitive_values (task_uuid) where task_uuid is not null;
comment on index tasker.sensitive_values_task_uuid_idx is 'What belongs to a task?';

alter table tasker.tasks add column sensitive text[];
comment on column tasker.tasks.sensitive is 'Keys or JSON Pointers of the context whose values stand in sensitive_values; null: none.';
alter table tasker.named_steps add column sensitive text[], add column sensitive_result boolean not null default false;
comment on column tasker.named_steps.sensitive is 'Keys or JSON Pointers of the arguments whose values stand in sensitive_values; null: none.';
comment on column tasker.named_steps.sensitive_result is 'Its results and checkpoints stand in sensitive_values.';
alter table tasker.workflow_steps add column sensitive text[], add column sensitive_result boolean not null default false;
comment on column tasker.workflow_steps.sensitive is 'Keys or JSON Pointers of the arguments whose values stand in sensitive_values; null: none.';
comment on column tasker.workflow_steps.sensitive_result is 'Its results and checkpoints stand in sensitive_values.';

-- A digest of what is easily guessed tells it to whoever may read digests.
create table tasker.hash_salt (
  singleton boolean primary key default true check (singleton),
  salt      text not null
);
comment on table tasker.hash_salt is 'Goes into digests of requests that may hold sensitive values.';
comment on column tasker.hash_salt.singleton is 'There is one row.';
comment on column tasker.hash_salt.salt is 'Random, made when it was installed.';
insert into tasker.hash_salt (salt) values (gen_random_uuid()::text || gen_random_uuid()::text);
