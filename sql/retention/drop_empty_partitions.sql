create or replace function tasker.drop_empty_partitions(p_requested_by text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_months date[] := array(
    select m.month
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
     cross join lateral (select to_date(right(c.relname, 7), 'YYYY_MM') as month where c.relname ~ '^archived_rows_[0-9]{4}_[0-9]{2}$') m
     where i.inhparent = 'tasker.archived_rows'::regclass and m.month + interval '1 month' <= clock_timestamp() at time zone 'UTC'
       and not exists (select from tasker.archived_rows r where r.month = m.month)
     order by m.month);
  v_name text;
begin
  if cardinality(v_months) = 0 then
    return;
  end if;
  -- readers of the archive are not waited for, and wait for nobody: the next purge tries again
  begin
    lock table tasker.archived_rows in access exclusive mode nowait;
  exception when lock_not_available then
    return;
  end;
  for i in 1 .. cardinality(v_months) loop
    v_name := 'archived_rows_' || to_char(v_months[i], 'YYYY_MM');
    execute format('drop table tasker.%I', v_name);
    insert into tasker.audit_events (event, subject, requested_by, detail)
    values ('archive_partition_dropped', v_name, p_requested_by, jsonb_build_object('month', v_months[i]));
  end loop;
end
$$;
comment on function tasker.drop_empty_partitions(text) is
  'Drops the partitions of months that are past and of which nothing is left in the archive. Its caller holds the lock of archive_tasks, so that nothing comes in.';
