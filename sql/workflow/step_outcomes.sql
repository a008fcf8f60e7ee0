create or replace function tasker.step_outcomes(
  p_reports  tasker.step_report[],
  p_states   text[],
  p_codes    text[],
  p_messages text[],
  p_settled  tasker.step_move[]
) returns setof tasker.step_outcome
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_hashjoin = on
as $$
begin
  return query
  select a.step_uuid, case when a.code is null then coalesce(s.to_state, a.state) end, a.code, a.message
    from unnest(array(select r.step_uuid from unnest(p_reports) r order by r.position), p_states, p_codes, p_messages)
           with ordinality as a(step_uuid, state, code, message, position)
    left join unnest(p_settled) s on s.workflow_step_uuid = a.step_uuid
   order by a.position;
end
$$;
comment on function tasker.step_outcomes(tasker.step_report[], text[], text[], text[], tasker.step_move[]) is
  'The answers to reports, in their order: the state that a step is in now, or why the report was refused. The arrays in the middle run in parallel.';
