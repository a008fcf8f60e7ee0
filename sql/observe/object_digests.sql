create or replace function tasker.object_digests() returns table (object text, digest text, definition text)
language sql
stable
set search_path = pg_catalog, pg_temp  -- definitions are written out with every name qualified
as $$
  with found as (
    select format('function tasker.%I(%s)', p.proname, oidvectortypes(p.proargtypes)) as object, pg_get_functiondef(p.oid) as content, null as definition
      from pg_proc p where p.pronamespace = 'tasker'::regnamespace and p.prokind in ('f', 'p')
    union all
    select format('view tasker.%I', c.relname), pg_get_viewdef(c.oid), null
      from pg_class c where c.relnamespace = 'tasker'::regnamespace and c.relkind = 'v'
    union all
    select format('policy %I on tasker.%I', p.polname, c.relname),
           concat_ws('|', p.polcmd, p.polpermissive, p.polroles, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)), null
      from pg_policy p join pg_class c on c.oid = p.polrelid
     where c.relnamespace = 'tasker'::regnamespace
    union all
    select x.object, x.definition, x.definition
      from (-- the tree makes triggers, migrations make what follows: one line each, which says how to make it again
            select format('trigger %I on tasker.%I', t.tgname, c.relname) as object, pg_get_triggerdef(t.oid) as definition
              from pg_trigger t join pg_class c on c.oid = t.tgrelid
             where c.relnamespace = 'tasker'::regnamespace and not t.tgisinternal and not c.relispartition  -- partitions come with the months
            union all
            select format('table tasker.%I', c.relname),
                   format('%s, row security %s', case c.relpersistence when 'p' then 'logged' else 'not logged' end,
                          case when c.relrowsecurity then 'on' else 'off' end)
              from pg_class c where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            union all
            select format('column tasker.%I.%I', c.relname, a.attname),
                   concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
                             case when a.attidentity <> '' then 'generated as identity' end, 'default ' || pg_get_expr(d.adbin, d.adrelid))
              from pg_attribute a
              join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p') and not c.relispartition
              left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
             where c.relnamespace = 'tasker'::regnamespace and a.attnum > 0 and not a.attisdropped
            union all
            select format('constraint %I on tasker.%I', o.conname, c.relname), pg_get_constraintdef(o.oid)
              from pg_constraint o join pg_class c on c.oid = o.conrelid
             where c.relnamespace = 'tasker'::regnamespace and not c.relispartition and o.conparentid = 0 and o.contype <> 'n'  -- told by the column
            union all
            select format('index tasker.%I', c.relname), pg_get_indexdef(i.indexrelid)
              from pg_index i
              join pg_class c on c.oid = i.indexrelid
             where c.relnamespace = 'tasker'::regnamespace and not c.relispartition and i.indisvalid
               and not exists (select from pg_constraint o where o.conindid = i.indexrelid and o.contype in ('p', 'u', 'x'))) x
  )
  -- another version of the server writes definitions out in another way
  select 'server', (current_setting('server_version_num')::int / 10000)::text, null
  union all
  select f.object, md5(f.content), f.definition from found f
$$;
comment on function tasker.object_digests() is
  'A digest of the definition of every function, view, policy, trigger, table, column, constraint and index, and of the last five the definition itself. access_warnings compares them with what the newest migration made.';
