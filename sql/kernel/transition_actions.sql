-- What a transition causes, in the same transaction. The engine decides by properties of the transition, so that a
-- vocabulary can't forget one.
insert into tasker.transition_actions (action, applies_to, runs_when, implemented_by, description) values
  ('publish_transition_event', 'any',  'rows are appended to a log', 'record_task_changes, record_step_changes',
   'Writes the change feed and, if the namespace wants it, sends tasker_task_state or tasker_step_state.'),
  ('update_task_completion',   'task', 'the task starts or reaches a terminal state', 'count_moves',
   'Sets started_at and completed_at; takes completed_at back when a task is reset.'),
  ('update_step_results',      'step', 'the rule reports a result, or an operator gives one', 'apply_reports',
   'Points the step at the log row that holds its result and releases the claim.'),
  ('trigger_step_discovery',   'step', 'the new state satisfies dependencies', 'release_dependents',
   'Counts the dependency down in every dependent; those at zero are ready.'),
  ('error_state_cleanup',      'any',  'the new state is terminal without success', 'release_claims, cancel_open_steps',
   'Takes the claim away, so that a late report is refused; a task that ends so cancels what is still under way.'),
  ('schedule_retry',           'step', 'the new phase is waiting_retry', 'schedule_retries',
   'Sets the timer that ends the backoff.'),
  ('enqueue_ready_steps',      'task', 'the task enters phase enqueuing', 'enqueue_steps',
   'Moves its ready steps to the queue of the namespace and signals workers.'),
  ('create_step_result_audit', 'step', 'the rule reports a result', 'create_step_result_audit',
   'Writes the audit row.'),
  ('consult_circuit_breaker',  'step', 'a result is settled', 'record_step_results',
   'Counts the result for the circuit breaker of the tool (seeds 001, 002).')
on conflict (action) do update
  set applies_to = excluded.applies_to, runs_when = excluded.runs_when,
      implemented_by = excluded.implemented_by, description = excluded.description;
