create or replace function tasker.report_step(p_report jsonb) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_outcome tasker.step_outcome;
begin
  select * into v_outcome from tasker.complete_steps(jsonb_build_array(p_report));
  if v_outcome.code is not null then
    perform tasker.raise_error(
      v_outcome.code, v_outcome.message,
      jsonb_build_object('step_uuid', p_report ->> 'step_uuid', 'claim_uuid', p_report ->> 'claim_uuid'),
      case v_outcome.code when 'TK412' then 'Drop the work: somebody else does it, or nobody needs it any more.' end);
  end if;
  return v_outcome.state;
end
$$;
comment on function tasker.report_step(jsonb) is 'One result through the same path as many; a refusal raises.';
