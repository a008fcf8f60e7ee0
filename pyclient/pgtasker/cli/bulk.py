"""``pgtasker bulk``: one command for all tasks or steps that a filter finds."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, moment, requested_by, tags_argument
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, REFUSED


def bulk(
    command: Annotated[
        Literal[
            "cancel-task",
            "give-up-task",
            "resolve-task",
            "reset-task",
            "fail-validation",
            "cancel-step",
            "skip-step",
            "retry-step",
        ],
        Parameter(name="COMMAND", help="What is to be done."),
    ],
    /,
    *,
    reason: Reason,
    by: RequestedBy = None,
    namespace: str | None = None,
    name: Annotated[str | None, Parameter(help="Name of the workflow.")] = None,
    state: Annotated[str | None, Parameter(help="State of the task, as its vocabulary writes it.")] = None,
    phase: Annotated[str | None, Parameter(help="Phase of the task, the same in every vocabulary.")] = None,
    tag: Annotated[list[str] | None, Parameter(negative="", help="key=value of the task; may be repeated.")] = None,
    correlation_id: str | None = None,
    created_by: Annotated[str | None, Parameter(help="Who asked for the task.")] = None,
    created_after: Annotated[dt.datetime | None, Parameter(help="Without a zone: UTC.")] = None,
    created_before: Annotated[dt.datetime | None, Parameter(help="Without a zone: UTC.")] = None,
    step: Annotated[str | None, Parameter(help="Name of the steps.")] = None,
    step_state: Annotated[str | None, Parameter(help="State of the steps.")] = None,
    handler: Annotated[str | None, Parameter(help="Handler of the steps.")] = None,
    apply: Annotated[bool, Parameter(negative="", help="Do it; without it only what is found is shown.")] = False,
    limit: Annotated[int, Parameter(help="At most so many.")] = 1000,
) -> int:
    """Give COMMAND to all tasks or steps that the filter finds and for which the rules have it.

    Exit code 1 if one was refused.
    """
    given: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "state": state,
        "phase": phase,
        "tags": tags_argument(tag) if tag else None,
        "correlation_id": correlation_id,
        "requested_by": created_by,
        "created_after": moment(created_after).isoformat() if created_after else None,
        "created_before": moment(created_before).isoformat() if created_before else None,
        "step": step,
        "step_state": step_state,
        "handler": handler,
    }
    with database() as db:
        found = db.client.command_all(
            command.replace("-", "_"),
            {key: value for key, value in given.items() if value is not None},
            reason,
            requested_by(by),
            dry_run=not apply,
            limit=limit,
        )
    rows = [dataclasses.asdict(row) for row in found]
    output.emit_rows(
        rows,
        ("task_uuid", "workflow_step_uuid", "name", "before", "after", "code", "message"),
        empty="the filter finds nothing for which the rules have this command",
    )
    if len(rows) == limit:
        output.talk(f"these are the first {limit}; call again for the rest")
    if rows and not apply:
        output.talk("nothing was done; --apply does it")
    return REFUSED if any(row["code"] for row in rows) else OK
