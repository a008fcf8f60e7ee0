create or replace function tasker.may_see_worker(p_worker_uuid uuid) returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
begin
  return v_bound is null
         or exists (select from tasker.workers w where w.worker_uuid = p_worker_uuid and w.namespaces <@ v_bound);
end
$$;
comment on function tasker.may_see_worker(uuid) is
  'Whether this login sees a worker: one that serves its namespaces and no other.';
