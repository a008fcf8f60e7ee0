create or replace function tasker.ensure_capability_queue(p_namespace text, p_requires text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text := 'worker_' || substr(md5(jsonb_build_array(p_namespace, p_requires)::text), 1, 24) || '_cap_queue';
  v_new   boolean;
begin
  if exists (select from tasker.capability_queues c where c.namespace = p_namespace and c.requires = p_requires) then
    return;
  end if;
  insert into tasker.capability_queues (namespace, requires, queue_name) values (p_namespace, p_requires, v_queue)
      on conflict do nothing
  returning true into v_new;
  if v_new then
    perform pgmq.create(v_queue);
  end if;
end
$$;
comment on function tasker.ensure_capability_queue(text, text[]) is
  'Makes the queue of steps that ask for these capabilities, if it is not there yet.';
