create or replace function tasker.signal_work(p_namespaces text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_namespace text;
begin
  -- Whoever finds the row locked leaves it to the holder, and whoever comes within 10 ms leaves it to the poll, which is as quick by then:
  -- NOTIFY serialises all commits of the server, so it is never sent more often. A time in the future is a clock that
  -- was set back.
  for v_namespace in
    with due as materialized (
      select w.namespace from tasker.work_signals w
        join tasker.task_namespaces n on n.namespace = w.namespace and n.notifications <> 'off'
       where w.namespace = any (p_namespaces)
         and w.last_notified_at not between clock_timestamp() - interval '10 milliseconds' and clock_timestamp()
         for update of w skip locked
    )
    update tasker.work_signals w set last_notified_at = clock_timestamp()
      from due where w.namespace = due.namespace
    returning w.namespace
  loop
    perform pg_notify('tasker_work', v_namespace);
  end loop;
end
$$;
comment on function tasker.signal_work(text[]) is
  'Tells listening workers that there is work in these namespaces: a hint, throttled to one in 10 ms a namespace.';
