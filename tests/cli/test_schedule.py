"""``pgtasker schedule``: set, looked at, paused, caught up with, removed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any


def test_a_schedule_from_the_command_line(cli: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.yaml"
    report.write_text("name: report\nsteps: [{name: collect}, {name: send, depends_on: [collect]}]\n")
    assert "pgtasker schedule set" in cli("schedule", "list").stderr
    cli("template", "add", report)
    due = cli("schedule", "set", "hourly", "0 * * * *", "report", "--context", '{"n": 1}', "--json").json["next_due_at"]
    assert cli("schedule", "times", "0 * * * *", "--limit", "1", "--json").json[0]["due_at"] == due
    assert "hourly" in cli("schedule", "list").stdout
    cli("schedule", "pause", "hourly", "--reason", "closed")
    assert cli("schedule", "list", "--json").json[0]["next_due_at"] is None
    assert cli("schedule", "resume", "hourly", "--reason", "open", "--json").json["next_due_at"] == due
    start = dt.datetime.fromisoformat(due) - dt.timedelta(hours=2)
    period = ("--from", f"{start:%Y-%m-%dT%H:%M:%S}", "--reason", "late")
    dry = cli("schedule", "backfill", "hourly", *period)
    assert "--apply" in dry.stderr and cli("task", "list", "--json").json == []
    created = cli("schedule", "backfill", "hourly", *period, "--apply", "--json").json
    assert {row["task_uuid"] for row in created} == {row["task_uuid"] for row in cli("task", "list", "--json").json}
    cli("schedule", "remove", "hourly", "--reason", "done")
    assert cli("schedule", "list", "--json").json == []
    error = cli("schedule", "set", "x", "61 * * * *", "report", "--json", expect=1).error
    assert error["code"] == "TK400" and "Five fields" in error["hint"]
