"""The demo, and the embedded server that stands behind it when nothing else is named."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def reports_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo leaves its report in a folder of its own below the temporary one."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_demo_end_to_end(cli: Cli, database: str, conn: psycopg.Connection[Any]) -> None:
    began = time.monotonic()
    ran = cli("demo")
    assert time.monotonic() - began < 60
    assert ran.stderr.startswith("pgtasker demo\n")
    for said in ("server    PostgreSQL", "workers   2 processes", "workflow  library-census, 32 steps"):
        assert said in ran.stderr
    assert "library-census: complete, 32 of 32 steps" in ran.stderr
    for printed in ("report", "files in 24 chunks", "timeline", "waiting_for_retry", "audit trail (34 results"):
        assert printed in ran.stdout
    state, steps, audit = conn.execute(
        "select state, total_steps, (select count(*) from tasker.workflow_step_result_audit) from tasker.task_overview"
    ).fetchone() or ("", 0, 0)
    assert (state, steps, audit) == ("complete", 32, 32 + 2)
    failures = conn.execute(
        "select step_name, metadata::text from tasker.get_task_audit_history((select task_uuid from tasker.tasks))"
        " where not success"
    ).fetchall()
    assert [name for name, _ in failures] == ["outbox", "outbox"]
    assert all("outbox" in metadata for _, metadata in failures)
    (workers,) = conn.execute(
        "select count(distinct worker_uuid) from tasker.workflow_step_result_audit"
    ).fetchone() or (0,)
    assert workers == 2


def test_demo_again_and_as_json(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    first = cli("demo", "--json")
    second = cli("demo", "--json", "--full")
    assert first.stderr == second.stderr == ""
    assert first.json["task"]["task_uuid"] != second.json["task"]["task_uuid"]
    # The same files: the same counts, whatever the order the chunks were read in.
    fingerprints = {run.json["report"]["text"].splitlines()[-1] for run in (first, second)}
    assert len(fingerprints) == 1
    assert cli("check", "--json").json == []


def test_the_printed_commands_work(cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        line.split("  #")[0].strip()
        for line in cli("demo").stdout.partition("where to go next")[2].splitlines()
        if "  #" in line
    ]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command.partition(" > ")[0])
        words = words[words.index("pgtasker.cli") + 1 :]
        ran = cli(*words)
        assert ran.stdout or words[0] == "check", command
        if " > " in command:
            Path(command.partition(" > ")[2]).write_text(ran.stdout)


def test_without_a_server_the_embedded_one_is_used(run_cli: Cli, server_folder: Path) -> None:
    environment = {"PGTASKER_DATA_DIR": str(server_folder / "embedded")}

    def embedded(*args: object, expect: int = 0) -> Any:
        return run_cli(*args, expect=expect, **environment)

    try:
        assert embedded("db", "status", "--json", expect=1).json["running"] is False
        first = embedded("task", "list", "--json")
        assert first.json == []
        assert "starting the embedded PostgreSQL" in first.stderr
        assert "installing the schema" in first.stderr
        assert embedded("task", "list").stderr == "no task matches\n"
        up = embedded("db", "up", "--json").json
        assert up["running"] and up["uri"] == embedded("db", "uri").stdout.strip()
        assert embedded("db", "status", "--json").json["running"] is True
        assert embedded("db", "psql", "--", "-Atc", "select 1").stdout == "1\n"
        assert "nothing to do" in embedded("migrate").stderr
        assert "is complete" not in embedded("demo").stderr
        assert len(embedded("task", "list", "--json").json) == 1
    finally:
        assert embedded("db", "down", "--json").json["was_running"] is True
    assert embedded("db", "down", "--json").json["was_running"] is False
    embedded("db", "status", expect=1)
