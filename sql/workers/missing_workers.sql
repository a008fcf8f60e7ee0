create or replace function tasker.missing_workers(p_task_uuid uuid, p_worker_count int) returns int
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select p_worker_count - count(*)::int
    from tasker.job_workers j
    join tasker.worker_transitions c on c.worker_uuid = j.worker_uuid and c.most_recent
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and not s.is_terminal
   where j.task_uuid = p_task_uuid
$$;
comment on function tasker.missing_workers(uuid, int) is 'How many workers a job still needs: it has none yet, or some of its own have ended (seed 003: spawn new worker).';
