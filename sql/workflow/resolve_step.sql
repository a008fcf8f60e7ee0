create or replace function tasker.resolve_step(
  p_step_uuid    uuid,
  p_reason       text,
  p_requested_by text,
  p_result       jsonb default null
) returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select tasker.command_step(p_step_uuid, array['resolve_step'], p_reason, p_requested_by,
                             case when p_result is null then '{}' else jsonb_build_object('result', p_result) end)
$$;
comment on function tasker.resolve_step(uuid, text, text, jsonb) is
  'Declares a step done by hand (seed 004: ResolveManually). p_result becomes the input of its dependents.';
