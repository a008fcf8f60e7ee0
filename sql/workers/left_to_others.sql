create or replace function tasker.left_to_others(
  p_worker tasker.workers,
  out namespace text,
  out priority  smallint
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  select w.namespace, max(w.priority)
    from tasker.handler_waits w
    join tasker.task_namespaces n on n.namespace = w.namespace and n.paused_at is null
   where (p_worker.handlers is null or w.handler = any (p_worker.handlers)) and w.requires <@ p_worker.capabilities
   group by w.namespace
$$;
comment on function tasker.left_to_others(tasker.workers) is 'Namespaces with steps that others left to workers like this one.';
