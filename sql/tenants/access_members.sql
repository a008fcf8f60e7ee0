create or replace view tasker.access_members as
with recursive members as (
  select m.roleid as role, m.member, array[m.member] as path
    from pg_catalog.pg_auth_members m join pg_catalog.pg_roles r on r.oid = m.roleid and r.rolname ~ '^tasker_(owner|client|worker|operator|auditor|monitor)$'
   union
  select p.role, m.member, p.path || m.member
    from members p join pg_catalog.pg_auth_members m on m.roleid = p.member
   where m.member <> all (p.path)
)
select m.role::regrole::text as role, l.rolname::text as login, l.rolcanlogin as can_login,
       case when cardinality(m.path) > 1 then m.path[1]::regrole::text end as through,
       l.rolsuper as is_superuser, l.rolbypassrls as bypasses_row_security, l.rolcreaterole as creates_roles,
       case when own.login is not null then 'own' when other.login is not null then 'public' else 'none' end as binding,
       case when own.login is not null then own.namespaces else other.namespaces end as namespaces
  from (select distinct on (m.role, m.member) m.* from members m order by m.role, m.member, cardinality(m.path)) m
  join pg_catalog.pg_roles l on l.oid = m.member
  left join tasker.login_bindings own on own.login = l.rolname
  left join tasker.login_bindings other on other.login = 'public';
comment on view tasker.access_members is 'Who is a member of the roles, directly or through others, and to which namespaces each is bound.';
comment on column tasker.access_members.role is 'tasker_client, tasker_operator, ...; tasker_owner for who migrates.';
comment on column tasker.access_members.login is 'The member.';
comment on column tasker.access_members.can_login is 'False: a group.';
comment on column tasker.access_members.through is 'The group through which it is a member; null: it is one itself.';
comment on column tasker.access_members.is_superuser is 'Nothing holds it.';
comment on column tasker.access_members.bypasses_row_security is 'No binding holds it when it reads tables.';
comment on column tasker.access_members.creates_roles is 'Before PostgreSQL 16 it can make itself a member of any role.';
comment on column tasker.access_members.binding is 'own: bound by name; public: held by the binding of public; none.';
comment on column tasker.access_members.namespaces is 'To which namespaces; null: all.';
