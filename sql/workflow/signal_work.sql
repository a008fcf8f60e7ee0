create or replace function tasker.signal_work(p_namespaces text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sent bigint;
begin
  -- Whoever finds the row locked leaves it to the holder, and whoever comes within 100 ms leaves it to the poll:
  -- NOTIFY serialises all commits of the server, so it is never sent more often.
  with due as materialized (
    select w.namespace from tasker.work_signals w
      join tasker.task_namespaces n on n.namespace = w.namespace and n.notifications <> 'off'
     where w.namespace = any (p_namespaces)
       and w.last_notified_at < clock_timestamp() - interval '100 milliseconds'
       for update of w skip locked
  ), signalled as (
    update tasker.work_signals w set last_notified_at = clock_timestamp()
      from due where w.namespace = due.namespace
    returning w.namespace
  )
  select count(pg_notify('tasker_work', s.namespace)::text) into v_sent from signalled s;
end
$$;
comment on function tasker.signal_work(text[]) is
  'Tells listening workers that there is work in these namespaces: a hint, throttled to one in 100 ms a namespace.';
