create or replace function tasker.report_and_claim(
  p_worker_uuid uuid,
  p_results     jsonb,
  p_namespaces  text[] default null,
  p_limit       int default 0,
  p_lease       interval default '30 seconds'
) returns table(outcome tasker.step_outcome, awaits_orchestration boolean, claim tasker.claimed_step)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_worker   tasker.workers;
  v_reports  tasker.step_report[] := tasker.read_reports(p_results);
  v_bound    text[] := tasker.bound_namespaces();
  v_claimant tasker.claimant;
begin
  if p_limit is null or p_limit not between 0 and 10000 then
    perform tasker.raise_error('TK400', format('can''t claim %s steps at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Claim up to 10,000 steps in one call.');
  end if;
  perform tasker.refuse_lease(p_lease);
  v_worker := tasker.lock_worker_or_refuse(p_worker_uuid);  -- before the tasks
  -- What becomes ready goes to this worker, as far as it would be given work now and its steps are of one namespace that it
  -- serves. Breakers and jobs have a word in who gets what, so there it goes through the queue.
  if p_limit > 0 and v_worker.shutdown_requested_at is null and tasker.worker_phase(p_worker_uuid) = 'busy'
     and not exists (select from tasker.circuit_breakers)
     and not exists (select from tasker.job_workers j where j.worker_uuid = p_worker_uuid) then
    select p_worker_uuid, tasker.uuid_generate_v7(), s.namespace, v_worker.capabilities, p_limit, tasker.clock(), p_lease
      into v_claimant
      from (select s.namespace
              from unnest(v_reports) r
             cross join lateral (select s.namespace from tasker.workflow_steps s
                                  where s.workflow_step_uuid = r.step_uuid and s.claim_uuid = r.claim_uuid
                                    and s.worker_uuid = p_worker_uuid limit 1) s
             order by r.position
             limit 1) s
      join tasker.task_namespaces n on n.namespace = s.namespace and n.paused_at is null
     where s.namespace = any (coalesce(p_namespaces, v_worker.namespaces, array[s.namespace]))
       and (v_bound is null or s.namespace = any (v_bound));
  end if;
  return query
  select o, o.code is null and coalesce(x.phase in ('reported_success', 'reported_failure', 'validating'), false), null::tasker.claimed_step
    from tasker.apply_reports(v_reports, true, v_claimant) o
    left join lateral (select s.lifecycle from tasker.workflow_steps s where s.workflow_step_uuid = o.workflow_step_uuid limit 1) s on true
    left join lateral (select x.phase from tasker.lifecycle_states x where x.lifecycle = s.lifecycle and x.state = o.state limit 1) x on true;
  return query
  select null::tasker.step_outcome, null::boolean, h
    from tasker.step_claims c
   cross join lateral tasker.handed_over(c.step_uuids) h
   where c.claim_uuid = (v_claimant).claim_uuid;
end
$$;
comment on function tasker.report_and_claim(uuid, jsonb, text[], int, interval) is
  'complete_steps that goes on at once: settles the results where nobody else is at their task, drives it, and gives this worker up to p_limit of the steps that became ready by it. First one outcome a result, in the same order, then the claims; whichever it is, the other columns are null. What it does not take stands in the queue; awaits_orchestration says of a result that it could not be settled here.';
