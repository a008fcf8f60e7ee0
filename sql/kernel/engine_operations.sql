-- What the engine can do. A vocabulary says which event of its own each operation is.
insert into tasker.engine_operations (operation, applies_to, description) values
  ('enqueue',        'step', 'Every dependency is satisfied: hand the step to the queue.'),
  ('claim',          'step', 'A worker takes the step.'),
  ('report_success', 'step', 'A worker persists its result.'),
  ('report_failure', 'step', 'A worker persists its failure, or its lease ended.'),
  ('settle_success', 'step', 'Orchestration accepts a result.'),
  ('settle_failure', 'step', 'Orchestration decides what a failure means.'),
  ('retry_due',      'step', 'The backoff of a step is over.'),
  ('cancel_step',    'step', 'Somebody cancels the step or its task.'),
  ('resolve_step',   'step', 'An operator declares the step done.'),
  ('retry_step',     'step', 'An operator sends a failed step back to work.'),
  ('skip_step',      'step', 'An operator leaves the step out.'),
  ('advance',        'task', 'The task moves by itself as soon as a guard holds.'),
  ('cancel_task',    'task', 'Somebody cancels the task.'),
  ('give_up_task',   'task', 'An operator gives the task up.'),
  ('resolve_task',   'task', 'An operator declares the task done.'),
  ('reset_task',     'task', 'An operator starts a failed task again.'),
  ('take_over',      'task', 'The lease of the owning processor ended and another one takes the task.'),
  ('task_timeout',   'task', 'The task took too long.')
on conflict (operation) do update set applies_to = excluded.applies_to, description = excluded.description;
