"""Evidence survives pg_dump and restore: on the same server, and on another one that counts its transactions anew."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgtasker.migrate import SQL_TREE
from pgtasker.server import EmbeddedServer
from tests.audit.evidence import LOGS, live, seal, triggers_off, verify, work
from tests.conftest import SERVERS, SETTINGS, TestServer
from tests.kernel.engine import Engine, chain


def run(server: EmbeddedServer, program: str, *arguments: str, text: str | None = None) -> str:
    """A client program of the server's version; its output."""
    done = subprocess.run(
        [str(server.bin_dir / program), *arguments], input=text, capture_output=True, text=True, check=False,
        env={**os.environ, "PGOPTIONS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def restore(server: EmbeddedServer, dsn: str, dump: str) -> None:
    run(server, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, text=dump)


def counted(engine: Engine) -> tuple[int, int]:
    """How many transitions the counters of metrics tell of, and how many there are."""
    while engine.one("select tasker.metrics_fold()"):
        pass
    return (
        engine.one("select coalesce(sum(transitions), 0)::bigint from tasker.metrics_transition_totals"),
        engine.one("select " + " + ".join(f"(select count(*) from tasker.{LOGS[log][0]})" for log in LOGS if log not in ("rejection", "event", "binding"))),
    )  # fmt: skip


@pytest.fixture
def lived(engine: Engine) -> Engine:
    """Sealed evidence, and some that is not sealed yet."""
    live(engine)
    seal(engine, limit=50)
    assert len(set(counted(engine))) == 1
    work(engine)
    return engine


def goes_on(dsn: str, kept: str) -> None:
    """Everything fits, work goes on, is sealed, and tampering is still found."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        engine = Engine(conn)
        assert verify(engine) == []
        assert engine.rows("select * from tasker.verify_digest(%s)", kept) == []
        assert engine.rows("select * from tasker.unaccounted_rows()") == []
        for _ in range(3):
            work(engine)
            counters, transitions = counted(engine)
            assert counters == transitions
            assert len(seal(engine)) == 1
            assert verify(engine) == []
        covered = engine.one("select sum(upper(r) - lower(r)) from tasker.audit_seals, unnest(change_ids) r")
        assert covered == engine.one("select count(*) from tasker.changes")
        engine.assert_consistent()
        row = engine.one("select task_transition_uuid from tasker.task_transitions order by 1 limit 1")
        with triggers_off(engine, "task_transitions"):
            engine.run(
                "update tasker.task_transitions set metadata = '{\"x\": 1}' where task_transition_uuid = %s", row
            )
        assert [(f["finding"], f["row_uuid"]) for f in verify(engine)] == [("row_changed", row)]


def test_on_the_same_server(lived: Engine, server: TestServer, database: str, new_database: Callable[[], str]) -> None:
    kept = lived.one("select tasker.audit_digest()")
    copy = new_database()
    restore(server.server, copy, run(server.server, "pg_dump", "-d", database))
    goes_on(copy, kept)


@pytest.fixture
def other_server(server: TestServer, server_folder: Path) -> Iterator[EmbeddedServer]:
    """A new server of the newest version here."""
    name, programs = next(iter(SERVERS.items()))
    with EmbeddedServer(
        server_folder / f"{name}-other-than-{server.name}", bin_dir=programs, settings=SETTINGS
    ) as other:
        yield other


def test_on_a_server_that_counts_from_the_beginning(
    lived: Engine, server: TestServer, database: str, other_server: EmbeddedServer
) -> None:
    """Its transactions have numbers that the old one used, inside of what is sealed."""
    lived.run("do $$ begin for i in 1 .. 15000 loop perform pg_current_xact_id(); commit; end loop; end $$")
    work(lived)
    seal(lived)
    assert len(set(counted(lived))) == 1
    late = lived.task(chain("not sealed"))
    kept = lived.one("select tasker.audit_digest()")
    with psycopg.connect(other_server.uri(), autocommit=True) as admin:
        admin.execute("create database restored")
        admin.execute((SQL_TREE / "access" / "roles.sql").read_text().encode())
        mine = int(lived.one("select pg_current_xact_id()::text"))
        assert int(admin.execute("select pg_current_xact_id()::text").fetchone()[0]) < mine - 10000  # type: ignore[index]
    dsn = other_server.uri("restored")
    restore(other_server, dsn, run(server.server, "pg_dump", "-d", database))
    goes_on(dsn, kept)
    with psycopg.connect(dsn) as conn:
        assert int(Engine(conn).one("select pg_current_xact_id()::text")) < mine, "it has still not come as far"
        assert Engine(conn).state(late) == "complete"


def test_data_alone_goes_into_the_schema_of_the_same_dump(
    lived: Engine, server: TestServer, database: str, new_database: Callable[[], str]
) -> None:
    """Triggers have to be off meanwhile: they would write audit rows and changes a second time."""
    kept = lived.one("select tasker.audit_digest()")
    copy = new_database()
    restore(server.server, copy, run(server.server, "pg_dump", "--schema-only", "-d", database))
    restore(server.server, copy, run(server.server, "pg_dump", "--data-only", "--disable-triggers", "-d", database))
    goes_on(copy, kept)
