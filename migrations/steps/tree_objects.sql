-- Every routine, view and trigger of schema tasker, with a mark that changes when it is made or replaced.
-- A routine's mark is its dependency on the schema: GRANT rewrites its pg_proc row too, CREATE OR REPLACE alone this.
select
    'routine ' || d.objid::regprocedure::text as identity,
    d.ctid::text || d.xmin::text as mark
from pg_catalog.pg_depend as d
where
    d.classid = 'pg_catalog.pg_proc'::regclass
    and d.refclassid = 'pg_catalog.pg_namespace'::regclass
    and d.refobjid = to_regnamespace('tasker')
union all
select
    'view ' || c.oid::regclass::text,
    r.ctid::text || r.xmin::text
from pg_catalog.pg_class as c
inner join pg_catalog.pg_rewrite as r on c.oid = r.ev_class and r.rulename = '_RETURN'
where c.relnamespace = to_regnamespace('tasker') and c.relkind = 'v'
union all
select
    format('trigger %I on %s', t.tgname, c.oid::regclass),
    t.ctid::text || t.xmin::text
from pg_catalog.pg_trigger as t
inner join pg_catalog.pg_class as c on t.tgrelid = c.oid
where c.relnamespace = to_regnamespace('tasker') and not t.tgisinternal
