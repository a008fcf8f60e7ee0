-- Pages of tasks, newest first. Both grow with tasks, not with steps: a step's log has no index that names a state.
create index task_transitions_state_idx on tasker.task_transitions (namespace, to_state, task_uuid) where most_recent = true;
comment on index tasker.task_transitions_state_idx is 'The newest tasks of a namespace in a state.';
create index tasks_name_idx on tasker.tasks (namespace, name, task_uuid);
comment on index tasker.tasks_name_idx is 'The newest tasks of a workflow.';
