create or replace function tasker.limit_or_refuse(p_scope text, p_name text, p_namespace text) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_namespace text := case p_scope when 'namespace' then p_name when 'template' then coalesce(p_namespace, 'default') else p_namespace end;
begin
  if coalesce(p_scope not in ('tool', 'namespace', 'template'), true) or coalesce(p_name, '') = ''
     or (p_scope = 'namespace' and p_namespace <> p_name) then
    perform tasker.raise_error('TK400', 'a limit is for a tool, a namespace or a template, by its name',
                               jsonb_build_object('scope', p_scope, 'name', p_name, 'namespace', p_namespace),
                               'Scope is tool, namespace or template. A tool without a namespace is limited for all of them together.');
  end if;
  if v_namespace is null then
    perform tasker.refuse_bound_login('the limit of a tool without a namespace is shared by all');
  elsif p_scope = 'namespace' then
    perform tasker.refuse_bound_login('how much a namespace may take of what all share is said by others');
  end if;
  perform tasker.refuse_foreign_namespace(v_namespace) where v_namespace is not null;
  if v_namespace is not null and not exists (select from tasker.task_namespaces n where n.namespace = v_namespace) then
    perform tasker.raise_error('TK404', format('there is no namespace %s', v_namespace), jsonb_build_object('namespace', v_namespace),
                               'See them in tasker.task_namespaces; ensure_namespace makes one.');
  end if;
  return v_namespace;
end
$$;
comment on function tasker.limit_or_refuse(text, text, text) is
  'The namespace whose steps this limit counts, null for all; refuses what is no limit, and logins that may not say.';
