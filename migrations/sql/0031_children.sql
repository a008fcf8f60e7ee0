-- Steps that run a task and wait for its end.
create table tasker.child_tasks (
  task_uuid          uuid primary key,
  workflow_step_uuid uuid not null,
  claim_uuid         uuid not null,
  on_parent_cancel   text not null check (on_parent_cancel in ('cancel', 'leave')),
  created_at         timestamptz not null default clock_timestamp(),
  unique (workflow_step_uuid, claim_uuid)
);
comment on table tasker.child_tasks is 'Which task was created by which step, for which attempt. While the step is held under that claim it waits for the task; when it is not any more, the task is cancelled or left.';
comment on column tasker.child_tasks.task_uuid is 'The task; its parent_task_uuid is the task of the step.';
comment on column tasker.child_tasks.workflow_step_uuid is 'The step that runs it.';
comment on column tasker.child_tasks.claim_uuid is 'The attempt: the claim under which the engine holds the step.';
comment on column tasker.child_tasks.on_parent_cancel is 'What becomes of the task when the step ends before it: cancel or leave.';
comment on column tasker.child_tasks.created_at is 'When.';

alter table tasker.timers drop constraint timers_kind_check;
alter table tasker.timers add constraint timers_kind_check
  check (kind in ('retry', 'drive', 'task_timeout', 'task_retry', 'requeue', 'breaker_cooldown', 'event_timeout', 'limit', 'cancel_child'));
comment on column tasker.timers.kind is
  'retry: a backoff or the cooldown of a step is over; drive: look whether the task can move, or start it; task_timeout: the task took too long; task_retry: the backoff of a task is over; requeue: a step with a delay, or one held back by a breaker, may be queued; breaker_cooldown: a breaker may be tried; event_timeout: a step has waited long enough for an event; limit: a slot of a limit for which steps wait may be free; cancel_child: the step that ran this task does not wait for it any more.';
