create or replace function tasker.purge_expired(p_limit int default 10000) returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_purged int;
  v_bound  text[] := tasker.bound_namespaces();
begin
  with expired as materialized (
    select k.request_id, k.login from tasker.idempotency_keys k where k.expires_at <= tasker.clock() and (v_bound is null or k.login = session_user)
     order by k.expires_at limit p_limit for update skip locked
  )
  delete from tasker.idempotency_keys k using expired where k.request_id = expired.request_id and k.login = expired.login;
  get diagnostics v_purged = row_count;
  return v_purged;
end
$$;
comment on function tasker.purge_expired(int) is 'Removes answers that are older than their time to live (seed 003 cleanup_expired) and says how many; a bound login its own. tick does it too.';
