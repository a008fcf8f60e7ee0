-- Steps say when they may start: when all they depend on is satisfied, the first of it, or all of it has ended.
alter table tasker.workflow_steps drop constraint workflow_steps_unmet_dependencies_check;
alter table tasker.workflow_steps add constraint unmet_dependencies_are_negative_by_a_rule_only
  check (unmet_dependencies >= 0 or (options ->> 'run_when') is not null);
comment on column tasker.workflow_steps.unmet_dependencies is
  'How many of its dependencies it still waits for; it may start at 0. With run_when any_satisfied: none of so many is satisfied yet, and below 0 more than enough are.';
create index workflow_steps_all_finished_idx on tasker.workflow_steps (task_uuid) where options ->> 'run_when' = 'all_finished';
comment on index tasker.workflow_steps_all_finished_idx is 'The steps of a task that run however the others end.';
alter table tasker.workflow_step_edges add column waived boolean;
comment on column tasker.workflow_step_edges.waived is 'It holds to_step up no more, although from_step has not ended.';
alter type tasker.task_facts add attribute cleans_up boolean;
