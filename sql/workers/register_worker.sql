create or replace function tasker.register_worker(
  p_name           text,
  p_capabilities   text[] default '{}',
  p_max_concurrent int default 1000,
  p_vocabulary     text default 'tasker',
  p_namespaces     text[] default null,
  p_heartbeat_interval    interval default '10 seconds',
  p_max_missed_heartbeats int default 3,
  p_handlers       text[] default null,
  p_request_id text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'register_worker', jsonb_build_array(p_name, p_capabilities, p_max_concurrent, p_vocabulary, p_namespaces, p_heartbeat_interval, p_max_missed_heartbeats)
    || case when p_handlers is null then '[]' else jsonb_build_array(p_handlers) end);
  v_lifecycle tasker.lifecycles;
  v_uuid      uuid;
  v_bound     text[] := tasker.bound_namespaces();
begin
  if v_answer is not null then
    return v_answer::uuid;
  end if;
  if coalesce(p_name, '') = '' or p_max_concurrent is null or p_max_concurrent not between 1 and 100000 then
    perform tasker.raise_error('TK400', 'a worker needs a name and room for 1 to 100,000 steps',
                               jsonb_build_object('name', p_name, 'max_concurrent', p_max_concurrent));
  elsif p_heartbeat_interval is null or p_heartbeat_interval <= interval '0' or p_heartbeat_interval > interval '366 days'
        or coalesce(p_max_missed_heartbeats, 0) not between 1 and 1000 then
    perform tasker.raise_error('TK400', 'heartbeats need an interval of at most 366 days, and 1 to 1,000 that may be missed',
                               jsonb_build_object('heartbeat_interval', p_heartbeat_interval, 'max_missed_heartbeats', p_max_missed_heartbeats));
  end if;
  if array_position(p_handlers, null) is not null or '' = any (p_handlers) then
    perform tasker.raise_error('TK400', 'handlers are names', jsonb_build_object('handlers', p_handlers),
                               'Name the handlers that the worker has, or give null: then it is given the steps of any.');
  end if;
  select l.* into v_lifecycle
    from tasker.vocabularies v join tasker.lifecycles l on l.lifecycle = v.worker_lifecycle
   where v.vocabulary = p_vocabulary;
  if not found then
    perform tasker.raise_error('TK404', format('there is no vocabulary %s with workers', p_vocabulary), jsonb_build_object('vocabulary', p_vocabulary));
  end if;
  -- a bound login's worker serves what the login is bound to, or less
  p_namespaces := coalesce(p_namespaces, v_bound);
  if v_bound is not null then
    perform tasker.refuse_foreign_namespace(n.namespace) from unnest(p_namespaces) as n(namespace);
  end if;
  insert into tasker.workers (name, vocabulary, lifecycle, namespaces, capabilities, max_concurrent, last_heartbeat_at,
                              heartbeat_interval, max_missed_heartbeats, handlers)
  values (p_name, p_vocabulary, v_lifecycle.lifecycle, p_namespaces, coalesce(p_capabilities, '{}'), p_max_concurrent, tasker.clock(),
          p_heartbeat_interval, p_max_missed_heartbeats, p_handlers)
  returning worker_uuid into v_uuid;
  insert into tasker.worker_transitions (worker_uuid, lifecycle, event, to_state, metadata, sort_key, most_recent)
  values (v_uuid, v_lifecycle.lifecycle, 'create', v_lifecycle.initial_state, jsonb_build_object('name', p_name), 1, true);
  perform tasker.move_worker(v_uuid, 'worker_ready', jsonb_build_object('capabilities', coalesce(p_capabilities, '{}')));
  perform tasker.wake_waiting_jobs();
  return tasker.end_request(p_request_id, v_uuid::text)::uuid;
end
$$;
comment on function tasker.register_worker(text, text[], int, text, text[], interval, int, text[], text) is
  'Registers one start of a worker process and returns its key. A restarted process registers again: it never inherits old claims. p_handlers: the handlers that it has, so that it is never given a step of another one; null: any.';
