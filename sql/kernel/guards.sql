-- The guard catalogue. Each guard is the function tasker.guard_<name>; guard_holds dispatches to it.
insert into tasker.guards (guard, applies_to, description) values
  ('always',                 'any',  'No condition.'),
  ('dependencies_satisfied', 'step', 'Every step it depends on is satisfied.'),
  ('not_in_progress',        'step', 'No worker holds it.'),
  ('startable',              'step', 'Every dependency is satisfied and no worker holds it.'),
  ('work_succeeded',         'step', 'The reported work succeeded.'),
  ('work_failed',            'step', 'The reported work failed.'),
  ('retries_left',           'step', 'The failure is not permanent, the step is retryable and has attempts left.'),
  ('can_be_retried',         'step', 'No worker holds it, so an operator may send it back to work.'),
  ('no_steps',               'task', 'The task has no steps.'),
  ('has_ready_steps',        'task', 'At least one step can be handed out now.'),
  ('no_ready_steps',         'task', 'No step can be handed out now.'),
  ('enqueue_failed',         'task', 'The queue did not take the ready steps.'),
  ('steps_enqueued',         'task', 'Every ready step is in the queue.'),
  ('batch_finished',         'task', 'No step is under way.'),
  ('has_new_results',        'task', 'Results were settled that the task has not evaluated yet.'),
  ('only_retries_left',      'task', 'Steps wait for a retry, and nothing else is under way or ready.'),
  ('retries_over',           'task', 'A step is ready, or no retry is waited for any more.'),
  ('dependencies_ready',     'task', 'A step is ready, or everything that can run has run.'),
  ('all_steps_satisfied',    'task', 'Every step is satisfied.'),
  ('blocked_by_failures',    'task', 'Steps failed and nothing that is left can start.'),
  ('not_blocked',            'task', 'Something can move again.')
on conflict (guard) do update set applies_to = excluded.applies_to, description = excluded.description;
