create or replace function tasker.refuse_bound_login(p_what text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
begin
  if v_bound is not null then
    perform tasker.raise_error('TK403', format('login %s is bound to namespaces: %s', session_user, p_what),
                               jsonb_build_object('login', session_user, 'bound_to', v_bound),
                               'Call it as a login that is not bound.');
  end if;
end
$$;
comment on function tasker.refuse_bound_login(text) is
  'Raises TK403 for a bound login that asks for what all namespaces share. p_what says why, in words.';
