create or replace view tasker.task_overview as
select t.task_uuid, t.namespace, t.name, t.version, t.vocabulary, c.to_state as state, s.phase, s.is_terminal,
       t.total_steps, t.pending_steps, t.in_flight_steps, t.waiting_retry_steps, t.satisfied_steps, t.failed_steps,
       t.priority, t.tags, t.correlation_id, t.parent_task_uuid, t.requested_by, t.context,
       t.created_at, t.started_at, t.completed_at, c.created_at as state_since, t.compensates_task_uuid,
       (select k.task_uuid from tasker.tasks k where k.compensates_task_uuid = t.task_uuid) as compensated_by
  from tasker.tasks t
  join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
  join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state;
comment on view tasker.task_overview is 'One row a task with its current state and progress: what a person reads.';
comment on column tasker.task_overview.task_uuid is 'Key.';
comment on column tasker.task_overview.namespace is 'Namespace.';
comment on column tasker.task_overview.name is 'Workflow.';
comment on column tasker.task_overview.version is 'Version of the template.';
comment on column tasker.task_overview.vocabulary is 'Vocabulary.';
comment on column tasker.task_overview.state is 'Current state.';
comment on column tasker.task_overview.phase is 'Canonical phase of that state.';
comment on column tasker.task_overview.is_terminal is 'Whether it has ended.';
comment on column tasker.task_overview.total_steps is 'Number of steps.';
comment on column tasker.task_overview.pending_steps is 'Not handed out yet.';
comment on column tasker.task_overview.in_flight_steps is 'Queued, running or reported.';
comment on column tasker.task_overview.waiting_retry_steps is 'Waiting for a retry.';
comment on column tasker.task_overview.satisfied_steps is 'Done.';
comment on column tasker.task_overview.failed_steps is 'Ended without success.';
comment on column tasker.task_overview.priority is 'Priority.';
comment on column tasker.task_overview.tags is 'Labels.';
comment on column tasker.task_overview.correlation_id is 'Correlation id.';
comment on column tasker.task_overview.parent_task_uuid is 'Parent task.';
comment on column tasker.task_overview.requested_by is 'Who asked for it.';
comment on column tasker.task_overview.context is 'Input.';
comment on column tasker.task_overview.created_at is 'Created.';
comment on column tasker.task_overview.started_at is 'Started.';
comment on column tasker.task_overview.completed_at is 'Ended.';
comment on column tasker.task_overview.state_since is 'When it entered its state.';
comment on column tasker.task_overview.compensates_task_uuid is 'The ended task whose completed steps this one undoes.';
comment on column tasker.task_overview.compensated_by is 'The task that undoes its completed steps.';
