"""What needs no server: help, wrong usage, no connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

COMMANDS = {
    "": ("audit", "check", "db", "demo", "lifecycle", "migrate", "namespace", "orchestrate", "run", "step", "task",
         "template", "tick", "worker"),
    "task": ("cancel", "create", "explain", "give-up", "list", "reset", "resolve", "retry", "show", "steps", "timeline",
             "watch"),
    "step": ("cancel", "reset", "resolve", "retry", "show", "skip"),
    "template": ("add", "list", "show"),
    "worker": ("list", "run"),
    "audit": ("correlation", "step", "task", "worker"),
    "lifecycle": ("list", "show"),
    "namespace": ("add", "list", "notify"),
    "db": ("down", "psql", "status", "up", "uri"),
}  # fmt: skip
NOBODY = "postgresql://127.0.0.1:1/nothing"


def test_help_of_every_group_lists_its_commands(run_cli: Cli) -> None:
    for group, commands in COMMANDS.items():
        listed = run_cli(*group.split(), "--help").stdout
        for command in commands:
            assert f" {command} " in listed, (group, command)


def test_version(run_cli: Cli) -> None:
    from pgtasker import __version__

    assert run_cli("--version").stdout.strip() == __version__


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("task", "nonsense"),
        ("task", "show"),
        ("task", "show", "--nonsense"),
        ("task", "show", "not-a-uuid"),
        ("task", "cancel", "01890000-0000-7000-8000-000000000000"),
        ("task", "create"),
        ("task", "create", "a", "--graph", "b"),
        ("task", "create", "a", "--context", "{broken"),
        ("task", "create", "a", "--context", "[1]"),
        ("task", "create", "a", "--context", "@/nowhere/at/all"),
        ("task", "create", "a", "--tag", "no-equals-sign"),
        ("task", "create", "a", "--parent", "x"),
        ("lifecycle", "show", "tasker.task", "--format", "png"),
        ("namespace", "notify", "default", "sometimes"),
        ("run",),
        ("run", "/nowhere/at/all.yaml"),
        ("template", "add"),
        ("migrate", "--sql", "--to", "0001"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_so(run_cli: Cli, args: tuple[str, ...]) -> None:
    ran = run_cli(*args, expect=2, PGTASKER_DSN=NOBODY)
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")


@pytest.mark.parametrize("args", [("task", "list"), ("check",), ("migrate",), ("template", "list"), ("tick",)])
def test_no_connection_is_exit_code_3(run_cli: Cli, args: tuple[str, ...]) -> None:
    ran = run_cli(*args, "--dsn", NOBODY, expect=3)
    assert ran.stdout == ""
    assert "cannot connect" in ran.stderr


def test_errors_are_json_too(run_cli: Cli) -> None:
    ran = run_cli("task", "list", "--json", expect=3, DATABASE_URL=NOBODY)
    assert ran.error["exit_code"] == 3
    assert "Connection refused" in ran.error["message"]


def test_what_is_no_connection_string_is_wrong_usage(run_cli: Cli) -> None:
    assert "not a connection string" in run_cli("task", "list", "--dsn", "nonsense", expect=2).stderr


def test_global_options_may_stand_before_the_command(run_cli: Cli) -> None:
    run_cli("--dsn", NOBODY, "task", "list", expect=3)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.json", "{", "line 1: not valid JSON"),
        ("a.json", '{"name": "x", "name": "y"}', "'name' appears twice"),
        ("a.json", '{"name": NaN}', "NaN is not JSON"),
        ("a.yaml", "name: x\nname: y\n", "line 2: not valid YAML"),
        ("a.yaml", "name: [x\n", "not valid YAML"),
        ("a.yaml", "- 1\n- 2\n", "one object"),
        ("a.yaml", "1: x\n", "must be text"),
        ("a.json", json.dumps({"schemaVersion": "1.4", "workflow": {"specification": {}}}), "WfFormat 1.4"),
        ("a.json", json.dumps({"schemaVersion": "1.5", "workflow": {"specification": {}}}), "not a complete WfFormat"),
    ],
)
def test_unreadable_workflow_files(run_cli: Cli, tmp_path: Path, name: str, text: str, complaint: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    ran = run_cli("run", path, expect=2, PGTASKER_DSN=NOBODY)
    assert complaint in ran.stderr
    assert str(path) in ran.stderr


def test_a_step_that_no_handler_takes_is_refused_before_anything_runs(run_cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text("name: x\nsteps:\n- {name: a, handler: bake}\n")
    ran = run_cli("run", path, expect=2, PGTASKER_DSN=NOBODY)
    assert "no handler named bake" in ran.stderr
    assert "--handlers" in ran.stderr


def test_handlers_that_cannot_be_loaded(run_cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text("name: x\nsteps:\n- {name: a, handler: bake}\n")
    ran = run_cli("run", path, "--handlers", "no_such_module:worker", expect=2, PGTASKER_DSN=NOBODY)
    assert "cannot load no_such_module:worker" in ran.stderr
    run_cli("worker", "run", "no_such_module:worker", expect=2, PGTASKER_DSN=NOBODY)


def test_demo_graph_needs_no_server(run_cli: Cli) -> None:
    graph = run_cli("demo", "--print-graph", PGTASKER_DSN=NOBODY).json
    assert len([step for step in graph["steps"] if step["handler"] == "count"]) >= 20
