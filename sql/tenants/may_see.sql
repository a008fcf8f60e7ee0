create or replace function tasker.may_see(p_namespace text) returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
begin
  return v_bound is null or coalesce(p_namespace = any (v_bound), false);
end
$$;
comment on function tasker.may_see(text) is
  'Whether this login sees what stands in a namespace. For one thing at a time; where many are looked at, ask bound_namespaces once.';
