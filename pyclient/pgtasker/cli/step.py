"""``pgtasker step``: look at and repair single steps."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, RequestId, Step, json_argument, requested_by
from pgtasker.cli._database import Database, database
from pgtasker.cli._errors import OK, CommandError
from pgtasker.cli._settings import settings
from pgtasker.cli.task import TIMELINE_COLUMNS, timeline_rows

app = App(name="step", help="Look at and repair single steps.", result_action="return_value")

EVENT_COLUMNS = ("event", "to_state", "fired_by", "guard", "guard_holds")


@app.command
def show(step: Step, /) -> int:
    """Show one step: its row, what happened to it, and the events allowed now."""
    with database() as db:
        row = _step_row(db, step)
        history = [
            entry
            for entry in timeline_rows(db, row["task_uuid"], row["name"])
            if entry["entity_uuid"] == row["workflow_step_uuid"]
        ]
        events = [dataclasses.asdict(event) for event in db.client.allowed_events("step", row["workflow_step_uuid"])]
        depends_on = db.rows(
            """
            select s.name, s.state
              from tasker.workflow_step_edges e
              join tasker.step_overview s on s.workflow_step_uuid = e.from_step_uuid
             where e.task_uuid = %s and e.to_step_uuid = %s
             order by s.name
            """,
            (row["task_uuid"], row["workflow_step_uuid"]),
        )
    if settings.json:
        output.emit_json({"step": row, "depends_on": depends_on, "timeline": history, "allowed_events": events})
        return OK
    output.emit_record(row)
    if depends_on:
        output.heading("depends on")
        output.emit_rows(depends_on, ("name", "state"))
    output.heading("timeline")
    output.emit_rows(history, TIMELINE_COLUMNS, empty="nothing happened yet")
    output.heading("allowed events")
    output.emit_rows(events, EVENT_COLUMNS, empty="none: the state is final")
    return OK


def _step_row(db: Database, step: str) -> dict[str, Any]:
    row = db.row("select * from tasker.step_overview where workflow_step_uuid = %s", (db.step_uuid(step),))
    if row is None:
        raise CommandError(f"there is no step {step}", hint="list a task's steps: pgtasker task steps TASK_UUID")
    return row


def _manual(action: str, step: str, reason: str, by: str | None, request_id: str | None, **more: Any) -> int:
    with database() as db:
        step_uuid = db.step_uuid(step)
        state = getattr(db.client, action)(step_uuid, reason, requested_by(by), request_id=request_id, **more)
    output.answer({"step_uuid": step_uuid, "state": state}, state)
    return OK


@app.command
def retry(step: Step, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Retry a step that failed or waits for its next attempt."""
    return _manual("retry_step", step, reason, by, request_id)


@app.command
def resolve(
    step: Step,
    /,
    *,
    reason: Reason,
    result: Annotated[str | None, Parameter(help="JSON the step's dependents get as its result, or @FILE.")] = None,
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Declare a step resolved by hand; its dependents may start."""
    return _manual("resolve_step", step, reason, by, request_id, result=json_argument(result, "--result"))


@app.command
def cancel(step: Step, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Cancel a step."""
    return _manual("cancel_step", step, reason, by, request_id)


@app.command
def skip(step: Step, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Skip a step."""
    return _manual("skip_step", step, reason, by, request_id)


@app.command
def reset(step: Step, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Start a step anew, with all its attempts."""
    return _manual("reset_step", step, reason, by, request_id)


@app.command
def result(step: Step, /) -> int:
    """Print the latest result of a step as JSON, in full however big."""
    with database() as db:
        output.emit_json(db.client.load_result(db.step_uuid(step)))
    return OK


@app.command
def checkpoint(step: Step, /) -> int:
    """Show what the latest attempts of a step saved while they ran; the next attempt gets it."""
    with database() as db:
        row = db.row(
            """
            select s.name, k.attempt, k.saved_at, k.checkpoint
              from tasker.workflow_steps s
              left join tasker.step_checkpoints k on k.workflow_step_uuid = s.workflow_step_uuid
             where s.workflow_step_uuid = %s
            """,
            (db.step_uuid(step),),
        )
    if row is None:
        raise CommandError(f"there is no step {step}", hint="list a task's steps: pgtasker task steps TASK_UUID")
    if row["saved_at"] is None:
        raise CommandError(f"step {row['name']} has saved no checkpoint")
    output.emit_record(row)
    return OK
