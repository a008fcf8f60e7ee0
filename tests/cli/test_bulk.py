"""``pgtasker bulk``, start times and paused namespaces, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_many_at_once(cli: Any, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: flow\nsteps: [{name: a}]\n")
    start = ("task", "create", "--graph", flow, "--tag", "batch=7", "--start-at", "2099-01-01T00:00:00")
    tasks = {cli(*start).stdout.strip() for _ in range(3)}
    assert "2099-01-01" in cli("task", "explain", next(iter(tasks))).stdout
    shown = cli("bulk", "cancel-task", "--tag", "batch=7", "--reason", "not needed")
    assert "--apply" in shown.stderr and all(task in shown.stdout for task in tasks)
    done = cli("bulk", "cancel-task", "--tag", "batch=7", "--reason", "not needed", "--apply", "--json").json
    assert {(row["task_uuid"], row["after"]) for row in done} == {(task, "cancelled") for task in tasks}
    assert cli("bulk", "cancel-task", "--reason", "x", "--json", expect=1).error["code"] == "TK400"
    assert "nothing" in cli("bulk", "cancel-task", "--name", "flow", "--reason", "x").stderr


def test_a_namespace_is_paused_and_resumed(cli: Any) -> None:
    cli("namespace", "add", "shop")
    cli("namespace", "pause", "shop", "--reason", "stocktaking")
    (paused,) = [row for row in cli("namespace", "list", "--json").json if row["namespace"] == "shop"]
    assert paused["paused_at"]
    cli("namespace", "resume", "shop", "--reason", "done")
    (open_again,) = [row for row in cli("namespace", "list", "--json").json if row["namespace"] == "shop"]
    assert open_again["paused_at"] is None
    assert cli("namespace", "pause", "none", "--reason", "x", "--json", expect=1).error["code"] == "TK404"
