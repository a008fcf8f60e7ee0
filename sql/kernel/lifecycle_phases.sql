-- The canonical phases: the only thing about a state that the engine looks at besides its property flags.
insert into tasker.lifecycle_phases (phase, applies_to, ordinal, description) values
  ('pending',          'any',   1, 'Created; nothing was handed out or started yet.'),
  ('starting',         'task',  2, 'The task finds out what it can start with.'),
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
  ('resolved',         'any',  15, 'Ended by the decision of an operator.')
on conflict (phase) do update
  set applies_to = excluded.applies_to, ordinal = excluded.ordinal, description = excluded.description;
