create or replace function tasker.processor_heartbeat(p_processor_uuid uuid, p_lease interval default '30 seconds') returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
  v_until timestamptz;
begin
  perform tasker.refuse_lease(p_lease);
  update tasker.processors p set lease_expires_at = tasker.clock() + p_lease
   where p.processor_uuid = p_processor_uuid and (v_bound is null or p.namespaces <@ v_bound)
  returning p.lease_expires_at into v_until;
  if not found then
    perform tasker.raise_error('TK404', format('there is no processor %s', coalesce(p_processor_uuid::text, 'null')),
                               jsonb_build_object('processor_uuid', p_processor_uuid), 'Call register_processor first.');
  end if;
  return v_until;
end
$$;
comment on function tasker.processor_heartbeat(uuid, interval) is 'Extends the lease of a processor and answers until when.';
