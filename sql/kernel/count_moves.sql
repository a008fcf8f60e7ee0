create or replace function tasker.count_moves(p_progress tasker.task_progress[], p_task_moves tasker.task_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_jobs     uuid[];
  v_children uuid[];
begin
  if coalesce(cardinality(p_progress), 0) = 0 and coalesce(cardinality(p_task_moves), 0) = 0 then
    return;
  end if;
  -- one write of the row for both; moves that change neither cost none
  with written as (
    update tasker.tasks t
       set pending_steps         = t.pending_steps         + coalesce(c.pending, 0),
           in_flight_steps       = t.in_flight_steps       + coalesce(c.in_flight, 0),
           waiting_retry_steps   = t.waiting_retry_steps   + coalesce(c.waiting_retry, 0),
           satisfied_steps       = t.satisfied_steps       + coalesce(c.satisfied, 0),
           failed_steps          = t.failed_steps          + coalesce(c.failed, 0),
           failed_critical_steps = t.failed_critical_steps + coalesce(c.failed_critical, 0),
           -- update_task_completion: only at the start, at the end, and when a finished task is reset
           started_at   = case when c.starts then coalesce(t.started_at, greatest(t.created_at, clock_timestamp())) else t.started_at end,
           completed_at = case when c.ends is null then t.completed_at
                               when c.ends then greatest(t.created_at, t.started_at, clock_timestamp()) end
      from (select x.task_uuid, sum(x.pending) as pending, sum(x.in_flight) as in_flight, sum(x.waiting_retry) as waiting_retry,
                   sum(x.satisfied) as satisfied, sum(x.failed) as failed, sum(x.failed_critical) as failed_critical,
                   bool_or(x.starts) as starts, bool_or(x.ends) as ends
              from (select p.*, null::boolean as starts, null::boolean as ends from unnest(p_progress) p
                    union all
                    -- the first move leaves the initial state
                    select m.task_uuid, null, null, null, null, null, null, m.sort_key = 2,
                           m.most_recent and (select s.is_terminal from tasker.lifecycle_states s where s.lifecycle = m.lifecycle and s.state = m.to_state)
                      from unnest(p_task_moves) m) x
             group by x.task_uuid) c
     where t.task_uuid = c.task_uuid
       and (c.pending is not null or c.starts or c.ends or t.completed_at is not null)
    returning t.task_uuid, t.worker_count, t.parent_task_uuid, c.ends
  )
  select array_agg(w.task_uuid) filter (where w.ends and w.worker_count is not null), array_agg(w.task_uuid) filter (where w.ends and w.parent_task_uuid is not null)
    into v_jobs, v_children
    from written w;
  if v_jobs is not null then
    perform tasker.release_workers(v_jobs);
  end if;
  if v_children is not null then
    perform tasker.wake_parents(v_children);
  end if;
end
$$;
comment on function tasker.count_moves(tasker.task_progress[], tasker.task_move[]) is
  'What moves change in the rows of tasks: progress counters by what progress_of says of those of steps, started_at and completed_at by their own.';
