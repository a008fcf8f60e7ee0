create or replace function tasker.uncount_purged(p_task_uuids uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
  update tasker.audit_counts k
     set tasks = k.tasks - g.tasks, results = k.results - g.results, failures = k.failures - g.failures, unaudited = k.unaudited - g.unaudited
    from (
      select w.width, tasker.bucket_of(r.at, w.width) as bucket,
             case r.kind when 'task' then 'task' else 'step' end as log, count(*) filter (where r.kind = 'task') as tasks,
             count(*) filter (where r.kind = 'result') as results, count(*) filter (where r.kind = 'result' and not r.success) as failures,
             count(*) filter (where r.kind = 'unaudited') as unaudited
        from tasker.counted_rows r cross join (values (10), (900), (86400)) as w(width)
       where r.is_archived and r.task_uuid = any (p_task_uuids)
       group by 1, 2, 3) g
   where k.width = g.width and k.log = g.log and k.bucket = g.bucket
$$;
comment on function tasker.uncount_purged(uuid[]) is 'Takes from audit_counts what the archive holds of these tasks. Its caller holds the lock of seal_audit.';
