"""pgtasker doctor: what only a client can see, exit codes, and that a healthy installation is told to be so."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtasker import migrate
from pgtasker.cli import main
from pgtasker.server import EmbeddedServer
from tests.cli.conftest import Cli
from tests.pooler import needs_pgbouncer, pooler

__all__ = ["pooler"]

Finding = dict[str, Any]


def found(cli: Cli, *args: str, expect: int = 2, **options: Any) -> dict[str, Finding]:
    report = cli("doctor", "--json", *args, expect=expect, **options).json
    assert report["status"] == {0: "well", 1: "warning", 2: "error"}[expect] or report["status"] == "notice"
    return {finding["finding"]: finding for finding in report["findings"]}


@pytest.fixture
def installation(server_folder: Path) -> Iterator[Path]:
    """The folder of a server as `pgtasker db up` makes it."""
    folder = server_folder / "doctor"
    yield folder
    EmbeddedServer(folder).stop("immediate")
    shutil.rmtree(folder)


def test_exit_codes_from_well_to_broken_and_back(run_cli: Cli, installation: Path) -> None:
    place = {"PGTASKER_DATA_DIR": str(installation)}
    ran = run_cli("doctor", **place)
    assert (ran.stdout, ran.stderr.splitlines()[-1].rpartition(": ")[2]) == ("", "nothing found")
    assert run_cli("doctor", "--json", **place).json["status"] == "well"
    with psycopg.connect(EmbeddedServer(installation).uri("pgtasker"), autocommit=True) as conn:
        conn.execute("create index mine on tasker.tasks (name)")
        ran = run_cli("doctor", expect=1, **place)
        assert ran.stdout.splitlines() == [
            "warning: object_that_is_not_ours: index tasker.mine",
            "    expected  nothing of that name",
            "    actual    CREATE INDEX mine ON tasker.tasks USING btree (name)",
            "    mend      drop index tasker.mine",
        ]
        conn.execute("drop function tasker.tick(int)")
        assert run_cli("doctor", expect=2, **place).stdout.startswith("error: ")
        run_cli("migrate", "--again", **place)
        assert conn.execute("select to_regprocedure('tasker.tick(int)') is not null").fetchone() == (True,)
    run_cli("doctor", expect=1, **place)


def test_a_server_without_the_schema(run_cli: Cli, empty_database: str) -> None:
    missing = found(run_cli, expect=2, PGTASKER_DSN=empty_database)["schema_that_is_missing"]
    assert missing["mend"] == "pgtasker migrate"


def test_tables_without_functions(run_cli: Cli, empty_database: str) -> None:
    """Such as a migration that was stopped at an earlier revision leaves them."""
    migrate.upgrade(empty_database, "0014_summaries")
    missing = found(run_cli, expect=2, PGTASKER_DSN=empty_database)["schema_that_is_missing"]
    run_cli(*missing["mend"].split()[1:], PGTASKER_DSN=empty_database)
    assert not [name for name, one in found(run_cli, PGTASKER_DSN=empty_database).items() if one["topic"] == "schema"]


@pytest.mark.parametrize("damage", ["select", "drop function tasker.diagnose(interval, interval)"])
def test_migrations_that_are_pending(cli: Cli, conn: psycopg.Connection[Any], damage: str) -> None:
    """Also where the schema is so old that it can't diagnose itself."""
    conn.execute(damage.encode())
    newest = conn.execute("select version_num from tasker.alembic_version").fetchone()
    conn.execute("update tasker.alembic_version set version_num = '0014_summaries'")
    told = found(cli)["migrations_that_are_pending"]
    assert newest is not None
    assert (told["expected"], told["actual"], told["mend"]) == (newest[0], "0014_summaries", "pgtasker migrate")


def test_functions_of_another_version(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("update tasker.schema_info set value = 'older' where key = 'sql_tree_checksum'")
    told = found(cli)["functions_of_another_version"]
    cli(*told["mend"].split()[1:])
    assert "functions_of_another_version" not in found(cli)


@needs_pgbouncer
def test_notifications_that_a_pooler_swallows(run_cli: Cli, pooler: str, database: str) -> None:
    lost = found(run_cli, PGTASKER_DSN=pooler)["notifications_that_do_not_arrive"]
    assert "pooler in transaction mode" in lost["actual"]
    assert "listen_dsn" in lost["mend"]
    assert "notifications_that_do_not_arrive" not in found(run_cli, PGTASKER_DSN=database)
    assert "notifications_that_do_not_arrive" not in found(run_cli, "--listen-dsn", database, PGTASKER_DSN=pooler)


def test_a_listening_connection_that_can_not_be_made(cli: Cli) -> None:
    lost = found(cli, "--listen-dsn", "host=/nowhere dbname=x")["notifications_that_do_not_arrive"]
    assert "can't be made" in lost["actual"]


@pytest.mark.parametrize(("shift", "side"), [(-90.0, "ahead"), (90.0, "behind")])
def test_clocks_that_differ(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shift: float, side: str
) -> None:
    right = time.time
    monkeypatch.setattr("pgtasker.cli.doctor.time.time", lambda: right() + shift)
    main(["--dsn", database, "--json", "doctor"])
    findings = {finding["finding"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["clocks_that_differ"]["actual"].endswith(side)
    assert findings["clocks_that_differ"]["actual"].startswith("the server is 90.")
    monkeypatch.undo()
    main(["--dsn", database, "--json", "doctor"])
    assert "clocks_that_differ" not in capsys.readouterr().out


def test_limits_are_given_on_the_command_line(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    with psycopg.connect(conn.info.dsn) as other:
        other.execute("create temporary table t (x int)")
        assert "transaction_that_holds_vacuum_back" in found(cli, "--after", "0 s")
        assert "transaction_that_holds_vacuum_back" not in found(cli)
    assert "evidence_not_sealed" in found(cli, "--seal-after", "0 s")
