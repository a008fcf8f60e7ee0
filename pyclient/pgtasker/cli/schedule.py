"""``pgtasker schedule``: tasks created by the clock."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, RequestId, json_object, moment, requested_by, tags_argument
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(name="schedule", help="Create tasks by the clock.", result_action="return_value")

Schedule = Annotated[str, Parameter(name="SCHEDULE", help="Name of the schedule, unique in its namespace.")]
Cron = Annotated[
    str,
    Parameter(
        name="CRON",
        help="Minute, hour, day of the month, month, day of the week, in quotes; or @hourly, @daily, @weekly, ...",
    ),
]
TimeZone = Annotated[str, Parameter(help="Whose clock is meant, such as Europe/Berlin.")]


@app.command(name="set")
def set_(
    schedule: Schedule,
    cron: Cron,
    template: Annotated[str, Parameter(name="TEMPLATE")],
    /,
    *,
    context: Annotated[str | None, Parameter(help="JSON object that every task gets; @FILE reads a file.")] = None,
    namespace: str = "default",
    time_zone: TimeZone = "UTC",
    version: Annotated[str | None, Parameter(help="Of the template; left out: the newest when the time comes.")] = None,
    vocabulary: str | None = None,
    tag: Annotated[list[str] | None, Parameter(negative="", help="key=value; may be repeated.")] = None,
    priority: int = 0,
    catch_up: Annotated[
        Literal["latest", "all", "none"], Parameter(help="Of times that passed while nobody ticked.")
    ] = "latest",
    overlap: Annotated[
        Literal["allow", "skip"], Parameter(help="Whether one is created while the one before is not finished.")
    ] = "allow",
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Create a task from TEMPLATE whenever CRON says so, or change the schedule of that name."""
    with database() as db:
        due = db.client.schedule_tasks(
            schedule,
            cron,
            template,
            json_object(context, "--context"),
            namespace=namespace,
            time_zone=time_zone,
            version=version,
            vocabulary=vocabulary,
            tags=tags_argument(tag or []),
            priority=priority,
            catch_up=catch_up,
            overlap=overlap,
            requested_by=requested_by(by),
            request_id=request_id,
        )
    _say(schedule, namespace, "next_due_at", due)
    return OK


@app.command(name="list")
def list_(*, namespace: str | None = None) -> int:
    """List schedules with their next and last times."""
    with database() as db:
        rows = db.rows(
            "select * from tasker.schedules where namespace = coalesce(%s, namespace) order by namespace, schedule",
            (namespace,),
        )
    output.emit_rows(
        rows,
        ("namespace", "schedule", "cron", "time_zone", "template", "next_due_at", "last_due_at", "last_refusal"),
        empty="nothing is scheduled: pgtasker schedule set NAME '0 6 * * *' TEMPLATE",
    )
    return OK


@app.command
def times(
    cron: Cron, /, *, time_zone: TimeZone = "UTC", limit: Annotated[int, Parameter(help="How many.")] = 10
) -> int:
    """Show the next times of a cron expression."""
    with database() as db:
        found = db.client.cron_times(cron, time_zone, limit=limit)
    output.emit_rows([{"due_at": due} for due in found], ("due_at",), empty="that never comes")
    return OK


@app.command
def pause(
    schedule: Schedule,
    /,
    *,
    reason: Reason,
    namespace: str = "default",
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Let the times of a schedule pass; tasks that were created go on."""
    _manual("pause_schedule", schedule, reason, namespace, by, request_id)
    _say(schedule, namespace, "state", "paused")
    return OK


@app.command
def resume(
    schedule: Schedule,
    /,
    *,
    reason: Reason,
    namespace: str = "default",
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Let a paused schedule go on with its next time."""
    due = _manual("resume_schedule", schedule, reason, namespace, by, request_id)
    _say(schedule, namespace, "next_due_at", due)
    return OK


@app.command
def remove(
    schedule: Schedule,
    /,
    *,
    reason: Reason,
    namespace: str = "default",
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Remove a schedule; tasks that were created go on."""
    _manual("remove_schedule", schedule, reason, namespace, by, request_id)
    _say(schedule, namespace, "state", "removed")
    return OK


@app.command
def backfill(
    schedule: Schedule,
    /,
    *,
    from_: Annotated[dt.datetime, Parameter(name="--from", help="First moment; without a zone: UTC.")],
    to: Annotated[dt.datetime | None, Parameter(help="Last moment; left out: now.")] = None,
    reason: Reason,
    namespace: str = "default",
    by: RequestedBy = None,
    apply: Annotated[bool, Parameter(negative="", help="Create what is missing; without it nothing changes.")] = False,
) -> int:
    """Show which times of a period have a task, and with --apply create those that are missing."""
    start, end = moment(from_), moment(to or dt.datetime.now(dt.UTC))
    with database() as db:
        rows = db.client.backfill_schedule(
            schedule, start, end, reason, requested_by(by), namespace=namespace, dry_run=not apply
        )
    output.emit_rows(
        [{"due_at": row.due_at, "task_uuid": row.task_uuid, "is_new": row.is_new} for row in rows],
        ("due_at", "task_uuid", "is_new"),
        empty="no time of it lies in that period",
    )
    if not apply and any(row.is_new for row in rows):
        output.talk("nothing was created; --apply creates what is missing")
    return OK


def _manual(action: str, schedule: str, reason: str, namespace: str, by: str | None, request_id: str | None) -> Any:
    with database() as db:
        return getattr(db.client, action)(
            schedule, reason, requested_by(by), namespace=namespace, request_id=request_id
        )


def _say(schedule: str, namespace: str, name: str, value: Any) -> None:
    output.answer(
        {"namespace": namespace, "schedule": schedule, name: value},
        f"{schedule}: {'paused' if value is None else value}",
    )
