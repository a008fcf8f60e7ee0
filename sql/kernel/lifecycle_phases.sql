-- The canonical phases: the only thing about a state that the engine looks at besides its property flags.
insert into tasker.lifecycle_phases (phase, applies_to, ordinal, description) values
  ('pending',          'any',   1, 'Created; nothing was handed out or started yet.'),
  ('starting',         'any',   2, 'It is being set up; a task finds out what it can start with.'),
  ('enqueuing',        'task',  3, 'The task hands its ready steps to the queue.'),
  ('queued',           'step',  4, 'The step stands in a queue.'),
  ('running',          'any',   5, 'A worker holds the step; steps of the task are under way.'),
  ('reported_success', 'step',  6, 'A result is recorded and waits for orchestration.'),
  ('reported_failure', 'step',  7, 'A failure is recorded and waits for orchestration.'),
  ('evaluating',       'task',  8, 'The task decides what the new results mean.'),
  ('waiting',          'task',  9, 'Nothing can start before something under way ends.'),
  ('waiting_retry',    'any',  10, 'A failed step waits for its next attempt.'),
  ('blocked',          'task', 11, 'Failures prevent all progress; somebody must decide.'),
  ('succeeded',        'any',  12, 'Ended well.'),
  ('failed',           'any',  13, 'Ended in failure.'),
  ('cancelled',        'any',  14, 'Ended because somebody asked.'),
  ('resolved',         'any',  15, 'Ended by the decision of an operator.'),
  ('idle',             'worker', 16, 'The worker is ready and holds nothing.'),
  ('busy',             'worker', 17, 'The worker holds steps.'),
  ('paused',           'worker', 18, 'A supervisor has suspended the worker.'),
  ('unresponsive',     'worker', 19, 'The worker missed its heartbeats.'),
  ('ended',            'worker', 20, 'The worker does not come back.'),
  ('closed',           'circuit_breaker', 21, 'Requests are allowed.'),
  ('open',             'circuit_breaker', 22, 'Requests are refused until the cooldown is over.'),
  ('half_open',        'circuit_breaker', 23, 'One trial request is allowed.')
on conflict (phase) do update
  set applies_to = excluded.applies_to, ordinal = excluded.ordinal, description = excluded.description;
