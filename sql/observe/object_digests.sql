create or replace function tasker.object_digests() returns table (object text, digest text)
language sql
stable
set search_path = pg_catalog, pg_temp  -- definitions are written out with every name qualified
as $$
  -- another version of the server writes definitions out in another way
  select 'server', (current_setting('server_version_num')::int / 10000)::text
  union all
  select format('function tasker.%I(%s)', p.proname, oidvectortypes(p.proargtypes)), md5(pg_get_functiondef(p.oid))
    from pg_proc p where p.pronamespace = 'tasker'::regnamespace and p.prokind in ('f', 'p')
  union all
  select format('view tasker.%I', c.relname), md5(pg_get_viewdef(c.oid))
    from pg_class c where c.relnamespace = 'tasker'::regnamespace and c.relkind = 'v'
  union all
  select format('trigger %I on tasker.%I', t.tgname, c.relname), md5(pg_get_triggerdef(t.oid))
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
   where c.relnamespace = 'tasker'::regnamespace and not t.tgisinternal and not c.relispartition  -- partitions come with the months
  union all
  select format('policy %I on tasker.%I', p.polname, c.relname),
         md5(concat_ws('|', p.polcmd, p.polpermissive, p.polroles, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
    from pg_policy p join pg_class c on c.oid = p.polrelid
   where c.relnamespace = 'tasker'::regnamespace
$$;
comment on function tasker.object_digests() is
  'A digest of the definition of every function, view, trigger and policy. access_warnings compares them with what the newest migration made.';
