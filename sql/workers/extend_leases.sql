create or replace function tasker.extend_leases(p_worker_uuid uuid, p_lease interval default '30 seconds') returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_extended int;
begin
  perform tasker.refuse_lease(p_lease);
  if not tasker.may_see_worker(p_worker_uuid) then
    return 0;
  end if;
  -- the worker before its claims, as everywhere
  update tasker.workers w set last_heartbeat_at = tasker.clock() where w.worker_uuid = p_worker_uuid;
  with mine as materialized (
    select c.claim_uuid from tasker.step_claims c where c.worker_uuid = p_worker_uuid order by c.claim_uuid for update
  )
  update tasker.step_claims c set lease_expires_at = tasker.clock() + p_lease
    from mine where c.claim_uuid = mine.claim_uuid;
  get diagnostics v_extended = row_count;
  return v_extended;
end
$$;
comment on function tasker.extend_leases(uuid, interval) is
  'Extends everything the worker holds. A lease that ended but was not taken away yet is extended too; see held_claims for what is still held.';
