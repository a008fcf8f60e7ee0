create or replace function tasker.shutdown_worker(p_worker_uuid uuid, p_reason text default null) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update tasker.workers w
     set shut_down_at = coalesce(w.shut_down_at, clock_timestamp()), shut_down_reason = coalesce(w.shut_down_reason, p_reason)
   where w.worker_uuid = p_worker_uuid;
  if not found then
    perform tasker.raise_error('TK404', format('there is no worker %s', coalesce(p_worker_uuid::text, 'null')),
                               jsonb_build_object('worker_uuid', p_worker_uuid));
  end if;
  return 'shutdown';
end
$$;
comment on function tasker.shutdown_worker(uuid, text) is
  'The worker claims nothing more. What it still holds it may report; what it does not report goes to others when its lease ends.';
