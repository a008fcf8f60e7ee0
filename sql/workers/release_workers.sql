create or replace function tasker.release_workers(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job record;
begin
  for v_job in
    select j.worker_uuid, j.task_uuid, s.phase
      from tasker.job_workers j
      join tasker.task_transitions c on c.task_uuid = j.task_uuid and c.most_recent
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
     where j.task_uuid = any (p_task_uuids) and j.released_at is null
     order by j.worker_uuid
  loop
    update tasker.job_workers j set released_at = clock_timestamp() where j.worker_uuid = v_job.worker_uuid;
    if v_job.phase = 'cancelled' then  -- seed 003: kill workers, release resources
      perform tasker.move_worker(v_job.worker_uuid, 'worker_terminate', jsonb_build_object('task_uuid', v_job.task_uuid));
    else
      update tasker.workers w set shutdown_requested_at = coalesce(w.shutdown_requested_at, clock_timestamp()) where w.worker_uuid = v_job.worker_uuid;
      perform tasker.move_worker(v_job.worker_uuid, 'worker_shutdown', jsonb_build_object('task_uuid', v_job.task_uuid));
    end if;
  end loop;
end
$$;
comment on function tasker.release_workers(uuid[]) is
  'Frees the workers of jobs that ended: finished ones complete, those of a cancelled job are terminated (seed 003, side effects).';
