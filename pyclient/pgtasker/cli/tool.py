"""``pgtasker tool``: what holds for every step that uses a tool (seed 002: timeout values)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import RequestId
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(name="tool", help="Look at tools and set how long their steps may take.", result_action="return_value")

Tool = Annotated[str, Parameter(name="TOOL", help="The tool: what steps name as theirs, else their handler.")]


@app.command(name="list")
def list_() -> int:
    """List the tools that have settings."""
    with database() as db:
        rows = db.rows("select tool, timeout from tasker.tools order by tool")
    output.emit_rows(rows, ("tool", "timeout"), empty="no tool has settings: pgtasker tool configure TOOL --timeout 60")
    return OK


@app.command
def configure(
    tool: Tool,
    /,
    *,
    timeout: Annotated[
        float | None, Parameter(help="Seconds one attempt may take; left out: the default, 300.")
    ] = None,
    request_id: RequestId = None,
) -> int:
    """Set how long one attempt may take for steps that do not say it themselves, in tasks created from now on."""
    with database() as db:
        db.client.configure_tool(tool, timeout, request_id=request_id)
    output.answer(
        {"tool": tool, "timeout": timeout}, f"{tool}: {'300 s, the default' if timeout is None else f'{timeout:g} s'}"
    )
    return OK
