create or replace function tasker.lock_worker_or_refuse(p_worker_uuid uuid) returns tasker.workers
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound  text[] := tasker.bound_namespaces();
  v_worker tasker.workers;
begin
  select * into v_worker from tasker.workers w where w.worker_uuid = p_worker_uuid and (v_bound is null or w.namespaces <@ v_bound) for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no worker %s', coalesce(p_worker_uuid::text, 'null')),
                               jsonb_build_object('worker_uuid', p_worker_uuid), 'Call register_worker first.');
  end if;
  return v_worker;
end
$$;
comment on function tasker.lock_worker_or_refuse(uuid) is 'Locks one worker, or raises TK404, also for one that this login may not see. Workers are locked before tasks.';
