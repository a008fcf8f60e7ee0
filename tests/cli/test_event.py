"""``pgtasker event``: told, looked at, listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_events_from_the_command_line(cli: Any, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "name: flow\nsteps: [{name: ship, wait_for: {event: approved, key: $.context.order, timeout_seconds: 60}}]\n"
    )
    assert "pgtasker event emit" in cli("event", "list").stderr
    assert cli("event", "show", "approved", "7", expect=1).stdout == ""
    cli("template", "add", flow)
    cli("task", "create", "flow", "--context", '{"order": 7}')
    waiting = cli("event", "show", "approved", "7", "--json").json
    assert (waiting["emitted"], [wait["name"] for wait in waiting["waits"]]) == (False, ["ship"])
    told = cli("event", "emit", "approved", "7", "--payload", '{"by": "anna"}', "--by", "anna", "--json").json
    assert (told["outcome"], told["emitted_by"]) == ("emitted", "anna")
    again = cli("event", "emit", "approved", "7", "--payload", '{"by": "eve"}')
    assert "with another payload, which stays" in again.stdout
    assert cli("event", "show", "approved", "7", "--json").json["payload"] == {"by": "anna"}
    assert "approved" in cli("event", "list", "--event", "approved").stdout
    assert cli("event", "list", "--namespace", "elsewhere", "--json").json == []
