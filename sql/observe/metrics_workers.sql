create or replace view tasker.metrics_workers as
select w.worker_uuid, w.name, w.vocabulary, c.to_state as state, s.phase, w.max_concurrent as capacity,
       coalesce(h.held_steps, 0)::int as held_steps, coalesce(h.held_steps, 0)::double precision / w.max_concurrent as utilisation,
       extract(epoch from tasker.clock() - w.last_heartbeat_at)::double precision as seconds_since_heartbeat, c.created_at as state_since
  from tasker.workers w
  join tasker.worker_transitions c on c.worker_uuid = w.worker_uuid and c.most_recent
  join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and not s.is_terminal
  left join (select k.worker_uuid, sum(k.open_steps) as held_steps from tasker.step_claims k group by k.worker_uuid) h
    on h.worker_uuid = w.worker_uuid;
comment on view tasker.metrics_workers is 'Utilisation of the workers that have not ended.';
comment on column tasker.metrics_workers.worker_uuid is 'The worker.';
comment on column tasker.metrics_workers.name is 'Its name.';
comment on column tasker.metrics_workers.vocabulary is 'The vocabulary of its lifecycle.';
comment on column tasker.metrics_workers.state is 'Its state.';
comment on column tasker.metrics_workers.phase is 'Canonical phase of that state.';
comment on column tasker.metrics_workers.capacity is 'How many steps it runs at once.';
comment on column tasker.metrics_workers.held_steps is 'How many it holds.';
comment on column tasker.metrics_workers.utilisation is 'The second by the first.';
comment on column tasker.metrics_workers.seconds_since_heartbeat is 'When it was last heard of.';
comment on column tasker.metrics_workers.state_since is 'When it entered its state.';
