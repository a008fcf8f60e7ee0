-- Tasks that undo what another one did before it failed.
alter table tasker.tasks add column compensates_task_uuid uuid;
comment on column tasker.tasks.compensates_task_uuid is 'The ended task whose completed steps this one undoes; null: none.';
create unique index tasks_compensates_task_uuid_idx on tasker.tasks (compensates_task_uuid) where compensates_task_uuid is not null;
comment on index tasker.tasks_compensates_task_uuid_idx is 'A task is undone once.';
