"""``pgtasker breaker``: the circuit breakers of tools."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, RequestId, requested_by
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError
from pgtasker.cli._settings import settings

app = App(name="breaker", help="Look at circuit breakers, set them up, and reset them.", result_action="return_value")

Tool = Annotated[str, Parameter(name="TOOL", help="The tool: what steps name as theirs, else their handler.")]


@app.command(name="list")
def list_() -> int:
    """List the circuit breakers with their states."""
    with database() as db:
        rows = db.rows("select * from tasker.breaker_overview order by tool")
    columns = ("tool", "state", "failures", "failure_threshold", "cooldown", "cools_until", "held_back_steps")
    output.emit_rows(rows, columns, empty="no breaker: configure one with pgtasker breaker configure TOOL")
    return OK


@app.command
def show(tool: Tool, /) -> int:
    """Show one circuit breaker: settings, counters, and its states so far."""
    with database() as db:
        row = db.row("select * from tasker.breaker_overview where tool = %s", (tool,))
        if row is None:
            raise CommandError(f"tool {tool} has no circuit breaker", hint="list them: pgtasker breaker list")
        history = db.rows(
            """
            select created_at as at, from_state, to_state, event, metadata ->> 'requested_by' as requested_by,
                   metadata ->> 'reason' as reason, metadata
              from tasker.circuit_breaker_transitions where circuit_breaker_uuid = %s order by sort_key
            """,
            (row["circuit_breaker_uuid"],),
        )
    if settings.json:
        output.emit_json({"breaker": row, "transitions": history})
        return OK
    output.emit_record(row, skip=("circuit_breaker_uuid",))
    output.heading("transitions")
    output.emit_rows(history, ("at", "from_state", "to_state", "event", "requested_by", "reason"))
    return OK


@app.command
def configure(
    tool: Tool,
    /,
    *,
    failure_threshold: Annotated[int, Parameter(help="So many failures in a row open it.")] = 5,
    cooldown: Annotated[float, Parameter(help="Seconds it stays open.")] = 60.0,
    success_threshold: Annotated[int, Parameter(help="So many successful trials close it.")] = 1,
    max_error_repeats: Annotated[
        int | None, Parameter(help="The same error repeated more often opens it; not looked at if left out.")
    ] = None,
    vocabulary: Annotated[str, Parameter(help="Whose breaker lifecycle it follows.")] = "tasker",
    request_id: RequestId = None,
) -> int:
    """Give a tool a circuit breaker, or set all settings of the one it has."""
    with database() as db:
        state = db.client.configure_breaker(
            tool,
            failure_threshold,
            cooldown,
            success_threshold,
            max_error_repeats,
            vocabulary,
            request_id=request_id,
        )
    _say(tool, state)
    return OK


@app.command
def reset(tool: Tool, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Close a circuit breaker by hand; the steps it held back go on."""
    with database() as db:
        state = db.client.reset_breaker(tool, reason, requested_by(by), request_id=request_id)
    _say(tool, state)
    return OK


def _say(tool: str, state: str) -> None:
    output.answer({"tool": tool, "state": state}, state)
