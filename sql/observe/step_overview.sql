create or replace view tasker.step_overview as
select s.workflow_step_uuid, s.task_uuid, s.namespace, s.name, s.handler, c.to_state as state, x.phase, x.is_terminal,
       s.attempts, s.max_attempts, s.unmet_dependencies, s.arguments, s.worker_uuid, s.claim_uuid,
       k.lease_expires_at,
       case when x.phase = 'waiting_retry' then (c.metadata ->> 'next_retry_at')::timestamptz end as next_retry_at,
       case when x.satisfies_dependencies then coalesce(r.metadata -> 'result', r.metadata -> 'result_payload') end as result,
       case when not x.satisfies_dependencies then r.metadata -> 'error' end as last_error,
       s.created_at, c.created_at as state_since, s.ordinal, s.left_out,
       case when w.event is not null then format('event %s of %s', w.event, w.key)
            when h.task_uuid is not null then format('task %s', h.task_uuid) end as waits_for
  from tasker.workflow_steps s
  join tasker.workflow_step_transitions c on c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent
  join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
  left join tasker.step_claims k on k.claim_uuid = s.claim_uuid
  left join tasker.event_waits w on w.workflow_step_uuid = s.workflow_step_uuid and w.ended_at is null
  left join tasker.child_tasks h on h.workflow_step_uuid = s.workflow_step_uuid and h.claim_uuid = s.claim_uuid
  left join tasker.workflow_step_transitions r on r.workflow_step_transition_uuid = s.result_transition_uuid;
comment on view tasker.step_overview is 'One row a step with its current state, claim and latest result: what a person reads.';
comment on column tasker.step_overview.workflow_step_uuid is 'Key.';
comment on column tasker.step_overview.task_uuid is 'Task.';
comment on column tasker.step_overview.namespace is 'Namespace.';
comment on column tasker.step_overview.name is 'Name.';
comment on column tasker.step_overview.handler is 'What a worker runs.';
comment on column tasker.step_overview.state is 'Current state.';
comment on column tasker.step_overview.phase is 'Canonical phase of that state.';
comment on column tasker.step_overview.is_terminal is 'Whether it has ended.';
comment on column tasker.step_overview.attempts is 'How often it was claimed.';
comment on column tasker.step_overview.max_attempts is 'How often it may be.';
comment on column tasker.step_overview.unmet_dependencies is 'Dependencies still missing.';
comment on column tasker.step_overview.arguments is 'Arguments.';
comment on column tasker.step_overview.worker_uuid is 'Worker of the latest attempt.';
comment on column tasker.step_overview.claim_uuid is 'Claim that holds it now.';
comment on column tasker.step_overview.lease_expires_at is 'When that claim ends.';
comment on column tasker.step_overview.next_retry_at is 'When its next attempt is due.';
comment on column tasker.step_overview.result is 'Its result; of a big one payload_uuid, size and sha256 (load_result).';
comment on column tasker.step_overview.last_error is 'Its latest error, unless it succeeded since.';
comment on column tasker.step_overview.created_at is 'Created.';
comment on column tasker.step_overview.state_since is 'When it entered its state.';
comment on column tasker.step_overview.ordinal is 'Position in the workflow.';
comment on column tasker.step_overview.left_out is 'Its condition did not hold, or that of a step it depends on: it holds nobody up.';
comment on column tasker.step_overview.waits_for is 'What it waits for besides its dependencies.';
