create or replace function tasker.queue_priority(p_priority int) returns smallint
language sql
immutable
return least(greatest(p_priority, -9), 9)::smallint;
comment on function tasker.queue_priority(int) is 'The priority by which steps of a task are queued: what is beyond -9 or 9 counts as that.';
