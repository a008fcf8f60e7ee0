-- Steps that are more than one call of their handler, and the engine as one of those who take steps.
alter table tasker.named_steps add column options jsonb check (jsonb_typeof(options) = 'object');
comment on column tasker.named_steps.options is 'What makes it more than one call of its handler, as the template has it; null for a plain step.';
alter table tasker.workflow_steps add column options jsonb;
comment on column tasker.workflow_steps.options is 'What makes it more than one call of its handler, as its definition has it; null for a plain step.';
alter table tasker.step_claims alter column worker_uuid drop not null;
comment on column tasker.step_claims.worker_uuid is 'The worker; null: the engine itself, which runs the steps that need no handler.';
