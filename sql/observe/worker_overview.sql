create or replace view tasker.worker_overview as
select w.worker_uuid, w.name, w.vocabulary, c.to_state as state, s.phase, s.is_terminal, w.namespaces, w.capabilities, w.max_concurrent,
       (select coalesce(sum(k.open_steps), 0)::int from tasker.step_claims k where k.worker_uuid = w.worker_uuid) as held_steps,
       w.registered_at, w.last_heartbeat_at, w.heartbeat_interval, w.max_missed_heartbeats, w.shutdown_requested_at,
       c.created_at as state_since, j.task_uuid as job_uuid, w.handlers
  from tasker.workers w
  join tasker.worker_transitions c on c.worker_uuid = w.worker_uuid and c.most_recent
  join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
  left join tasker.job_workers j on j.worker_uuid = w.worker_uuid;
comment on view tasker.worker_overview is 'One row a worker with its current state and load: what a person reads.';
comment on column tasker.worker_overview.worker_uuid is 'Key.';
comment on column tasker.worker_overview.name is 'Name.';
comment on column tasker.worker_overview.vocabulary is 'The vocabulary of its lifecycle.';
comment on column tasker.worker_overview.state is 'Current state.';
comment on column tasker.worker_overview.phase is 'Canonical phase of that state.';
comment on column tasker.worker_overview.is_terminal is 'Whether it has ended.';
comment on column tasker.worker_overview.namespaces is 'Whose steps it works for; null: all.';
comment on column tasker.worker_overview.capabilities is 'What it can do.';
comment on column tasker.worker_overview.max_concurrent is 'Most steps that it holds at once.';
comment on column tasker.worker_overview.held_steps is 'How many it holds.';
comment on column tasker.worker_overview.registered_at is 'When it was registered.';
comment on column tasker.worker_overview.last_heartbeat_at is 'When it was last heard of.';
comment on column tasker.worker_overview.heartbeat_interval is 'Time between its signs of life.';
comment on column tasker.worker_overview.max_missed_heartbeats is 'How many may be missed.';
comment on column tasker.worker_overview.shutdown_requested_at is 'When it was asked to end.';
comment on column tasker.worker_overview.state_since is 'When it entered its state.';
comment on column tasker.worker_overview.handlers is 'The handlers that it has; null: any.';
comment on column tasker.worker_overview.job_uuid is 'The job to which it is allocated (seed 003).';
