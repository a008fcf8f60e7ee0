create or replace function tasker.schedule_task_retries(p_moves tasker.task_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_waiting tasker.task_move[] := array(
    select m from unnest(p_moves) m
      join tasker.lifecycle_transitions r on r.lifecycle = m.lifecycle and r.from_state = m.to_state and r.operation = 'task_retry_due'
     where m.most_recent);
begin
  if cardinality(v_waiting) = 0 then
    return;
  end if;
  with counted as (
    update tasker.tasks t set retry_count = t.retry_count + 1
      from unnest(v_waiting) w where t.task_uuid = w.task_uuid
    returning t.task_uuid, t.retry_count
  )
  insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
  select tasker.clock() + tasker.retry_delay(c.retry_count, interval '2 seconds', interval '60 seconds', 0.25), 'task_retry',
         w.task_uuid, w.namespace, w.sort_key
    from unnest(v_waiting) w join counted c on c.task_uuid = w.task_uuid;
end
$$;
comment on function tasker.schedule_task_retries(tasker.task_move[]) is
  'Sets the timer of every task that waits to be retried as a whole (seed 001 workstreams).';
