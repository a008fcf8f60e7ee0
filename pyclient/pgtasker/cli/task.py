"""``pgtasker task``: create, look at, watch and repair tasks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import (
    Reason,
    RequestedBy,
    RequestId,
    TaskUuid,
    json_object,
    moment,
    requested_by,
    tags_argument,
)
from pgtasker.cli._database import Database, database, optional_uuid, parse_uuid
from pgtasker.cli._errors import OK, REFUSED, CommandError, usage_error
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from uuid import UUID

    from pgtasker import Change, TaskOverview

app = App(name="task", help="Create, watch, explain and repair tasks.", result_action="return_value")

LIST_COLUMNS = ("task_uuid", "namespace", "name", "state", "steps", "failed_steps", "created_at")
STEP_COLUMNS = (
    "name",
    "handler",
    "state",
    "attempt",
    "unmet_dependencies",
    "next_retry_at",
    "workflow_step_uuid",
)
TIMELINE_COLUMNS = ("at", "kind", "name", "from_state", "event", "to_state", "who", "reason")
_STEPS_SHOWN = 40


@app.command
def create(
    name: Annotated[str | None, Parameter(help="The template's name.")] = None,
    /,
    *,
    graph: Annotated[
        str | None, Parameter(help="A workflow file to run as it is, without a template ('-': standard input).")
    ] = None,
    context: Annotated[str | None, Parameter(help="JSON object the handlers read, or @FILE.")] = None,
    namespace: str = "default",
    version: Annotated[str | None, Parameter(help="The template's version; the newest if left out.")] = None,
    idempotency_key: Annotated[
        str | None,
        Parameter(name=["--idempotency-key", "--key"], help="A second call with this key makes no second task."),
    ] = None,
    correlation_id: Annotated[str | None, Parameter(help="uuid that ties this task to a request elsewhere.")] = None,
    priority: int = 0,
    parent: Annotated[str | None, Parameter(help="uuid of the parent task.")] = None,
    tag: Annotated[list[str] | None, Parameter(help="key=value; may be repeated.", negative="")] = None,
    by: RequestedBy = None,
    start: Annotated[bool, Parameter(negative="--no-start", help="Start it at once.")] = True,
    start_at: Annotated[dt.datetime | None, Parameter(help="Start it then; without a zone: UTC.")] = None,
    vocabulary: Annotated[str | None, Parameter(help="By whose names it runs, if not the template's.")] = None,
    unique_key: Annotated[
        str | None, Parameter(help="Nothing is created while a task with this key runs in the namespace.")
    ] = None,
    unique_seconds: Annotated[
        float | None, Parameter(help="Nothing is created so long after the last one, instead of while it runs.")
    ] = None,
    debounce_seconds: Annotated[
        float | None, Parameter(help="Start so long after the last call with the key, with the context of that one.")
    ] = None,
    debounce_max_seconds: Annotated[
        float | None, Parameter(help="But no longer than this after the first call.")
    ] = None,
    request_id: RequestId = None,
) -> int:
    """Create a task from a template (NAME) or from a workflow file (--graph), and print its uuid."""
    options: dict[str, Any] = {
        "namespace": namespace,
        "idempotency_key": idempotency_key,
        "correlation_id": optional_uuid(correlation_id, "--correlation-id"),
        "priority": priority,
        "parent_task_uuid": optional_uuid(parent, "--parent"),
        "tags": tags_argument(tag or []),
        "requested_by": requested_by(by),
        "start": start,
        "start_at": None if start_at is None else moment(start_at),
    }
    unique = {
        "unique_key": unique_key,
        "unique_seconds": unique_seconds,
        "debounce_seconds": debounce_seconds,
        "debounce_max_seconds": debounce_max_seconds,
    }
    given_context = json_object(context, "--context")
    outcome = None
    if name is not None and graph is None:
        wanted = {"name": name, "version": version, "vocabulary": vocabulary, "context": given_context, **unique}
        with database() as db:
            (submitted,) = db.client.submit_tasks([wanted | options], request_id=request_id)
        task_uuid, outcome = submitted.task_uuid, submitted.outcome
    elif graph is not None and name is None:
        from pgtasker import graphs

        if unique_key is not None:
            raise usage_error("--unique-key is for templates")
        loaded = ad_hoc(graphs.load(graph).graph)
        if vocabulary is not None:
            loaded["vocabulary"] = vocabulary
        with database() as db:
            task_uuid = db.client.create_task_from_graph(loaded, given_context, **options, request_id=request_id)
    else:
        raise usage_error("give either a template's NAME or --graph FILE")
    if settings.json:
        output.emit_json({"task_uuid": task_uuid} if outcome is None else {"task_uuid": task_uuid, "outcome": outcome})
    else:
        output.line(str(task_uuid))
        if outcome in _STANDS:
            output.talk(f"nothing was created: this task {_STANDS[outcome]}")
        output.talk(f"watch it: pgtasker task watch {task_uuid}")
    return OK


_STANDS = {
    "duplicate": "stands for the unique key",
    "pushed_back": "has not started, and was pushed back",
}


def ad_hoc(graph: dict[str, Any]) -> dict[str, Any]:
    """The graph without what only a template has."""
    return {key: value for key, value in graph.items() if key not in ("version", "namespace")}


@app.command(name="list")
def list_(
    *,
    namespace: str | None = None,
    name: Annotated[str | None, Parameter(help="Template name; % stands for anything.")] = None,
    state: Annotated[
        list[str] | None, Parameter(negative="", help="A state, as the vocabulary writes it; may be repeated.")
    ] = None,
    phase: Annotated[
        list[str] | None, Parameter(negative="", help="A phase, the same in every vocabulary; may be repeated.")
    ] = None,
    status: Annotated[Literal["open", "finished"] | None, Parameter(help="open: not in a terminal state.")] = None,
    tag: Annotated[
        list[str] | None, Parameter(negative="", help="key=value the task must carry; may be repeated.")
    ] = None,
    correlation_id: str | None = None,
    parent: Annotated[str | None, Parameter(help="uuid of the parent task.")] = None,
    since: Annotated[
        str | None, Parameter(help="Created at or after this time (anything PostgreSQL reads, such as 'yesterday').")
    ] = None,
    limit: int = 50,
) -> int:
    """List tasks, newest first."""
    filters = {
        "namespace": namespace,
        "name": name,
        "states": state or None,
        "phases": phase or None,
        "is_terminal": None if status is None else status == "finished",
        "tags": None if not tag else json.dumps(tags_argument(tag)),
        "correlation_id": optional_uuid(correlation_id, "--correlation-id"),
        "parent": optional_uuid(parent, "--parent"),
        "since": since,
        "limit": limit,
    }
    with database() as db:
        rows = db.rows(
            """
            select * from tasker.task_overview
             where (%(namespace)s::text is null or namespace = %(namespace)s)
               and (%(name)s::text is null or name like %(name)s)
               and (%(states)s::text[] is null or state = any(%(states)s))
               and (%(phases)s::text[] is null or phase = any(%(phases)s))
               and (%(is_terminal)s::boolean is null or is_terminal = %(is_terminal)s)
               and (%(tags)s::jsonb is null or tags @> %(tags)s::jsonb)
               and (%(correlation_id)s::uuid is null or correlation_id = %(correlation_id)s)
               and (%(parent)s::uuid is null or parent_task_uuid = %(parent)s)
               and (%(since)s::timestamptz is null or created_at >= %(since)s::timestamptz)
             order by created_at desc, task_uuid desc
             limit %(limit)s
            """,
            filters,
        )
    output.emit_rows(rows, LIST_COLUMNS, empty="no task matches")
    return OK


@app.command
def show(task: TaskUuid, /) -> int:
    """Show one task and its steps."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        overview = dataclasses.asdict(db.client.task(task_uuid))
        steps = _steps(db, task_uuid)
    if settings.json:
        output.emit_json({"task": overview, "steps": steps})
        return OK
    output.emit_record(overview)
    if steps:
        output.heading(f"steps ({len(steps)})")
        unfinished_first = (
            sorted(steps, key=lambda step: bool(step["is_terminal"])) if len(steps) > _STEPS_SHOWN else steps
        )
        output.emit_rows(unfinished_first[:_STEPS_SHOWN], STEP_COLUMNS)
    if len(steps) > _STEPS_SHOWN:
        output.talk(f"{len(steps) - _STEPS_SHOWN} more: pgtasker task steps {task_uuid}")
    return OK


