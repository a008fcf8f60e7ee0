create or replace function tasker.register_processor(p_name text, p_lease interval default '30 seconds') returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_uuid uuid;
begin
  perform tasker.refuse_lease(p_lease);
  if coalesce(p_name, '') = '' then
    perform tasker.raise_error('TK400', 'a processor needs a name', jsonb_build_object('name', p_name));
  end if;
  insert into tasker.processors (name, lease_expires_at, namespaces) values (p_name, tasker.clock() + p_lease, tasker.bound_namespaces())
  returning processor_uuid into v_uuid;
  return v_uuid;
end
$$;
comment on function tasker.register_processor(text, interval) is
  'Registers a processor that owns the tasks it moves while its lease lives (seed 004, Processor Ownership).';
