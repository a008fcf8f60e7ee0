create or replace view tasker.access_warnings as
with granted as (  -- as the newest migration left it
  select g.role, g.kind, g.object, g.privilege, g.columns
    from tasker.schema_info i
   cross join lateral jsonb_to_recordset(i.value::jsonb) as g(role text, kind text, object text, privilege text, columns text[])
   where i.key = 'access_rights'
), made as (
  select m.object, m.digest
    from tasker.schema_info i cross join lateral jsonb_each_text(i.value::jsonb) as m(object, digest)
   where i.key = 'object_digests'
), there as materialized (
  select d.object, d.digest from tasker.object_digests() d
), found as (
  select r.role, r.kind, r.object, r.privilege, r.columns from tasker.access_rights r
)
select 'right_that_no_file_gives' as finding, x.role as subject,
       format('%s on %s %s%s', x.privilege, x.kind, x.object, ' (' || array_to_string(x.columns, ', ') || ')') as detail
  from (select * from found except select * from granted) x
union all
select 'right_that_is_missing', x.role, format('%s on %s %s%s', x.privilege, x.kind, x.object, ' (' || array_to_string(x.columns, ', ') || ')')
  from (select * from granted except select * from found) x
union all
select 'right_that_may_be_handed_on', r.role, format('%s on %s %s', r.privilege, r.kind, r.object)
  from tasker.access_rights r where r.is_grantable
union all
select 'role_with_more_than_a_role_has', r.rolname, 'it can log in, is a superuser, makes roles or databases, replicates or bypasses row security'
  from pg_catalog.pg_roles r
 where r.rolname ~ '^tasker_(owner|client|worker|operator|auditor|monitor)$'
   and (r.rolcanlogin or r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls)
union all
select 'member_that_nothing_holds', m.login, format('%s, and a superuser or one that bypasses row security', m.role)
  from tasker.access_members m where m.is_superuser or m.bypasses_row_security
union all
select 'login_that_reads_or_writes_everything', r.rolname, p.role
  from pg_catalog.pg_roles r cross join unnest(array['pg_read_all_data', 'pg_write_all_data']) as p(role)
 where r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, p.role, 'member')
union all
select 'login_that_may_switch_triggers_off', coalesce(r.rolname, 'public'), 'it may set session_replication_role'
  from pg_catalog.pg_parameter_acl a
 cross join lateral aclexplode(a.paracl) as x
  left join pg_catalog.pg_roles r on r.oid = x.grantee
 where a.parname = 'session_replication_role' and not coalesce(r.rolsuper, false)
union all
select 'member_with_conflicting_duties', m.login, format('tasker_auditor and %s', string_agg(distinct o.role, ', '))
  from tasker.access_members m
  join tasker.access_members o on o.login = m.login and o.role in ('tasker_owner', 'tasker_client', 'tasker_worker', 'tasker_operator')
 where m.role = 'tasker_auditor' and m.can_login
 group by m.login
union all
select 'binding_that_does_not_hold', b.login, 'it is a superuser, bypasses row security or is a member of tasker_owner'
  from tasker.login_bindings b
  join pg_catalog.pg_roles r on r.rolname = b.login
 where b.namespaces is not null and (r.rolsuper or r.rolbypassrls or pg_has_role(r.oid, 'tasker_owner', 'member'))
union all
select 'binding_of_nobody', b.login, 'there is no such role: it was dropped, or renamed and is not bound any more'
  from tasker.login_bindings b
 where b.login <> 'public' and not exists (select from pg_catalog.pg_roles r where r.rolname = b.login)
union all
select 'object_of_somebody_else', o.owner::regrole::text, o.object
  from (select p.proowner as owner, format('function %s', p.oid::regprocedure) as object from pg_catalog.pg_proc p where p.pronamespace = 'tasker'::regnamespace
        union all
        select c.relowner, format('relation %s', c.oid::regclass) from pg_catalog.pg_class c
         where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')) o
 where o.owner::regrole::text <> 'tasker_owner'
union all
select case when m.object is null then 'object_that_is_not_ours' when t.object is null then 'object_that_is_missing' else 'object_that_was_changed' end,
       'tasker', coalesce(t.object, m.object)
  from made m
  full join there t on t.object = m.object
 where t.digest is distinct from m.digest
   -- there is nothing to compare with before the first migration, and after the first one on another version of the server
   and exists (select from made join there using (object, digest) where object = 'server')
union all
select 'trigger_that_is_switched_off', t.tgrelid::regclass::text, t.tgname
  from pg_catalog.pg_trigger t
  join pg_catalog.pg_class c on c.oid = t.tgrelid and c.relnamespace = 'tasker'::regnamespace
 where t.tgenabled = 'D' or (t.tgname ~ '^(refuse_|check_)' and not t.tgisinternal and t.tgenabled <> 'A' and c.relname ~ '_(transitions|audit|changes)$')
union all
select 'rule_that_is_not_ours', w.ev_class::regclass::text, w.rulename
  from pg_catalog.pg_rewrite w
  join pg_catalog.pg_class c on c.oid = w.ev_class and c.relnamespace = 'tasker'::regnamespace
 where w.rulename <> '_RETURN'
union all
select 'row_security_that_is_switched_off', c.oid::regclass::text, 'it has a policy, and row security is not enabled'
  from pg_catalog.pg_class c
 where c.relnamespace = 'tasker'::regnamespace and not c.relrowsecurity
   and exists (select from pg_catalog.pg_policy p where p.polrelid = c.oid);
comment on view tasker.access_warnings is
  'What does not look as the newest migration left it, or as it should: rights, members, bindings, owners, triggers, rules. Empty when all is well.';
comment on column tasker.access_warnings.finding is 'What was found.';
comment on column tasker.access_warnings.subject is 'The role, login or table.';
comment on column tasker.access_warnings.detail is 'What about it.';
