"""``pgtasker event``: what happened outside, told to the steps that wait for it."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import RequestedBy, json_argument, requested_by
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError

app = App(name="event", help="Tell steps that wait what happened outside.", result_action="return_value")

Event = Annotated[str, Parameter(name="EVENT", help="What happened, such as approved.")]
Key = Annotated[str, Parameter(name="KEY", help="To what, such as the number of an order.")]


@app.command
def emit(
    event: Event,
    key: Key,
    /,
    *,
    payload: Annotated[str | None, Parameter(help="JSON for the steps that wait; @FILE reads a file.")] = None,
    namespace: str = "default",
    keep_days: Annotated[float, Parameter(help="Days until it may be forgotten.")] = 90.0,
    by: RequestedBy = None,
) -> int:
    """Tell that EVENT happened to KEY; the first to tell it wins."""
    with database() as db:
        told = db.client.emit_event(
            event,
            key,
            json_argument(payload, "--payload"),
            namespace=namespace,
            requested_by=requested_by(by),
            keep=dt.timedelta(days=keep_days),
        )
    output.answer(
        {
            "namespace": namespace,
            "event": event,
            "key": key,
            "outcome": told.outcome,
            "payload": told.payload,
            "emitted_by": told.emitted_by,
            "emitted_at": told.emitted_at,
        },
        told.message,
    )
    return OK


@app.command
def show(event: Event, key: Key, /, *, namespace: str = "default") -> int:
    """Show an event and the steps that wait, or waited, for it."""
    with database() as db:
        found = db.client.get_event(event, key, namespace=namespace)
        waits = db.rows(
            "select s.name, w.task_uuid, w.workflow_step_uuid, w.since, w.due_at, w.ended_at, w.timed_out"
            " from tasker.event_waits w join tasker.workflow_steps s using (workflow_step_uuid)"
            " where w.namespace = %s and w.event = %s and w.key = %s order by w.since, w.workflow_step_uuid",
            (namespace, event, key),
        )
    if found is None and not waits:
        raise CommandError(f"event {event} of {key} was not emitted, and nobody waits for it")
    record = {"namespace": namespace, "event": event, "key": key, "emitted": found is not None}
    if found is not None:
        record |= {
            "payload": found.payload,
            "emitted_by": found.emitted_by,
            "emitted_at": found.emitted_at,
            "keep_until": found.keep_until,
        }
    output.emit_record(record | {"waits": waits})
    return OK


@app.command(name="list")
def list_(
    *,
    namespace: str | None = None,
    event: Annotated[str | None, Parameter(help="Only those of this name.")] = None,
    limit: Annotated[int, Parameter(help="At most so many.")] = 50,
) -> int:
    """List the newest events."""
    with database() as db:
        found = db.client.emitted_events(namespace, event, limit)
    columns = ("namespace", "event", "key", "emitted_by", "emitted_at", "keep_until", "payload")
    output.emit_rows(
        [{name: getattr(row, name) for name in columns} for row in found],
        columns,
        empty="no event was emitted: pgtasker event emit EVENT KEY",
    )
    return OK
