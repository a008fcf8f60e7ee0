create or replace function tasker.is_drained(p_worker_uuid uuid) returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_drained boolean;
begin
  select w.drain_requested_at is not null into v_drained
    from tasker.workers w where w.worker_uuid = p_worker_uuid and tasker.may_see_worker(w.worker_uuid);
  if not found then
    perform tasker.raise_error('TK404', format('there is no worker %s', coalesce(p_worker_uuid::text, 'null')),
                               jsonb_build_object('worker_uuid', p_worker_uuid), 'Call register_worker first.');
  end if;
  return v_drained;
end
$$;
comment on function tasker.is_drained(uuid) is 'Whether the process of this worker is to stop when it has finished what it holds (drain_worker).';
