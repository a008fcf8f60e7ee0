create or replace function tasker.worker_heartbeat(p_worker_uuid uuid) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_shut_down timestamptz;
begin
  update tasker.workers w set last_heartbeat_at = clock_timestamp() where w.worker_uuid = p_worker_uuid
  returning w.shut_down_at into v_shut_down;
  if not found then
    perform tasker.raise_error('TK404', format('there is no worker %s', coalesce(p_worker_uuid::text, 'null')),
                               jsonb_build_object('worker_uuid', p_worker_uuid), 'Call register_worker first.');
  end if;
  return case when v_shut_down is null then 'active' else 'shutdown' end;
end
$$;
comment on function tasker.worker_heartbeat(uuid) is 'Says that the worker is alive; answers active or shutdown.';
