"""What must hold for every object of schema tasker, asked of the server's own catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.workflow.engine import graph, step

ROOT = Path(__file__).resolve().parents[2]
Connection = psycopg.Connection[Any]


def found(conn: Connection, query: str) -> list[str]:
    """Run a query for offenders; each row is one text."""
    return [row[0] for row in conn.execute(query.encode()).fetchall()]


WITHOUT_COMMENT = """
with ours as (
    select oid, relkind, relname, reltype from pg_class
    where relnamespace = 'tasker'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'c')
)
select format('%s %s', case when relkind in ('v', 'm') then 'view' else 'table' end, relname)
from ours where relkind <> 'c' and obj_description(oid, 'pg_class') is null
union all
select format('type %s', relname) from ours where relkind = 'c' and obj_description(reltype, 'pg_type') is null
union all
select format('type %s', typname) from pg_type
where typnamespace = 'tasker'::regnamespace and typtype in ('e', 'd', 'r') and obj_description(oid, 'pg_type') is null
union all
select format('column %s.%s', o.relname, a.attname)
from ours as o inner join pg_attribute as a on o.oid = a.attrelid
where o.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped and col_description(o.oid, a.attnum) is null
union all
select format('function %s', p.oid::regprocedure) from pg_proc as p
where p.pronamespace = 'tasker'::regnamespace and obj_description(p.oid, 'pg_proc') is null
union all
select format('trigger %s on %s', t.tgname, o.relname)
from pg_trigger as t inner join ours as o on t.tgrelid = o.oid
where not t.tgisinternal and obj_description(t.oid, 'pg_trigger') is null
union all
select 'schema tasker' where obj_description('tasker'::regnamespace, 'pg_namespace') is null
order by 1
"""

UNPINNED = """
select p.oid::regprocedure::text from pg_proc as p
where p.pronamespace = 'tasker'::regnamespace
    and p.prosqlbody is null
    and not exists (
        select from unnest(p.proconfig) as setting where setting ~ '^search_path=(.*, *)?"?pg_temp"?$'
    )
order by 1
"""

OPEN_TO_PUBLIC = """
select format('%s on function %s', privilege_type, p.oid::regprocedure)
from pg_proc as p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
where p.pronamespace = 'tasker'::regnamespace and grantee = 0
union all
select format('%s on %s', privilege_type, c.oid::regclass)
from pg_class as c,
    aclexplode(coalesce(c.relacl, acldefault((case c.relkind when 'S' then 's' else 'r' end)::"char", c.relowner)))
where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and grantee = 0
union all
select format('%s on column %s.%s', privilege_type, a.attrelid::regclass, a.attname)
from pg_attribute as a inner join pg_class as c on a.attrelid = c.oid, aclexplode(a.attacl)
where c.relnamespace = 'tasker'::regnamespace and grantee = 0
union all
select format('%s on schema %s', privilege_type, n.nspname)
from pg_namespace as n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner)))
where n.nspname in ('tasker', 'pgmq') and grantee = 0
order by 1
"""

NOT_OURS = """
select format('%s belongs to %s', c.oid::regclass, c.relowner::regrole) from pg_class as c
where c.relnamespace = 'tasker'::regnamespace and c.relowner <> 'tasker_owner'::regrole
union all
select format('%s belongs to %s', p.oid::regprocedure, p.proowner::regrole) from pg_proc as p
where p.pronamespace = 'tasker'::regnamespace and p.proowner <> 'tasker_owner'::regrole
union all
select format('schema %s belongs to %s', nspname, nspowner::regrole) from pg_namespace
where nspname in ('tasker', 'pgmq') and nspowner <> 'tasker_owner'::regrole
order by 1
"""

RENEWED_EVERY_MINUTE = """
select c.oid::regclass::text from pg_class as c
where (
    c.relnamespace = 'tasker'::regnamespace and c.relkind = 'r'
    or c.oid in (select to_regclass(format('pgmq.%I', 'q_' || m.queue_name)) from pgmq.meta as m)
) and not coalesce(c.reloptions, '{}') @> '{autovacuum_analyze_threshold=10000,autovacuum_vacuum_threshold=1000}'
order by 1
"""


def test_every_object_has_a_comment(conn: Connection) -> None:
    assert found(conn, WITHOUT_COMMENT) == []


def test_every_function_has_a_pinned_search_path(conn: Connection) -> None:
    assert found(conn, UNPINNED) == []


def test_statistics_are_not_renewed_after_every_fifty_rows(conn: Connection) -> None:
    """New statistics of a table make every session plan anew what reads it, in the middle of somebody's call."""
    conn.execute("select tasker.ensure_namespace('north')")
    conn.execute("select tasker.create_task_from_graph(%s)", [Jsonb(graph(step("a", requires=["gpu"])))])
    assert found(conn, "select queue_name from pgmq.meta where queue_name like 'worker_%_cap_queue'") != []
    assert found(conn, RENEWED_EVERY_MINUTE) == []


