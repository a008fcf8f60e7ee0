create or replace function tasker.lock_tasks(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from tasker.tasks t where t.task_uuid = any (p_task_uuids) order by t.task_uuid for no key update;
end
$$;
comment on function tasker.lock_tasks(uuid[]) is
  'Locks tasks in the fixed order. Tasks first, then their steps; state is read in a later statement, so that it is the state under the lock.';
