"""plpgsql_check reads every PL/pgSQL body: names, types, unused variables, missing returns. Bodies are plain text to
PostgreSQL itself until they run."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[Any]

AGREED: set[tuple[str, str]] = set()
"""(function, message) pairs that are right as they are, each with its reason beside it."""

# A trigger function is checked once for each table that uses it, transition tables included.
CHECK = """
select p.oid::regprocedure::text, coalesce(c.lineno, 0), c.level, c.message, coalesce(c.detail, c.hint, '')
from pg_catalog.pg_proc as p
inner join pg_catalog.pg_language as l on p.prolang = l.oid and l.lanname = 'plpgsql'
left join pg_catalog.pg_trigger as t on p.oid = t.tgfoid and not t.tgisinternal
cross join lateral plpgsql_check_function_tb(
    p.oid, coalesce(t.tgrelid, 0),
    newtable => t.tgnewtable, oldtable => t.tgoldtable,
    extra_warnings => true, performance_warnings => false, security_warnings => true
) as c
where p.pronamespace = 'tasker'::regnamespace
    and (p.prorettype <> 'trigger'::regtype or t.oid is not null)
order by 1, 2
"""

UNUSED_TRIGGER_FUNCTIONS = """
select p.oid::regprocedure::text from pg_catalog.pg_proc as p
where p.pronamespace = 'tasker'::regnamespace and p.prorettype = 'trigger'::regtype
    and not exists (select from pg_catalog.pg_trigger as t where t.tgfoid = p.oid)
"""


@pytest.fixture
def checker(conn: Connection) -> Connection:
    if conn.execute("select from pg_available_extensions where name = 'plpgsql_check'").fetchone() is None:
        pytest.skip("this server has no plpgsql_check (Debian: postgresql-15-plpgsql-check)")
    conn.execute("create extension plpgsql_check schema pg_catalog")
    return conn


def attach_a_table(conn: Connection) -> None:
    """Two trigger functions stand on users' tables only."""
    conn.execute(
        """
        create schema shop;
        create table shop.orders (order_id int primary key);
        create trigger start after insert on shop.orders referencing new table as appended
            for each statement execute function tasker.start_attached();
        create trigger keep before update on shop.orders for each row execute function tasker.keep_attached_key();
        """
    )


def complaints(conn: Connection) -> list[str]:
    rows = conn.execute(CHECK.encode()).fetchall()
    return [
        f"{function}:{line} {level}: {message} {more}".rstrip()
        for function, line, level, message, more in rows
        if (function, message) not in AGREED
    ]


def test_every_body_is_right(checker: Connection) -> None:
    attach_a_table(checker)
    assert complaints(checker) == []


def test_every_trigger_function_is_used_and_so_checked(conn: Connection) -> None:
    attach_a_table(conn)
    assert conn.execute(UNUSED_TRIGGER_FUNCTIONS.encode()).fetchall() == []


def test_a_wrong_body_is_seen(checker: Connection) -> None:
    checker.execute(
        """
        create function tasker.wrong(p_unused int) returns int language plpgsql set search_path = pg_catalog, pg_temp
        as $$ begin return (select no_such_column from tasker.schema_info); end $$;
        create function tasker.wrong_trigger() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
        as $$ begin new.no_such_column := 1; return new; end $$;
        create trigger wrong before insert on tasker.schema_info for each row execute function tasker.wrong_trigger();
        """
    )
    seen = "\n".join(complaints(checker))
    assert 'tasker.wrong(integer):1 error: column "no_such_column" does not exist' in seen
    assert "tasker.wrong_trigger():1 error" in seen
