create or replace function tasker.report_by_engine(p_step_uuids uuid[], p_results jsonb[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_reports tasker.step_report[];
begin
  v_reports := array(
    select ((row_number() over (order by s.workflow_step_uuid))::int, s.workflow_step_uuid, s.claim_uuid, (told.result ->> 'success')::boolean,
            told.result, null)::tasker.step_report
      from unnest(p_step_uuids, p_results) as r(workflow_step_uuid, result)
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = r.workflow_step_uuid and s.claim_uuid is not null and s.worker_uuid is null limit 1) s
     cross join lateral (select case when not tasker.is_large(r.result) then r.result
                                     else coalesce(tasker.failure_of_size(r.result, s.namespace), r.result) end as result) told);
  -- who sends a step back to work by hand after this wants it done by a worker, whatever was said of it before
  update tasker.workflow_steps s set options = s.options - 'fails'
   where s.workflow_step_uuid = any (p_step_uuids) and s.options ? 'fails';
  perform from tasker.apply_reports(v_reports, true);
end
$$;
comment on function tasker.report_by_engine(uuid[], jsonb[]) is
  'Reports steps that the engine holds, like a worker: {"success": true, "result"} or {"success": false, "error", "category"}. The caller holds the locks of their tasks and steps. A result that is too big makes a failure. Others of these steps are left alone.';
