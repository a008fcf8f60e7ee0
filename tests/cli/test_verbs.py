"""Every command once on a real server, its JSON parsed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

Cli = Callable[..., Any]
NOWHERE = "01890000-0000-7000-8000-000000000000"
CORRELATION = "01890000-0000-7000-8000-0000000000c0"

DIAMOND = """
name: diamond
namespace: kitchen
version: 1.0.0
description: four steps
steps:
  - {name: top, handler: echo, arguments: {word: hello}}
  - {name: left, handler: noop, depends_on: [top]}
  - {name: right, handler: sleep, depends_on: [top], arguments: {seconds: 0.01}}
  - {name: bottom, handler: echo, depends_on: [left, right]}
"""

BROKEN = """
name: broken
steps:
  - {name: good, handler: noop}
  - {name: bad, handler: shell, arguments: {argv: ["false"]}, max_attempts: 1}
  - {name: last, handler: noop, depends_on: [good, bad]}
"""


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.yaml"
    path.write_text(DIAMOND)
    return path


@contextmanager
def worker(database: str, namespace: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """``pgtasker worker run`` with the built-in handlers; drained by SIGTERM at the end."""
    command = [sys.executable, "-m", "pgtasker.cli", "worker", "run", "pgtasker.cli.handlers:worker"]
    process = subprocess.Popen([*command, "--dsn", database, "--namespace", namespace, *options])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def test_template_to_audit_trail(cli: Cli, database: str, conn: psycopg.Connection[Any], diamond: Path) -> None:
    """The way of one task through all commands that read."""
    (stored,) = cli("template", "add", diamond, "--json").json
    assert stored["name"] == "diamond"
    assert cli("template", "add", diamond).stdout.strip() == stored["named_task_uuid"]  # the same content: the same row
    (listed,) = [row for row in cli("template", "list", "--json").json if row["name"] == "diamond"]
    assert (listed["namespace"], listed["version"], listed["steps"]) == ("kitchen", "1.0.0", 4)
    shown = cli("template", "show", "diamond", "--namespace", "kitchen", "--json").json
    assert {step["name"]: step["depends_on"] for step in shown["steps"]}["bottom"] == ["left", "right"]
    assert "bottom" in cli("template", "show", "diamond", "--namespace", "kitchen").stdout

    task = cli(
        *("task", "create", "diamond", "--namespace", "kitchen", "--context", '{"guests": 2}', "--priority", 7),
        *("--tag", "floor=1", "--tag", "vip=no", "--correlation-id", CORRELATION, "--key", "order-1", "--by", "ann"),
    ).stdout.strip()
    again = cli(
        *("task", "create", "diamond", "--namespace", "kitchen", "--context", '{"guests": 2}', "--priority", 7),
        *("--tag", "floor=1", "--tag", "vip=no", "--correlation-id", CORRELATION, "--key", "order-1", "--by", "ann"),
        "--json",
    )
    assert again.json == {"task_uuid": task, "outcome": "found"}

    with worker(database, "kitchen") as process:
        watched = cli("task", "watch", task, "--json", "--timeout", 60)
        workers = cli("worker", "list", "--json").json
    assert process.returncode == 0
    entries = watched.json_lines
    assert entries[0]["from_state"] is None
    assert [entry["to_state"] for entry in entries if entry["kind"] == "task"][-1] == "complete"
    assert {entry["name"] for entry in entries if entry["kind"] == "step"} == {"top", "left", "right", "bottom"}
    assert len(entries) == len({(entry["entity_uuid"], entry["sort_key"]) for entry in entries})
    assert [row["namespaces"] for row in workers] == [["kitchen"]]
    assert cli("worker", "list", "--json").json == []
    assert [row["worker_uuid"] for row in cli("worker", "list", "--all", "--json").json] == [workers[0]["worker_uuid"]]

    shown = cli("task", "show", task, "--json").json
    assert shown["task"]["state"] == "complete"
    assert shown["task"]["context"] == {"guests": 2}
    assert shown["task"]["requested_by"] == "ann"
    assert [step["state"] for step in shown["steps"]] == ["complete"] * 4
    text = cli("task", "show", task).stdout
    assert "complete" in text and "bottom" in text
    assert "\x1b[" not in text
    steps = {step["name"]: step for step in cli("task", "steps", task, "--json").json}
    assert steps["top"]["result"] == {"arguments": {"word": "hello"}, "inputs": {}, "attempt": 1}
    assert steps["bottom"]["result"]["inputs"].keys() == {"left", "right"}
    assert cli("task", "steps", task, "--state", "error", "--json").json == []
    assert len(cli("task", "steps", task, "--phase", "succeeded", "--json").json) == 4

    timeline = cli("task", "timeline", task, "--json").json
    assert [(e["entity_uuid"], e["sort_key"], e["to_state"]) for e in timeline] == [
        (e["entity_uuid"], e["sort_key"], e["to_state"]) for e in sorted(timeline, key=lambda e: e["at"])
    ]
    assert len(timeline) == len(entries)
    assert len(cli("task", "timeline", task, "--limit", 3, "--json").json) == 3
    assert {e["name"] for e in cli("task", "timeline", task, "--step", "top", "--json").json} == {"top"}
    assert "bottom" in cli("task", "timeline", task).stdout
    explained = cli("task", "explain", task, "--json").json
    assert (explained["task_uuid"], explained["state"]) == (task, "complete")
    assert explained["summary"] in cli("task", "explain", task).stdout

    by_name = cli("step", "show", f"{task}/bottom", "--json").json
    by_uuid = cli("step", "show", steps["bottom"]["workflow_step_uuid"], "--json").json
    assert by_name == by_uuid
    assert [row["name"] for row in by_name["depends_on"]] == ["left", "right"]
    assert by_name["timeline"][-1]["to_state"] == "complete"
    assert "allowed events" in cli("step", "show", f"{task}/bottom").stdout

    audit = cli("audit", "task", task, "--json").json
    assert sorted(row["step_name"] for row in audit) == ["bottom", "left", "right", "top"]
    assert all(row["success"] for row in audit)
    assert [row["recorded_at"] for row in audit] == sorted((row["recorded_at"] for row in audit), reverse=True)
    (of_step,) = cli("audit", "step", f"{task}/bottom", "--json").json
    assert of_step in audit
    by_worker = cli("audit", "worker", workers[0]["worker_uuid"], "--json").json
    by_correlation = cli("audit", "correlation", CORRELATION, "--json").json
    assert by_worker == by_correlation == audit
    assert len(cli("audit", "worker", workers[0]["worker_uuid"], "--limit", 2, "--json").json) == 2
    assert "bottom" in cli("audit", "task", task).stdout

    assert cli("check", "--json").json == []
    assert cli("check", "--task", task).stdout == ""
    namespaces = {row["namespace"]: row for row in cli("namespace", "list", "--json").json}
    assert (namespaces["kitchen"]["tasks"], namespaces["kitchen"]["open_tasks"]) == (1, 0)


def test_list_filters(cli: Cli, diamond: Path) -> None:
    cli("template", "add", diamond)

    def create(*options: object) -> str:
        created = cli("task", "create", "diamond", "--namespace", "kitchen", "--no-start", *options)
        return str(created.stdout.strip())

    plain = create()
    tagged = create("--tag", "color=red", "--tag", "size=s")
    child = create("--parent", plain, "--correlation-id", CORRELATION)
    cli("task", "cancel", child, "--reason", "test")

    def listed(*options: object) -> list[str]:
        return [row["task_uuid"] for row in cli("task", "list", "--json", *options).json]

    assert listed() == [child, tagged, plain]
    assert listed("--limit", 1) == [child]
    assert listed("--namespace", "kitchen", "--name", "dia%") == [child, tagged, plain]
    assert listed("--namespace", "elsewhere") == []
    assert listed("--state", "cancelled") == [child]
    assert listed("--state", "pending", "--state", "cancelled") == [child, tagged, plain]
    assert listed("--phase", "pending") == [tagged, plain]
    assert listed("--status", "open") == [tagged, plain]
    assert listed("--status", "finished") == [child]
    assert listed("--tag", "color=red") == [tagged]
    assert listed("--tag", "color=red", "--tag", "size=l") == []
    assert listed("--correlation-id", CORRELATION) == [child]
    assert listed("--parent", plain) == [child]
    assert listed("--since", "tomorrow") == []
    assert plain in cli("task", "list").stdout
    # A time that PostgreSQL cannot read is refused by it, not by us.
    cli("task", "list", "--since", "someday", expect=1)


def test_a_template_with_problems_names_them_all(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        json.dumps(
            {
                "name": "bad",
                "steps": [
                    {"name": "a", "handler": "h", "depends_on": ["b"]},
                    {"name": "b", "handler": "h", "depends_on": ["a", "ghost"]},
                    {"name": "b", "handler": "h", "max_attempts": -1},
                ],
            }
        )
    )
    error = cli("template", "add", path, "--json", expect=1).error
    assert error["code"] == "TK400"
    assert len(error["detail"]["problems"]) >= 3
    text = cli("template", "add", path, expect=1)
    assert text.stdout == ""
    assert "[TK400]" in text.stderr and "ghost" in text.stderr
    assert cli("task", "create", "--graph", path, expect=1).stdout == ""
    assert cli("run", path, expect=2).stdout == ""  # no handler 'h'


def test_refusals_are_exit_code_1(cli: Cli, diamond: Path) -> None:
    for args in [
        ("task", "show", NOWHERE),
        ("task", "watch", NOWHERE),
        ("task", "steps", NOWHERE),
        ("task", "timeline", NOWHERE),
        ("task", "explain", NOWHERE),
        ("task", "cancel", NOWHERE, "--reason", "x"),
        ("task", "retry", NOWHERE, "--reason", "x"),
        ("step", "show", NOWHERE),
        ("step", "retry", NOWHERE, "--reason", "x"),
        ("step", "show", f"{NOWHERE}/a"),
        ("audit", "task", NOWHERE),
        ("audit", "step", NOWHERE),
        ("task", "create", "no-such-template"),
        ("template", "show", "no-such-template"),
        ("lifecycle", "show", "no.such"),
    ]:
        ran = cli(*args, expect=1)
        assert ran.stdout == "", args
        assert ran.stderr.startswith("error: "), args
    error = cli("task", "show", NOWHERE, "--json", expect=1).error
    assert error["code"] == "TK404" and error["hint"]

    task = cli("task", "create", "--graph", diamond, "--no-start").stdout.strip()
    cli("task", "cancel", task, "--reason", "not now")
    resumed = cli("task", "resume", task, "--reason", "now", "--json").json
    assert resumed["resumes"] == task and cli("task", "show", resumed["task_uuid"]).stdout
    error = cli("task", "resume", task, "--reason", "x", "--json", expect=1).error
    assert error["code"] == "TK409" and resumed["task_uuid"] in error["message"]
    error = cli("task", "resolve", task, "--reason", "x", "--json", expect=1).error
    for verdict in ("pass", "fail"):
        refused = cli("task", f"{verdict}-validation", task, "--reason", "x", "--json", expect=1).error
        assert refused["code"] == "TK409" and "cancelled" in refused["message"]
    assert error["code"] in ("TK409", "TK422") and error["hint"]
    assert cli("task", "retry", task, "--reason", "x", expect=1).stdout == ""
    assert cli("task", "watch", task, "--timeout", 0.3, expect=1).stdout != ""


def test_manual_actions_on_steps_and_tasks(cli: Cli, tmp_path: Path) -> None:
    """A task blocked by a failure, explained and then repaired in every way that there is."""
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)

    def blocked() -> str:
        ran = cli("run", path, "--json", "-n", 1, expect=1)
        (summary,) = ran.json_lines
        assert (summary["state"], summary["ok"]) == ("blocked_by_failures", False)
        assert [failure["step"] for failure in summary["failures"]] == ["bad"]
        return str(summary["task_uuid"])

    task = blocked()
    explained = cli("task", "explain", task, "--json").json
    assert any(reason["step"] == "bad" and reason["call"] for reason in explained["reasons"])
    assert cli("step", "show", f"{task}/bad", "--json").json["step"]["state"] == "error"
    assert cli("task", "give-up", task, "--reason", "hopeless", "--json").json == {"task_uuid": task, "state": "error"}
    cli("task", "watch", task, expect=1)
    reset = cli("task", "reset", task, "--reason", "once more", "--by", "bob", "--json").json
    assert reset["task_uuid"] == task and reset["state"] != "error"
    entry = [e for e in cli("task", "timeline", task, "--json").json if e["reason"] == "once more"]
    assert {e["requested_by"] for e in entry} == {"bob"}
    cli("task", "cancel", task, "--reason", "enough")

    resolved = blocked()
    assert cli("task", "resolve", resolved, "--reason", "done by hand").stdout.strip() == "resolved_manually"
    assert "done by hand" in cli("task", "watch", resolved).stdout

    task = blocked()
    (retried,) = cli("task", "retry", task, "--reason", "again", "--json").json
    assert retried["name"] == "bad"
    cli("step", "cancel", f"{task}/bad", "--reason", "test")

    task = blocked()
    assert cli("step", "retry", f"{task}/bad", "--reason", "again", "--json").json["state"] != "error"
    assert cli("step", "resolve", f"{task}/bad", "--reason", "ok", "--result", '{"by": "hand"}').stdout.strip() == (
        "resolved_manually"
    )
    assert cli("step", "show", f"{task}/bad", "--json").json["step"]["result"] == {"by": "hand"}
    assert cli("check", "--json").json == []

    task = blocked()
    assert cli("step", "reset", f"{task}/bad", "--reason", "again", "--json").json["state"] != "error"
    # This vocabulary skips nothing: the database says so, and what is allowed instead.
    refused = cli("step", "skip", f"{task}/last", "--reason", "test", "--json", expect=1).error
    assert refused["code"] == "TK409" and "cancel" in refused["hint"]
    assert cli("step", "cancel", f"{task}/last", "--reason", "test", "--json").json["state"] == "cancelled"
    assert cli("check", "--json").json == []


def test_lifecycles(cli: Cli) -> None:
    listed = {row["lifecycle"]: row for row in cli("lifecycle", "list", "--json").json}
    assert (listed["tasker.task"]["states"], listed["tasker.workflow_step"]["states"]) == (12, 10)
    assert cli("lifecycle", "show", "tasker.task", "--format", "mermaid").stdout.startswith("stateDiagram-v2")
    assert cli("lifecycle", "show", "tasker.task", "--format", "dot").stdout.startswith("digraph")
    assert "blocked_by_failures" in cli("lifecycle", "show", "tasker.task").stdout
    shown = cli("lifecycle", "show", "tasker.workflow_step", "--json").json
    assert len(shown["states"]) == 10
    assert {"from_state", "event", "to_state", "guard"} <= shown["transitions"][0].keys()


def test_namespaces(cli: Cli) -> None:
    assert cli("namespace", "add", "lab", "--description", "trials", "--json").json["namespace"] == "lab"
    assert cli("namespace", "notify", "lab", "all", "--json").json == {"namespace": "lab", "notifications": "all"}
    namespaces = {row["namespace"]: row for row in cli("namespace", "list", "--json").json}
    assert namespaces["lab"]["notifications"] == "all"
    assert namespaces["lab"]["description"] == "trials"
    assert "lab" in cli("namespace", "list").stdout
    cli("namespace", "notify", "nowhere", "all", expect=1)


def test_tick_and_orchestrate(cli: Cli) -> None:
    assert cli("tick", "--json").json["timers_fired"] == 0
    assert cli("orchestrate", "--json").json["messages"] == 0
    assert cli("orchestrate", "--once", "--limit", 5, "--json").json["messages"] == 0
    assert "timers_fired" in cli("tick").stdout


def test_check_finds_what_somebody_bent(cli: Cli, conn: psycopg.Connection[Any], diamond: Path) -> None:
    task = cli("task", "create", "--graph", diamond).stdout.strip()
    conn.execute("set session_replication_role = replica")
    conn.execute(
        "update tasker.workflow_steps set unmet_dependencies = 2 where task_uuid = %s and name = 'left'", [task]
    )
    findings = cli("check", "--json", expect=1).json
    assert findings and {"finding", "entity_uuid", "proposed_call"} <= findings[0].keys()
    assert cli("check", "--task", task, expect=1).stdout
    assert cli("check", "--task", NOWHERE, "--json").json == []


def test_migrate(run_cli: Cli, empty_database: str) -> None:
    error = run_cli("task", "list", "--json", "--dsn", empty_database, expect=1).error
    assert "pgtasker migrate" in error["hint"]
    script = run_cli("migrate", "--sql").stdout
    assert "create table tasker.tasks" in script
    first = run_cli("migrate", "--json", "--dsn", empty_database).json
    assert (first["before"], first["tree_applied"]) == (None, True)
    second = run_cli("migrate", "--json", DATABASE_URL=empty_database).json
    assert (second["before"], second["tree_applied"]) == (first["after"], False)
    assert "nothing to do" in run_cli("migrate", "--dsn", empty_database).stderr
    assert run_cli("task", "list", "--json", "--dsn", empty_database).json == []


def test_psql_runs_on_the_same_server(cli: Cli, database: str) -> None:
    ran = cli("db", "psql", "--", "-At", "-c", "select tasker.schema_version()")
    assert ran.stdout.strip()
    assert cli("db", "psql", "--", "-c", "select 1/0", expect=1).stderr
    assert cli("db", "uri").stdout.strip() == database
    assert cli("db", "uri", "--json").json == {"uri": database, "embedded": False}