def _steps(db: Database, task_uuid: UUID) -> list[dict[str, Any]]:
    return db.rows(
        "select * from tasker.step_overview where task_uuid = %s order by created_at, workflow_step_uuid", (task_uuid,)
    )


@app.command
def steps(
    task: TaskUuid,
    /,
    *,
    state: Annotated[
        list[str] | None, Parameter(negative="", help="Only steps in this state; may be repeated.")
    ] = None,
    phase: Annotated[
        list[str] | None, Parameter(negative="", help="Only steps in this phase; may be repeated.")
    ] = None,
) -> int:
    """List all steps of a task."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        db.client.task(task_uuid)  # refused here if there is no such task
        rows = [
            row
            for row in _steps(db, task_uuid)
            if (not state or row["state"] in state) and (not phase or row["phase"] in phase)
        ]
    output.emit_rows(rows, STEP_COLUMNS, empty="no step matches")
    return OK


@app.command
def timeline(
    task: TaskUuid,
    /,
    *,
    limit: Annotated[int | None, Parameter(help="Only the last N entries.")] = None,
    step: Annotated[str | None, Parameter(help="Only this step (its name).")] = None,
) -> int:
    """Print everything that happened to a task and its steps, oldest first."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        db.client.task(task_uuid)  # refused here if there is no such task
        rows = timeline_rows(db, task_uuid, step)
    output.emit_rows(
        rows if limit is None else rows[-limit:] if limit > 0 else [], TIMELINE_COLUMNS, empty="nothing happened yet"
    )
    return OK


