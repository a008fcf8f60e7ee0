create or replace function tasker.release_workers(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_workers uuid[];
  v_worker  uuid;
begin
  with released as (
    update tasker.job_workers j set released_at = clock_timestamp()
     where j.task_uuid = any (p_task_uuids) and j.released_at is null
    returning j.worker_uuid
  )
  select array_agg(r.worker_uuid) into v_workers from released r;
  -- A worker comes before tasks in the order of locks, so nobody waits for it here: one that is busy asking for work
  -- notices by itself that its job is over.
  for v_worker in
    select w.worker_uuid from tasker.workers w
     where w.worker_uuid = any (v_workers) order by w.worker_uuid for no key update skip locked
  loop
    perform tasker.end_released_worker(v_worker);
  end loop;
end
$$;
comment on function tasker.release_workers(uuid[]) is
  'Frees the workers of jobs that ended: finished ones complete, those of a cancelled job are terminated (seed 003, side effects).';
