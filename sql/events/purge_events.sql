create or replace function tasker.purge_events(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_purged int;
  v_bound  text[] := tasker.bound_namespaces();
begin
  with over as materialized (
    select e.namespace, e.event, e.key from tasker.events e
     where e.keep_until <= tasker.clock() and (v_bound is null or e.namespace = any (v_bound))
       and not exists (select from tasker.event_waits w where w.namespace = e.namespace and w.event = e.event and w.key = e.key)
     order by e.keep_until limit p_limit for update skip locked
  )
  delete from tasker.events e using over o where e.namespace = o.namespace and e.event = o.event and e.key = o.key;
  get diagnostics v_purged = row_count;
  return v_purged;
end
$$;
comment on function tasker.purge_events(int) is
  'Forgets events whose time is over; those for which a step waits or waited stay until its task is archived. tick does it.';