def test_public_has_nothing(conn: Connection) -> None:
    assert found(conn, OPEN_TO_PUBLIC) == []


def test_public_gets_nothing_of_what_comes_later(conn: Connection) -> None:
    conn.execute("set role tasker_owner")
    conn.execute("create table tasker.later (x int)")
    conn.execute("create function tasker.later() returns int language sql return 1")
    assert found(conn, OPEN_TO_PUBLIC) == []


def test_everything_belongs_to_the_owner_role(conn: Connection) -> None:
    assert found(conn, NOT_OURS) == []


def test_the_owner_role_can_not_log_in_and_has_no_members(conn: Connection) -> None:
    assert conn.execute(
        """
        select r.rolcanlogin, r.rolsuper, r.rolcreaterole, r.rolbypassrls,
            array(select m.member::regrole::text from pg_auth_members as m where m.roleid = r.oid)
        from pg_roles as r where r.rolname = 'tasker_owner'
        """
    ).fetchone() == (False, False, False, False, [])


def test_the_checks_see_an_offender(conn: Connection) -> None:
    """The checks above are empty because nothing offends, not because they see nothing."""
    conn.execute(
        """
        create table tasker.offender (x int);
        grant select on tasker.offender to public;
        grant update (x) on tasker.offender to public;
        create function tasker.offend() returns trigger language plpgsql as $$ begin return null; end $$;
        grant execute on function tasker.offend() to public;
        create function tasker.open_path() returns int language sql set search_path = pg_temp, public as 'select 1';
        create function tasker.pinned() returns int language sql set search_path = pg_catalog, pg_temp as 'select 1';
        create trigger offending before insert on tasker.offender execute function tasker.offend();
        create type tasker.offence as enum ('x');
        create view tasker.offended as select x from tasker.offender;
        """
    )
    assert found(conn, WITHOUT_COMMENT) == [
        "column offender.x",
        "function tasker.offend()",
        "function tasker.open_path()",
        "function tasker.pinned()",
        "table offender",
        "trigger offending on offender",
        "type offence",
        "view offended",
    ]
    assert found(conn, UNPINNED) == ["tasker.offend()", "tasker.open_path()"]
    assert found(conn, RENEWED_EVERY_MINUTE) == ["tasker.offender"]
    assert found(conn, OPEN_TO_PUBLIC) == [
        "EXECUTE on function tasker.offend()",
        "EXECUTE on function tasker.open_path()",
        "EXECUTE on function tasker.pinned()",
        "SELECT on tasker.offender",
        "UPDATE on column tasker.offender.x",
    ]
    assert {line.split(" belongs")[0] for line in found(conn, NOT_OURS)} >= {"tasker.offender", "tasker.offend()"}


def raising(body: str) -> bool:
    """Return whether a PL/pgSQL body can raise an error by itself (comments and literals aside)."""
    bare = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", body, flags=re.DOTALL)
    return re.search(r"\braise\b(?!\s+(debug|log|info|notice|warning)\b)", bare, re.IGNORECASE) is not None


def test_only_raise_error_raises(conn: Connection) -> None:
    bodies = dict(
        conn.execute(
            "select oid::regprocedure::text, prosrc from pg_proc where pronamespace = 'tasker'::regnamespace"
        ).fetchall()
    )
    assert [name for name, body in bodies.items() if raising(body)] == ["tasker.raise_error(text,text,jsonb,text)"]


def test_raising_is_recognised() -> None:
    assert raising("begin raise exception 'x'; end")
    assert raising("begin RAISE sqlstate 'TK404'; end")
    assert raising("exception when others then raise; end")
    assert not raising("begin raise notice 'x'; perform tasker.raise_error('TK400', 'raise exception'); -- raise\nend")


def test_every_code_in_the_tree_is_in_the_error_catalogue(conn: Connection) -> None:
    known = set(found(conn, "select code from tasker.error_catalogue"))
    used = {
        code for path in (ROOT / "sql").rglob("*.sql") for code in re.findall(r"\bTK[0-9A-Z]{3}\b", path.read_text())
    }
    assert used - known == set()
    assert known <= used
    assert len(known) >= 9
