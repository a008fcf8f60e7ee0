create or replace function tasker.complete_step(
  p_step_uuid         uuid,
  p_claim_uuid        uuid,
  p_result            jsonb default null,
  p_execution_time_ms bigint default null
) returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select tasker.report_step(jsonb_build_object('step_uuid', p_step_uuid, 'claim_uuid', p_claim_uuid, 'success', true,
                                               'result', p_result, 'execution_time_ms', p_execution_time_ms))
$$;
comment on function tasker.complete_step(uuid, uuid, jsonb, bigint) is
  'Reports the result of one claimed step and returns its new state. TK412 when the claim is not current any more.';
