create or replace function tasker.end_released_worker(p_worker_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job record;
begin
  select j.task_uuid, s.phase into v_job
    from tasker.job_workers j
    join tasker.task_transitions c on c.task_uuid = j.task_uuid and c.most_recent
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
   where j.worker_uuid = p_worker_uuid and j.released_at is not null;
  if not found then
    return;
  end if;
  update tasker.workers w set shutdown_requested_at = clock_timestamp()
   where w.worker_uuid = p_worker_uuid and w.shutdown_requested_at is null;
  if v_job.phase = 'cancelled' then  -- seed 003: kill workers, release resources
    perform tasker.move_worker(p_worker_uuid, 'worker_terminate', jsonb_build_object('task_uuid', v_job.task_uuid))
      where not (select s.is_terminal from tasker.worker_transitions t
                   join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
                  where t.worker_uuid = p_worker_uuid and t.most_recent);
  else
    perform tasker.move_worker(p_worker_uuid, 'worker_shutdown', jsonb_build_object('task_uuid', v_job.task_uuid));
  end if;
end
$$;
comment on function tasker.end_released_worker(uuid) is
  'Ends a locked worker whose job is over: it completes, or is terminated if the job was cancelled (seed 003, side effects).';
