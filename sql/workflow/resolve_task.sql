create or replace function tasker.resolve_task(p_task_uuid uuid, p_reason text, p_requested_by text) returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select tasker.command_task(p_task_uuid, 'resolve_task', p_reason, p_requested_by)
$$;
comment on function tasker.resolve_task(uuid, text, text) is 'Declares a blocked task done by hand (seed 004: ManualResolution).';
