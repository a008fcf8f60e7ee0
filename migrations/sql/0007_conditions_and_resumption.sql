-- Steps with a condition, timeouts of tools, tasks that go on where a cancelled one stopped.

alter table tasker.named_steps
  add column condition jsonpath,
  add column skips_dependents boolean not null default false;
comment on column tasker.named_steps.condition is 'Judged over {"context", "inputs"} when its dependencies are satisfied: unless it is true, the step is left out. Null: it always runs.';
comment on column tasker.named_steps.skips_dependents is 'When it is left out, so is everything that depends on it.';
alter table tasker.workflow_steps
  add column condition jsonpath,
  add column skips_dependents boolean not null default false,
  add column left_out boolean not null default false;
comment on column tasker.workflow_steps.condition is 'Judged over {"context", "inputs"} when its dependencies are satisfied: unless it is true, the step is left out. Null: it always runs.';
comment on column tasker.workflow_steps.skips_dependents is 'When it is left out, so is everything that depends on it.';
comment on column tasker.workflow_steps.left_out is 'Its condition did not hold, or it depends on such a step: it holds nobody up, as if it were done.';

-- Seed 002, Timeout Values: of the step, else of its tool, else 300 s.
create table tasker.tools (
  tool    text primary key check (tool <> ''),
  timeout interval check (timeout > interval '0')
);
comment on table tasker.tools is 'What holds for every step that uses a tool.';
comment on column tasker.tools.tool is 'The tool; for steps that name none, their handler.';
comment on column tasker.tools.timeout is 'How long one attempt may take where the step does not say it; null: 300 s.';
alter table tasker.named_steps alter column timeout drop not null;
comment on column tasker.named_steps.timeout is 'How long one attempt may take; null: what its tool has, or 300 s.';

alter table tasker.tasks add column resumes_task_uuid uuid references tasker.tasks;
comment on column tasker.tasks.resumes_task_uuid is 'The ended task whose unfinished steps it runs.';
create unique index tasks_resumes_task_uuid_idx on tasker.tasks (resumes_task_uuid) where resumes_task_uuid is not null;
comment on index tasker.tasks_resumes_task_uuid_idx is 'A task is resumed once.';
comment on table tasker.workflow_step_edges is 'to_step depends on from_step. Both belong to task_uuid, except where a task resumes another: there from_step may be a finished step of that one.';
comment on column tasker.workflow_step_edges.task_uuid is 'The task of to_step.';
