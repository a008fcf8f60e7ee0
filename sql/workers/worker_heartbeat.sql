create or replace function tasker.worker_heartbeat(p_worker_uuid uuid) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  perform tasker.lock_worker_or_refuse(p_worker_uuid);
  update tasker.workers w set last_heartbeat_at = tasker.clock() where w.worker_uuid = p_worker_uuid;
  perform tasker.settle_worker(p_worker_uuid);
  return tasker.worker_state(p_worker_uuid);
end
$$;
comment on function tasker.worker_heartbeat(uuid) is
  'Says that the worker is alive and answers its state: a worker that was given up comes back, one that holds nothing is idle, one that is to end ends.';
