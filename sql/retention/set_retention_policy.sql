create or replace function tasker.set_retention_policy(
  p_policy        text,
  p_archive_after interval,
  p_purge_after   interval,
  p_description   text,
  p_namespace     text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_bound_login('how long evidence is kept is not decided by one of them');
  if coalesce(p_policy !~ '^[a-z][a-z0-9_-]{0,62}$', true) or coalesce(trim(p_description), '') = ''
     or coalesce(p_archive_after < interval '1 hour', true) or coalesce(p_purge_after < p_archive_after, true) then
    perform tasker.raise_error('TK400', 'a retention policy needs a name, a description, and two times: to archive after an hour or more, to purge no earlier',
                               jsonb_build_object('policy', p_policy, 'archive_after', p_archive_after, 'purge_after', p_purge_after,
                                                  'description', p_description),
                               'For example: set_retention_policy(''default'', ''30 days'', ''7 years'', ''Records policy 4.2'').');
  elsif p_namespace is not null and not exists (select from tasker.task_namespaces n where n.namespace = p_namespace) then
    perform tasker.raise_error('TK404', format('there is no namespace %s', p_namespace), jsonb_build_object('namespace', p_namespace));
  end if;
  insert into tasker.retention_policies as known (policy, namespace, archive_after, purge_after, description)
  values (p_policy, p_namespace, p_archive_after, p_purge_after, p_description)
      on conflict (policy) do update
     set namespace = excluded.namespace, archive_after = excluded.archive_after, purge_after = excluded.purge_after,
         description = excluded.description
   where (known.namespace, known.archive_after, known.purge_after, known.description)
         is distinct from (excluded.namespace, excluded.archive_after, excluded.purge_after, excluded.description);
end
$$;
comment on function tasker.set_retention_policy(text, interval, interval, text, text) is
  'Says how long ended tasks of a namespace (null: of all) stay before they may be archived, and purged. Changes leave an event; nothing is moved or removed by itself.';
