create or replace function tasker.held_claims(p_worker_uuid uuid) returns setof uuid
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
  select s.workflow_step_uuid
    from tasker.step_claims c
   cross join lateral unnest(c.step_uuids) as held(workflow_step_uuid)
   cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                        where s.workflow_step_uuid = held.workflow_step_uuid and s.claim_uuid = c.claim_uuid limit 1) s
   where c.worker_uuid = p_worker_uuid and tasker.may_see_worker(p_worker_uuid)
$$;
comment on function tasker.held_claims(uuid) is 'The steps a worker still holds. One that is missing was taken away: its lease ended or it was cancelled.';
