create or replace function tasker.judge_decisions(p_reports tasker.step_report[]) returns tasker.step_report[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  return array(
    select case when j.problem is null then r
                else (r.position, r.step_uuid, r.claim_uuid, false,
                      r.metadata - 'result' || jsonb_build_object('success', false, 'category', 'permanent', 'retry_after', null,
                                                                  'error', jsonb_build_object('type', 'no_decision', 'message', j.problem)),
                      r.problem)::tasker.step_report end
      from unnest(p_reports) r
      left join lateral (select tasker.decision_problem(s.options -> 'creates', r.metadata -> 'result') as problem
                           from tasker.workflow_steps s
                          where s.workflow_step_uuid = r.step_uuid and r.success and r.problem is null and s.options ? 'creates') j on true
     order by r.position);
end
$$;
comment on function tasker.judge_decisions(tasker.step_report[]) is
  'The reports, with failures in place of results of decisions that name steps which they may not create.';
