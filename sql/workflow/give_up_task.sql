create or replace function tasker.give_up_task(p_task_uuid uuid, p_reason text, p_requested_by text) returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select tasker.command_task(p_task_uuid, 'give_up_task', p_reason, p_requested_by)
$$;
comment on function tasker.give_up_task(uuid, text, text) is 'Gives a blocked task up: it ends in failure. reset_task can start it again.';
