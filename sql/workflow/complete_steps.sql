create or replace function tasker.complete_steps(p_results jsonb) returns setof tasker.step_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return query select * from tasker.apply_reports(tasker.read_reports(p_results));
end
$$;
comment on function tasker.complete_steps(jsonb) is
  'Reports many results in one call: [{"step_uuid", "claim_uuid", "success", "result", "error", "category", "retry_after", "execution_time_ms", "validation"}]. One outcome a result, in the same order; a refused one carries its code and does not disturb the others. validation: what the acceptance checks said, where the lifecycle has no state for them.';
