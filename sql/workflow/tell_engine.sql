create or replace function tasker.tell_engine(p_namespace text) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select pg_notify('tasker_worker_state', jsonb_build_object('kind', 'engine', 'namespace', n.namespace)::text)
    from tasker.task_namespaces n
   where n.namespace = p_namespace and n.notifications <> 'off'
$$;
comment on function tasker.tell_engine(text) is 'Tells workers that something waits for orchestrate: a hint.';
