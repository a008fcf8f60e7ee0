create or replace function tasker.free_workers(p_namespace text) returns table(worker_uuid uuid)
language sql
volatile  -- a new look at every call
set search_path = pg_catalog, pg_temp
as $$
  select w.worker_uuid
    from tasker.workers w
    join tasker.worker_transitions c on c.worker_uuid = w.worker_uuid and c.most_recent
    join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'worker_allocate'
   where w.shutdown_requested_at is null
     and (w.namespaces is null or p_namespace = any (w.namespaces))
     and not exists (select from tasker.job_workers j where j.worker_uuid = w.worker_uuid)
$$;
comment on function tasker.free_workers(text) is 'Supervised workers that wait for a job and may serve one of this namespace.';