def timeline_rows(db: Database, task_uuid: UUID, step: str | None = None) -> list[dict[str, Any]]:
    """The timeline of a task with one more column, ``who``: the person, worker or processor behind each entry."""
    return db.rows(
        """
        select t.*, coalesce(t.requested_by, w.name, p.name) as who
          from tasker.timeline t
          left join tasker.workers w on w.worker_uuid = t.worker_uuid
          left join tasker.processors p on p.processor_uuid = t.processor_uuid
         where t.task_uuid = %(task)s and (%(step)s::text is null or (t.kind = 'step' and t.name = %(step)s))
         order by t.at, t.entity_uuid, t.sort_key
        """,
        {"task": task_uuid, "step": step},
    )


@app.command
def explain(task: TaskUuid, /) -> int:
    """Say in words why a task is where it is, and which call would move it."""
    with database() as db:
        explanation = db.client.explain_task(parse_uuid(task, "list tasks: pgtasker task list"))
    if settings.json:
        output.emit_json(dataclasses.asdict(explanation))
        return OK
    print_explanation(explanation)
    return OK


def print_explanation(explanation: Any) -> None:
    """An Explanation as a sentence and a table of reasons."""
    output.line(f"{explanation.state}: {explanation.summary}")
    if explanation.reasons:
        output.heading("reasons")
        output.emit_rows(
            [dataclasses.asdict(reason) for reason in explanation.reasons], ("step", "state", "why", "call")
        )


@app.command
def watch(
    task: TaskUuid,
    /,
    *,
    timeout: Annotated[float | None, Parameter(help="Stop watching after this many seconds (exit code 1).")] = None,
) -> int:
    """Follow a task until it ends: what happened so far, then every transition as it happens.

    Exit code 0 when it completed or was resolved, 1 otherwise. With --json one object a line.
    """
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    deadline = None if timeout is None else time.monotonic() + timeout
    with database() as db:
        # The cursor is taken before the past is read: an entry in between is seen twice and dropped, never missed.
        cursor = db.client.current_cursor()
        names = {str(row["workflow_step_uuid"]): row["name"] for row in _steps(db, task_uuid)}
        seen: set[tuple[str, int]] = set()

        def print_new(rows: list[dict[str, Any]]) -> None:
            for row in rows:
                key = (str(row["entity_uuid"]), row["sort_key"])
                if key not in seen:
                    seen.add(key)
                    _print_entry(row)

        overview = db.client.task(task_uuid)
        print_new(timeline_rows(db, task_uuid))
        while not overview.is_terminal:
            if deadline is not None and time.monotonic() > deadline:
                output.talk(f"still {overview.state} after {timeout:g} s")
                return REFUSED
            changes = db.client.changes_after(cursor)
            if changes:
                cursor = changes[-1].cursor
                print_new(
                    [
                        _entry_of(change, names, overview.name)
                        for change in changes
                        if str(change.task_uuid) == str(task_uuid)
                    ]
                )
            else:
                time.sleep(0.2)
            overview = db.client.task(task_uuid)
        # The feed holds a row back while an older transaction runs; the log itself does not.
        print_new(timeline_rows(db, task_uuid))
    steps_done = f"{overview.satisfied_steps} of {overview.total_steps} steps satisfied, {overview.failed_steps} failed"
    output.talk(f"{overview.state}: {steps_done}", style=output.PHASE_STYLES.get(overview.phase))
    return OK if succeeded(overview) else REFUSED


