create or replace function tasker.set_login_binding(
  p_login        text,
  p_action       text,
  p_namespaces   text[],
  p_reason       text,
  p_requested_by text
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before tasker.login_bindings;
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.refuse_bound_login('who is bound to what is decided by others');
  if p_login is distinct from 'public' and not exists (select from pg_roles r where r.rolname = p_login) then
    perform tasker.raise_error('TK404', format('there is no login %s', coalesce(p_login, 'null')), jsonb_build_object('login', p_login),
                               'Make the role first. public stands for all logins that are not bound by name.');
  elsif p_namespaces is not null and exists (select from pg_roles r where r.rolname = p_login
                                               and (r.rolsuper or r.rolbypassrls or pg_has_role(r.oid, 'tasker_owner', 'member'))) then
    perform tasker.raise_error('TK422', format('a binding would not hold %s', p_login), jsonb_build_object('login', p_login),
                               'It is a superuser, may bypass row security or is a member of tasker_owner: take that away first.');
  end if;
  -- two at once wait for each other here, so that the log says what was before
  lock table tasker.login_bindings in share row exclusive mode;
  select * into v_before from tasker.login_bindings b where b.login = p_login;
  if p_action = 'bind' then
    insert into tasker.login_bindings (login, namespaces) values (p_login, p_namespaces)
        on conflict (login) do update set namespaces = excluded.namespaces, bound_at = excluded.bound_at;
  elsif v_before.login is null then
    perform tasker.raise_error('TK404', format('login %s is not bound', p_login), jsonb_build_object('login', p_login),
                               'Bindings stand in tasker.login_bindings.');
  else
    delete from tasker.login_bindings b where b.login = p_login;
  end if;
  insert into tasker.login_binding_changes (login, action, namespaces, previous_namespaces, reason, requested_by)
  values (p_login, p_action, p_namespaces, v_before.namespaces, p_reason, p_requested_by);
end
$$;
comment on function tasker.set_login_binding(text, text, text[], text, text) is
  'Binds or unbinds a login and writes down who did it and why.';
