"""A database of an earlier version, with work of every kind in flight, is upgraded and goes on."""

from __future__ import annotations

import lzma
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtasker import Client, SchemaMissing, Worker, migrate
from tests.schema.test_migrations import difference, dump, psql
from tests.workflow.engine import BY, Engine

RECORDED = sorted(Path(__file__).parent.glob("*.sql.xz"))


def with_python(server: Any, dsn: str, tmp_path: Path) -> None:
    before = migrate.current(dsn)
    upgrade = migrate.upgrade(dsn)
    assert upgrade.before == before and upgrade.tree_applied


def with_psql_alone(server: Any, dsn: str, tmp_path: Path) -> None:
    script = tmp_path / "upgrade.sql"
    script.write_text(migrate.offline_sql(migrate.current(dsn)))
    outcome = psql(server, dsn, script, "-1")
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.fixture(
    params=[(path, way) for path in RECORDED for way in (with_python, with_psql_alone)],
    ids=lambda made: f"{made[0].name.removesuffix('.sql.xz')}-{made[1].__name__}",
)
def upgraded(request: Any, server: Any, empty_database: str, tmp_path: Path) -> str:
    """The connection string of a database that was restored as it was recorded, and upgraded."""
    recorded, way = request.param
    restore(server, empty_database, lzma.decompress(recorded.read_bytes()))
    way(server, empty_database, tmp_path)
    return empty_database


def test_a_script_for_another_revision_is_refused(server: Any, database: str, tmp_path: Path) -> None:
    script = tmp_path / "upgrade.sql"
    script.write_text(migrate.offline_sql("0014_summaries"))
    outcome = psql(server, database, script, "-1")
    assert outcome.returncode == 3 and "upgrades from revision 0014_summaries" in outcome.stderr
    with pytest.raises(migrate.MigrationError):
        migrate.offline_sql("0000_none")


def restore(server: Any, dsn: str, script: bytes) -> None:
    command = [server.server.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn]
    restored = subprocess.run(command, input=script, capture_output=True, check=False)
    assert restored.returncode == 0, restored.stderr.decode()


def rewritten(server: Any, dsn: str, into: str) -> list[str]:
    """The schema of a database after a dump and restore, by which a server writes all expressions in one way."""
    made = subprocess.run([server.server.program("pg_dump"), "--schema-only", dsn], capture_output=True, check=True)
    restore(server, into, made.stdout)
    schema = "\n".join(dump(server, into, "--schema=tasker"))
    # made for the server on which a database was installed first
    schema = re.sub(r"CREATE FUNCTION tasker.uuid_generate_v7.*?;\n", "", schema, flags=re.S)
    return re.sub(r"CONSTRAINT \w+ NOT NULL", "NOT NULL", schema).splitlines()  # named since PostgreSQL 18


def test_the_schema_is_that_of_a_fresh_installation(
    server: Any, database: str, upgraded: str, new_database: Callable[[], str]
) -> None:
    fresh, ours = (rewritten(server, dsn, new_database()) for dsn in (database, upgraded))
    assert difference(fresh, ours) == ""


def test_what_was_in_flight_goes_on_to_its_end(upgraded: str) -> None:
    with psycopg.connect(upgraded, autocommit=True) as connection:
        engine = Engine(connection)
        engine.check()
        assert engine.rows("select * from tasker.verify_audit()") == []
        ended = {
            row["task_uuid"]: row["state"]
            for row in engine.rows("select task_uuid, state from tasker.task_overview where is_terminal")
        }
        assert ended
        open_before = engine.one("select count(*) from tasker.task_overview where not is_terminal")
        assert open_before > 20

        # the workers of then are gone; leases, backoffs and cooldowns end
        engine.call("reset_breaker", p_tool="press", **BY)
        worker = engine.worker("new", p_capabilities=["gpu"])
        supervised = [engine.worker(f"supervised {n}", p_vocabulary="supervision") for n in range(20)]
        for uuid in engine.column("select task_uuid from tasker.task_overview where phase = 'pending'"):
            (event, *_) = engine.column(
                "select event from tasker.allowed_events('task', %s) where fired_by <> 'command'", uuid
            )
            engine.call("transition_task", p_task_uuid=uuid, p_event=event)
        for hours in range(0, 200, 25):
            engine.shift_clock(f"{hours} hours")
            engine.rows("select tasker.worker_heartbeat(%s)", worker)
            engine.drain(worker=worker)
            for each in supervised:
                if engine.one("select is_terminal from tasker.worker_overview where worker_uuid = %s", each) is False:
                    engine.drain(worker=each)
        left = engine.rows(
            "select task_uuid, vocabulary, state from tasker.task_overview where not is_terminal and failed_steps = 0"
        )
        assert left == []
        states = {
            row["task_uuid"]: row["state"] for row in engine.rows("select task_uuid, state from tasker.task_overview")
        }
        assert ended.items() <= states.items(), "what had ended stays as it was"
        engine.check()
        engine.call("seal_audit")
        assert engine.rows("select * from tasker.verify_audit()") == []
        assert engine.one("select tasker.attached_state('shop.orders', '1')") == "placed"
        assert engine.one("select tasker.fire('shop.orders', '1', 'pay', p_requested_by => 'ada')") == "paid"
        assert engine.call("create_task", p_name="kept", p_idempotency_key="recorded") in states


@pytest.mark.parametrize(
    "newer",
    [
        "update tasker.alembic_version set version_num = '9999_later'",
        "update tasker.schema_info set value = '99.1.0' where key = 'schema_version'",
    ],
)
def test_an_older_version_does_not_go_over_a_newer_one(database: str, newer: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(newer.encode())
    with pytest.raises(migrate.MigrationError, match="newer than this one"):
        migrate.upgrade(database)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: str(path.name.removesuffix(".sql.xz")))
def test_a_newer_client_and_worker_say_what_an_older_schema_lacks(
    server: Any, empty_database: str, recorded: Path
) -> None:
    restore(server, empty_database, lzma.decompress(recorded.read_bytes()))
    with Client(empty_database) as client, pytest.raises(SchemaMissing, match="pgtasker migrate"):
        client.create_task("kept", start_at=None)
    worker = Worker(empty_database, name="new")
    worker.step("a")(lambda ctx: None)
    with pytest.raises(SchemaMissing, match="pgtasker migrate"):
        worker.run()