def _entry_of(change: Change, step_names: dict[str, str], task_name: str) -> dict[str, Any]:
    """A change of the feed in the columns of the timeline."""
    return {
        "at": change.created_at,
        "task_uuid": change.task_uuid,
        "kind": change.log,
        "entity_uuid": change.entity_uuid,
        "name": step_names.get(str(change.entity_uuid), task_name),
        "from_state": change.from_state,
        "to_state": change.to_state,
        "event": change.event,
        "sort_key": change.sort_key,
        "reason": (change.metadata or {}).get("reason"),
    }


def _print_entry(row: dict[str, Any]) -> None:
    if settings.json:
        output.emit_json_line(row)
        return
    at = row["at"].astimezone().strftime("%H:%M:%S.%f")[:-3]
    why = f"  ({row['reason']})" if row.get("reason") else ""
    output.line(f"{at}  {row['kind']:<4}  {row['name']}  {row['from_state'] or 'new'} -> {row['to_state']}{why}")


def succeeded(overview: TaskOverview) -> bool:
    """True for a task that ended with all its steps satisfied or was resolved by a person."""
    return overview.is_terminal and overview.phase in SUCCEEDED_PHASES


SUCCEEDED_PHASES = ("succeeded", "resolved")


def _manual(action: str, task: str, reason: str, by: str | None, request_id: str | None) -> int:
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        state = getattr(db.client, action)(task_uuid, reason, requested_by(by), request_id=request_id)
    output.answer({"task_uuid": task_uuid, "state": state}, state)
    return OK


@app.command
def cancel(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Cancel a task and its unfinished steps."""
    return _manual("cancel_task", task, reason, by, request_id)


@app.command
def retry(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None) -> int:
    """Retry every step that failed or waits for its next attempt, now."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        db.client.task(task_uuid)  # refused here if there is no such task
        rows = db.rows(
            """
            select workflow_step_uuid, name from tasker.step_overview
             where task_uuid = %s and phase in ('failed', 'waiting_retry')
             order by state_since, name
            """,
            (task_uuid,),
        )
        if not rows:
            raise CommandError("no step of this task failed or waits for a retry", hint=f"pgtasker task explain {task}")
        for row in rows:
            row["state"] = db.client.retry_step(row["workflow_step_uuid"], reason, requested_by(by))
    output.emit_rows(rows, ("workflow_step_uuid", "name", "state"))
    return OK


@app.command
def resolve(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Declare a blocked task resolved by hand."""
    return _manual("resolve_task", task, reason, by, request_id)


@app.command(name="give-up")
def give_up(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Give up a blocked task: it ends as failed."""
    return _manual("give_up_task", task, reason, by, request_id)


@app.command
def reset(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Start a failed task anew."""
    return _manual("reset_task", task, reason, by, request_id)


@app.command(name="pass-validation")
def pass_validation(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Let a task that waits for its final validation pass it."""
    return _manual("pass_validation", task, reason, by, request_id)


@app.command(name="fail-validation")
def fail_validation(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Let a task that waits for its final validation fail it."""
    return _manual("fail_validation", task, reason, by, request_id)


@app.command
def resume(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Go on where a task ended without success: a new task runs what is unfinished. Prints its uuid."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        resumed = db.client.resume_task(task_uuid, reason, requested_by(by), request_id=request_id)
    if settings.json:
        output.emit_json({"task_uuid": resumed, "resumes": task_uuid})
    else:
        output.line(str(resumed))
        output.talk(f"watch it: pgtasker task watch {resumed}")
    return OK
