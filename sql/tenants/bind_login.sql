create or replace function tasker.bind_login(
  p_login        text,
  p_namespaces   text[],
  p_reason       text,
  p_requested_by text
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad text;
begin
  select n.namespace into v_bad from unnest(p_namespaces) as n(namespace)
   where coalesce(n.namespace, '') !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$' limit 1;
  if found then
    perform tasker.raise_error('TK400', format('%L is not a namespace name', v_bad), jsonb_build_object('namespace', v_bad),
                               'Use 1 to 63 letters, digits, underscores, dots and hyphens, beginning with a letter or digit.');
  end if;
  perform tasker.set_login_binding(p_login, 'bind', p_namespaces, p_reason, p_requested_by);
end
$$;
comment on function tasker.bind_login(text, text[], text, text) is
  'Binds a login to namespaces, in place of what it was bound to: from its next call on it sees and moves only what stands in them. An empty array: nothing; null: everything. The login public stands for all that are not bound by name. For members of tasker_owner.';
