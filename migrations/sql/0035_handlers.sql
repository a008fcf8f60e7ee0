-- Workers name the handlers that they have, and leave the steps of others where those find them.
alter table tasker.workers add column handlers text[];
comment on column tasker.workers.handlers is 'The handlers that it has: it is given no step of another one; null: any.';

create table tasker.handler_waits (
  workflow_step_uuid uuid not null,
  sort_key           int not null,
  task_uuid          uuid not null,
  namespace          text not null,
  handler            text not null,
  requires           text[] not null,
  priority           smallint not null,
  left_by            uuid not null,
  created_at         timestamptz not null default clock_timestamp(),
  primary key (workflow_step_uuid, sort_key)
);
comment on table tasker.handler_waits is 'Steps that stood in a queue until a worker came that does not have their handler. Workers that have it take them from here, and look here first.';
comment on column tasker.handler_waits.workflow_step_uuid is 'Step.';
comment on column tasker.handler_waits.sort_key is 'Position in its log: it waits in that visit of its state only.';
comment on column tasker.handler_waits.task_uuid is 'Its task.';
comment on column tasker.handler_waits.namespace is 'Its namespace.';
comment on column tasker.handler_waits.handler is 'The handler.';
comment on column tasker.handler_waits.requires is 'Capabilities that it asks for.';
comment on column tasker.handler_waits.priority is 'Priority of its task.';
comment on column tasker.handler_waits.left_by is 'The worker without that handler.';
comment on column tasker.handler_waits.created_at is 'Since when it waits here.';
create index handler_waits_handler_idx on tasker.handler_waits (namespace, handler, created_at);
comment on index tasker.handler_waits_handler_idx is 'What waits for a handler?';
