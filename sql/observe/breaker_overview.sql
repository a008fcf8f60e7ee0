create or replace view tasker.breaker_overview as
select b.tool, c.to_state as state, s.phase, b.failures, b.failure_threshold, b.cooldown, b.success_threshold, b.max_error_repeats,
       b.error_repeats, b.successes, b.cools_until, b.trial_step_uuid, b.trial_expires_at,
       (select count(*)::int from tasker.timers h where h.tool = b.tool and h.kind = 'requeue') as held_back_steps,
       c.created_at as state_since, b.created_at, b.circuit_breaker_uuid
  from tasker.circuit_breakers b
  join tasker.circuit_breaker_transitions c on c.circuit_breaker_uuid = b.circuit_breaker_uuid and c.most_recent
  join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state;
comment on view tasker.breaker_overview is 'One row a circuit breaker with its current state: what a person reads.';
comment on column tasker.breaker_overview.tool is 'The tool that it guards.';
comment on column tasker.breaker_overview.state is 'Current state.';
comment on column tasker.breaker_overview.phase is 'Canonical phase of that state.';
comment on column tasker.breaker_overview.failures is 'Failures in a row.';
comment on column tasker.breaker_overview.failure_threshold is 'So many open it.';
comment on column tasker.breaker_overview.cooldown is 'How long it stays open.';
comment on column tasker.breaker_overview.success_threshold is 'So many successful trials close it.';
comment on column tasker.breaker_overview.max_error_repeats is 'The same error repeated more often opens it; null: not looked at.';
comment on column tasker.breaker_overview.error_repeats is 'How often the same error came in a row.';
comment on column tasker.breaker_overview.successes is 'Successful trials so far.';
comment on column tasker.breaker_overview.cools_until is 'When a trial may be made.';
comment on column tasker.breaker_overview.trial_step_uuid is 'The step that makes the trial.';
comment on column tasker.breaker_overview.trial_expires_at is 'When another trial may be made.';
comment on column tasker.breaker_overview.held_back_steps is 'Steps that wait for it.';
comment on column tasker.breaker_overview.state_since is 'When it entered its state.';
comment on column tasker.breaker_overview.created_at is 'When it was configured first.';
comment on column tasker.breaker_overview.circuit_breaker_uuid is 'Key.';
