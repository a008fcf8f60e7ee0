create or replace function tasker.bound_namespaces() returns text[]
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- The login counts, not the role it acts as: no SET ROLE changes it. Whoever has no row has that of public, if there is
  -- one, but for those whom no binding would hold: they migrate and mend.
  return (select b.namespaces
            from tasker.login_bindings b
           where b.login = session_user or (b.login = 'public' and not pg_has_role(session_user, 'tasker_owner', 'member'))
           order by b.login = 'public'
           limit 1);
end
$$;
comment on function tasker.bound_namespaces() is
  'The namespaces to which this login is bound: it sees and moves nothing outside of them. Null: it is not bound.';
