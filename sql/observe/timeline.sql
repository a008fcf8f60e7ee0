create or replace view tasker.timeline as
select t.created_at as at, k.task_uuid, 'task' as kind, t.task_uuid as entity_uuid, k.name, t.from_state, t.to_state, t.event,
       t.sort_key, null::uuid as worker_uuid, t.processor_uuid, t.metadata ->> 'requested_by' as requested_by,
       t.metadata ->> 'reason' as reason, t.metadata
  from tasker.task_transitions t
  join tasker.tasks k on k.task_uuid = t.task_uuid
union all
select t.created_at, s.task_uuid, 'step', t.workflow_step_uuid, s.name, t.from_state, t.to_state, t.event,
       t.sort_key, (t.metadata ->> 'worker_uuid')::uuid, null, t.metadata ->> 'requested_by', t.metadata ->> 'reason', t.metadata
  from tasker.workflow_step_transitions t
  join tasker.workflow_steps s on s.workflow_step_uuid = t.workflow_step_uuid;
comment on view tasker.timeline is 'Every transition of tasks and steps: who did what, when.';
comment on column tasker.timeline.at is 'When.';
comment on column tasker.timeline.task_uuid is 'Task.';
comment on column tasker.timeline.kind is 'task or step.';
comment on column tasker.timeline.entity_uuid is 'The task or step.';
comment on column tasker.timeline.name is 'Its name.';
comment on column tasker.timeline.from_state is 'State before.';
comment on column tasker.timeline.to_state is 'State after.';
comment on column tasker.timeline.event is 'What happened.';
comment on column tasker.timeline.sort_key is 'Position in the log of the entity.';
comment on column tasker.timeline.worker_uuid is 'Worker, where one did it.';
comment on column tasker.timeline.processor_uuid is 'Processor, where one did it.';
comment on column tasker.timeline.requested_by is 'Who asked.';
comment on column tasker.timeline.reason is 'Why.';
comment on column tasker.timeline.metadata is 'Everything else.';
