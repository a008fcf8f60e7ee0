-- What moves change in the progress counters of a task is counted once and passed on.

create type tasker.task_progress as (
  task_uuid       uuid,
  pending         int,
  in_flight       int,
  waiting_retry   int,
  satisfied       int,
  failed          int,
  failed_critical int
);
comment on type tasker.task_progress is 'What is added to the progress counters of one task.';

-- It answers rows of that type now; the tree makes it again.
drop function if exists tasker.progress_of(tasker.step_move[]);
