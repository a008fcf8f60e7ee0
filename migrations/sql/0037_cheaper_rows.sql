-- Every step writes its row three times again, and that of its task once or more. Without room on the page the new version goes to another one,
-- and every index gets an entry for it: so it was with a quarter of the tasks and a tenth of the steps. New pages have room; old ones stay as they are.
alter table tasker.tasks set (fillfactor = 50);
alter table tasker.workflow_steps set (fillfactor = 50);

comment on column tasker.tasks.request_hash is 'sha256 of the request, to tell a repetition from another request with the same idempotency key; null without a key.';
