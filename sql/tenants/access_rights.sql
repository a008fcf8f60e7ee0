create or replace view tasker.access_rights as
select coalesce(r.rolname::text, 'public') as role, x.kind, x.object, x.privilege, x.columns, x.is_grantable
  from (select a.grantee, 'schema' as kind, n.nspname::text as object, lower(a.privilege_type) as privilege, null::text[] as columns, a.is_grantable
          from pg_catalog.pg_namespace n cross join lateral aclexplode(n.nspacl) a
         where n.nspname = 'tasker' and a.grantee <> n.nspowner
        union all
        select a.grantee, 'function', format('tasker.%I(%s)', p.proname, oidvectortypes(p.proargtypes)), lower(a.privilege_type), null, a.is_grantable
          from pg_catalog.pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         where p.pronamespace = 'tasker'::regnamespace and a.grantee <> p.proowner
        union all
        select a.grantee, case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, format('tasker.%I', c.relname),
               lower(a.privilege_type), null, a.is_grantable
          from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) a
         where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and a.grantee <> c.relowner
        union all
        select a.grantee, case c.relkind when 'v' then 'view' else 'table' end, format('tasker.%I', c.relname), lower(a.privilege_type),
               array_agg(t.attname::text order by t.attname), a.is_grantable
          from pg_catalog.pg_class c
          join pg_catalog.pg_attribute t on t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
         cross join lateral aclexplode(t.attacl) a
         where c.relnamespace = 'tasker'::regnamespace and a.grantee <> c.relowner
         group by c.oid, c.relname, c.relkind, a.grantee, a.privilege_type, a.is_grantable) x
  left join pg_catalog.pg_roles r on r.oid = x.grantee;
comment on view tasker.access_rights is 'Who may do what in schema tasker, as the server''s catalogue has it: one row for each right that somebody but the owner has.';
comment on column tasker.access_rights.role is 'The role; public is everybody.';
comment on column tasker.access_rights.kind is 'schema, function, table, view or sequence.';
comment on column tasker.access_rights.object is 'On what.';
comment on column tasker.access_rights.privilege is 'execute, select, insert, ...';
comment on column tasker.access_rights.columns is 'On these columns only; null: on the whole.';
comment on column tasker.access_rights.is_grantable is 'May hand the right on.';
