create or replace function tasker.skip_step(p_step_uuid uuid, p_reason text, p_requested_by text) returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select tasker.command_step(p_step_uuid, array['skip_step'], p_reason, p_requested_by)
$$;
comment on function tasker.skip_step(uuid, text, text) is 'Leaves a step out, where its vocabulary knows skipping.';
