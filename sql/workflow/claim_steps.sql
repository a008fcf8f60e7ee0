create or replace function tasker.claim_steps(
  p_worker_uuid uuid,
  p_namespaces  text[] default null,
  p_limit       int default 1,
  p_lease       interval default '30 seconds'
) returns setof tasker.claimed_step
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_worker tasker.workers;
  v_queue  record;
  v_left   int := p_limit;
  v_got    int;
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform tasker.raise_error('TK400', format('can''t claim %s steps at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Claim 1 to 10,000 steps in one call.');
  end if;
  if p_lease is null or p_lease <= interval '0' then
    perform tasker.raise_error('TK400', 'a lease must be longer than nothing', jsonb_build_object('lease', p_lease));
  end if;
  select * into v_worker from tasker.workers w where w.worker_uuid = p_worker_uuid;
  if not found then
    perform tasker.raise_error('TK404', format('there is no worker %s', coalesce(p_worker_uuid::text, 'null')),
                               jsonb_build_object('worker_uuid', p_worker_uuid), 'Call register_worker first.');
  elsif v_worker.shut_down_at is not null then
    perform tasker.raise_error('TK409', format('worker %s shut down at %s', p_worker_uuid, v_worker.shut_down_at),
                               jsonb_build_object('worker_uuid', p_worker_uuid, 'event', 'claim'),
                               'Register a new worker.');
  end if;

  -- a new order every time, so that no namespace starves behind a busy one
  for v_queue in
    select n.namespace, n.queue_name
      from tasker.task_namespaces n
     where n.namespace = any (coalesce(p_namespaces, v_worker.namespaces, array[n.namespace]))
     order by random()
  loop
    return query select * from tasker.claim_from_queue(p_worker_uuid, v_queue.namespace, v_queue.queue_name, v_left, p_lease);
    get diagnostics v_got = row_count;
    v_left := v_left - v_got;
    exit when v_left <= 0;
  end loop;
end
$$;
comment on function tasker.claim_steps(uuid, text[], int, interval) is
  'Hands up to p_limit steps to a worker: message taken, state changed, lease started in one transaction. p_namespaces null: those of the worker, or all.';
