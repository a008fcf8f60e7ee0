create or replace function tasker.ensure_work_queue(p_namespace text, p_requires text[], p_priority smallint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text := 'worker_' || substr(md5(jsonb_build_array(p_namespace, p_requires, p_priority)::text), 1, 24) || '_cap_queue';
  v_new   boolean;
begin
  if exists (select from tasker.work_queues c where c.namespace = p_namespace and c.requires = p_requires and c.priority = p_priority) then
    return;
  end if;
  insert into tasker.work_queues (namespace, requires, priority, queue_name) values (p_namespace, p_requires, p_priority, v_queue)
      on conflict do nothing
  returning true into v_new;
  if v_new then
    perform tasker.create_queue(v_queue);
  end if;
end
$$;
comment on function tasker.ensure_work_queue(text, text[], smallint) is
  'Makes the queue of steps that ask for these capabilities and have this priority, if it is not there yet.';
