"""``pgtasker audit``: who produced which result, newest first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Step, TaskUuid
from pgtasker.cli._database import database, parse_uuid
from pgtasker.cli._errors import OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgtasker import AuditRecord

app = App(name="audit", help="Read the audit trail of results, newest first.", result_action="return_value")

COLUMNS = ("recorded_at", "step_name", "success", "execution_time_ms", "worker_uuid", "workflow_step_uuid")


@app.command
def task(task: TaskUuid, /) -> int:
    """All results of a task."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        db.client.task(task_uuid)  # refused here if there is no such task
        return _print(db.client.get_task_audit_history(task_uuid))


@app.command
def step(step: Step, /) -> int:
    """All results of a step: one for every attempt."""
    with database() as db:
        step_uuid = db.step_uuid(step)
        task_uuid = db.value("select task_uuid from tasker.workflow_steps where workflow_step_uuid = %s", (step_uuid,))
        if task_uuid is None:
            raise CommandError(f"there is no step {step}", hint="list a task's steps: pgtasker task steps TASK_UUID")
        return _print(db.client.get_step_audit_history(task_uuid, step_uuid))


@app.command
def worker(worker: Annotated[str, Parameter(name="WORKER", help="The worker's uuid.")], /, *, limit: int = 100) -> int:
    """The latest results of a worker."""
    with database() as db:
        return _print(db.client.get_audit_by_worker(parse_uuid(worker, "list workers: pgtasker worker list"), limit))


@app.command
def correlation(
    correlation: Annotated[str, Parameter(name="CORRELATION", help="The correlation id, a uuid.")], /
) -> int:
    """All results of the tasks that carry a correlation id."""
    with database() as db:
        return _print(db.client.get_audit_by_correlation_id(parse_uuid(correlation, "a correlation id is a uuid")))


def _print(records: Iterable[AuditRecord]) -> int:
    output.emit_rows([dataclasses.asdict(record) for record in records], COLUMNS, empty="no result recorded")
    return OK
