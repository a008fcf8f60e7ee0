-- The time of the acceptance checks is limited here too, not only by the worker that runs them.

alter table tasker.workflow_steps add column validation_due_at timestamptz;
comment on column tasker.workflow_steps.validation_due_at is 'While its result is validated: when that has taken too long.';
