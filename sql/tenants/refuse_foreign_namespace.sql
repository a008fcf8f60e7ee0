create or replace function tasker.refuse_foreign_namespace(p_namespace text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if not tasker.may_see(p_namespace) then
    perform tasker.raise_error('TK403', format('login %s is not bound to namespace %s', session_user, coalesce(p_namespace, 'null')),
                               jsonb_build_object('login', session_user, 'namespace', p_namespace, 'bound_to', tasker.bound_namespaces()),
                               'Work in a namespace to which the login is bound, or have it bound: bind_login.');
  end if;
end
$$;
comment on function tasker.refuse_foreign_namespace(text) is
  'Raises TK403 when this login is bound and not to this namespace, whether there is such a namespace or not.';
