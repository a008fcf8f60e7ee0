create or replace function tasker.open_waits(p_task_uuid uuid) returns int
language sql
stable
return (select count(*)::int from tasker.event_waits w where w.task_uuid = p_task_uuid and w.ended_at is null);
comment on function tasker.open_waits(uuid) is 'How many steps of a task wait for an event now.';
