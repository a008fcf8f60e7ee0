create or replace function tasker.refuse_unknown_processor(p_processor_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_processor_uuid is not null
     and not exists (select from tasker.processors p where p.processor_uuid = p_processor_uuid
                        and (tasker.bound_namespaces() is null or p.namespaces <@ tasker.bound_namespaces())) then
    perform tasker.raise_error('TK404', format('there is no processor %s', p_processor_uuid),
                               jsonb_build_object('processor_uuid', p_processor_uuid), 'Call register_processor first.');
  end if;
end
$$;
comment on function tasker.refuse_unknown_processor(uuid) is
  'Raises TK404 for a key that no processor registered: it would stand in the log as an owner that never was.';
