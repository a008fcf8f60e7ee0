-- When and in what order work starts: start times, delays, priorities, paused namespaces.
alter table tasker.tasks add column start_at timestamptz;
comment on column tasker.tasks.start_at is 'It starts then and not before; null: at once, or when somebody starts it.';
alter table tasker.named_steps add column delay interval;
comment on column tasker.named_steps.delay is 'How long it waits once everything it depends on is satisfied; null: not at all.';
alter table tasker.workflow_steps add column delay interval;
comment on column tasker.workflow_steps.delay is 'How long it waits before its first attempt, once everything it depends on is satisfied; null: not at all.';

alter table tasker.capability_queues rename to work_queues;
alter table tasker.work_queues add column priority smallint not null default 0 check (priority between -9 and 9);
alter table tasker.work_queues drop constraint capability_queues_pkey;
alter table tasker.work_queues add primary key (namespace, requires, priority);
alter table tasker.work_queues rename constraint capability_queues_queue_name_key to work_queues_queue_name_key;
alter table tasker.work_queues rename constraint capability_queues_namespace_fkey to work_queues_namespace_fkey;
comment on table tasker.work_queues is 'Queues beside the plain one of a namespace: for steps that ask for capabilities, which only workers who have them ever see, and for each priority that is used.';
comment on column tasker.work_queues.priority is 'Priority of the tasks whose steps stand in it, from -9 to 9.';

alter table tasker.task_namespaces add column paused_at timestamptz;
comment on column tasker.task_namespaces.paused_at is 'Since when its steps are handed to no worker (pause_namespace).';
comment on column tasker.timers.kind is
  'retry: a backoff or the cooldown of a step is over; drive: look whether the task can move, or start it; task_timeout: the task took too long; task_retry: the backoff of a task is over; requeue: a step with a delay, or one held back by a breaker, may be queued; breaker_cooldown: a breaker may be tried.';
create index timers_requeue_idx on tasker.timers (workflow_step_uuid) where kind = 'requeue';
comment on index tasker.timers_requeue_idx is 'Until when does this step wait to be queued?';
