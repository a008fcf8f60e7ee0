create or replace function tasker.wake_waiting_jobs() returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  -- the next tick looks at them: a worker that registers does not wait for their locks
  insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
  select tasker.clock(), 'drive', t.task_uuid, t.namespace, c.sort_key
    from tasker.tasks t
    join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and not s.is_terminal
   where t.worker_count is not null and t.completed_at is null
     and tasker.missing_workers(t.task_uuid, t.worker_count) > 0
     and not exists (select from tasker.timers x where x.task_uuid = t.task_uuid and x.kind = 'drive')
$$;
comment on function tasker.wake_waiting_jobs() is 'Jobs that wait for workers, or lost some, look again at the next tick (seed 003: retry allocation).';
