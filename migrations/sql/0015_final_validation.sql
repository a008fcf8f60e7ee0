-- A task may wait for a verdict on the whole before it counts as done (seed 000: final validation).
alter table tasker.tasks add column final_validation boolean not null default false;
comment on column tasker.tasks.final_validation is 'Its last step done, the task waits until pass_validation or fail_validation says what was found.';
alter type tasker.task_facts add attribute awaits_validation boolean;
