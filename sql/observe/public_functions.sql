create or replace view tasker.public_functions as
select p.proname::text as name,
       (select coalesce(jsonb_agg(jsonb_build_object('name', a.name, 'type', format_type(a.type, null), 'default', a.preset)
                                  order by a.position), '[]')
          from (select u.position, coalesce(p.proargnames[u.position], '') as name, u.type,
                       -- the n-th input argument; the last ones have defaults
                       pg_get_function_arg_default(p.oid, u.position::int) as preset
                  from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as u(type, position)
                 where coalesce(p.proargmodes[u.position], 'i') in ('i', 'b', 'v')) a) as arguments,
       format_type(p.prorettype, null) as returns,
       p.proretset as returns_set,
       (select coalesce(jsonb_agg(jsonb_build_object('name', c.name, 'type', c.type) order by c.position), '[]')
          from (select u.position, p.proargnames[u.position] as name, format_type(u.type, null) as type
                  from unnest(p.proallargtypes) with ordinality as u(type, position)
                 where p.proargmodes[u.position] in ('o', 'b', 't')
                union all
                select t.attnum, t.attname, format_type(t.atttypid, t.atttypmod)
                  from pg_catalog.pg_type y
                  join pg_catalog.pg_attribute t on t.attrelid = y.typrelid and t.attnum > 0 and not t.attisdropped
                 where y.oid = p.prorettype) c) as columns,
       case p.provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end as volatility,
       g.roles,
       obj_description(p.oid, 'pg_proc') as description
  from pg_catalog.pg_proc p
 cross join lateral (
   select array_agg(r.rolname::text order by r.rolname) as roles
     from aclexplode(p.proacl) x join pg_catalog.pg_roles r on r.oid = x.grantee
    where x.grantee <> p.proowner and x.privilege_type = 'EXECUTE') g
 where p.pronamespace = 'tasker'::regnamespace and p.prorettype <> 'trigger'::regtype and g.roles is not null;
comment on view tasker.public_functions is
  'Every function that some role may call: what pgtasker sql api prints, for whoever writes or generates a client.';
comment on column tasker.public_functions.name is 'The name, without its schema.';
comment on column tasker.public_functions.arguments is '[{"name", "type", "default"}] in order; default is an SQL expression, null: the argument must be given.';
comment on column tasker.public_functions.returns is 'The type of what it returns; record where it has columns of its own.';
comment on column tasker.public_functions.returns_set is 'Whether it returns any number of rows.';
comment on column tasker.public_functions.columns is '[{"name", "type"}]: the columns of its rows; empty for a single value.';
comment on column tasker.public_functions.volatility is 'volatile: it may write. stable, immutable: it only reads.';
comment on column tasker.public_functions.roles is 'The roles that may call it.';
comment on column tasker.public_functions.description is 'Its comment.';
