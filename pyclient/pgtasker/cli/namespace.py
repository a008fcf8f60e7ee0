"""``pgtasker namespace``: list namespaces, switch their notifications, set their limits, pause and resume them."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, RequestId, requested_by
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(
    name="namespace",
    help="List, pause and resume namespaces, and set their notifications and limits.",
    result_action="return_value",
)


@app.command(name="list")
def list_() -> int:
    """List namespaces with the number of their open and all tasks."""
    with database() as db:
        rows = db.rows(
            """
            select n.namespace, n.queue_name, n.notifications, n.paused_at, n.description, n.created_at,
                   (select count(*) from tasker.tasks t where t.namespace = n.namespace and t.completed_at is null) as
                   open_tasks, (select count(*) from tasker.tasks t where t.namespace = n.namespace) as tasks
              from tasker.task_namespaces n
             order by n.namespace
            """
        )
    output.emit_rows(
        rows, ("namespace", "notifications", "paused_at", "open_tasks", "tasks", "queue_name", "description")
    )
    return OK


@app.command
def add(namespace: Annotated[str, Parameter(name="NAMESPACE")], /, *, description: str | None = None) -> int:
    """Make a namespace; nothing happens if it is there."""
    with database() as db:
        _say(namespace, "namespace", db.client.ensure_namespace(namespace, description))
    return OK


@app.command
def notify(
    namespace: Annotated[str, Parameter(name="NAMESPACE")],
    mode: Annotated[Literal["off", "work", "tasks", "all"], Parameter(name="MODE")],
    /,
) -> int:
    """Choose what a namespace sends by NOTIFY: nothing, that there is work, also task states, or also step states."""
    with database() as db:
        db.client.set_namespace_notifications(namespace, mode)
    _say(namespace, "notifications", mode)
    return OK


@app.command
def limits(
    namespace: Annotated[str, Parameter(name="NAMESPACE")],
    /,
    *,
    threshold: Annotated[int | None, Parameter(help="Results of more bytes are kept apart from the log.")] = None,
    limit: Annotated[int | None, Parameter(help="What has more bytes is refused.")] = None,
) -> int:
    """Choose how big is big in a namespace, and show it."""
    with database() as db:
        db.client.set_payload_limits(namespace, threshold=threshold, limit=limit)
        row = db.row(
            "select namespace, payload_threshold, payload_limit from tasker.task_namespaces where namespace = %s",
            (namespace,),
        )
    output.emit_record(row or {})
    return OK


@app.command
def pause(
    namespace: Annotated[str, Parameter(name="NAMESPACE")],
    /,
    *,
    reason: Reason,
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Hand no step of a namespace to any worker; what is running goes on."""
    with database() as db:
        db.client.pause_namespace(namespace, reason, requested_by(by), request_id=request_id)
    _say(namespace, "state", "paused")
    return OK


@app.command
def resume(
    namespace: Annotated[str, Parameter(name="NAMESPACE")],
    /,
    *,
    reason: Reason,
    by: RequestedBy = None,
    request_id: RequestId = None,
) -> int:
    """Hand out the steps of a paused namespace again."""
    with database() as db:
        db.client.resume_namespace(namespace, reason, requested_by(by), request_id=request_id)
    _say(namespace, "state", "resumed")
    return OK


def _say(namespace: str, name: str, value: str) -> None:
    output.answer({"namespace": namespace, name: value}, value)
