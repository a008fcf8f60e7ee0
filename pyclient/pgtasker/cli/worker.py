"""``pgtasker worker``: run workers, look at them, and supervise them."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from typing import Annotated, Literal
from uuid import UUID

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, RequestId, requested_by
from pgtasker.cli._database import database, parse_uuid, server_dsn
from pgtasker.cli._errors import OK, CommandError, usage_error
from pgtasker.cli._settings import settings

app = App(name="worker", help="Run and supervise workers.", result_action="return_value")


@app.command
def run(
    target: Annotated[str, Parameter(name="TARGET", help="module:worker, the Worker object with your handlers.")],
    /,
    *,
    processes: Annotated[
        int, Parameter(name=["--processes", "-n"], help="Worker processes; crashed ones are restarted.")
    ] = 1,
    concurrency: Annotated[
        int | None, Parameter(help="Steps at once in each process; the worker's own if left out.")
    ] = None,
    namespace: Annotated[
        list[str] | None, Parameter(negative="", help="Work only for this namespace; may be repeated.")
    ] = None,
    name: Annotated[str | None, Parameter(help="Name in the list of workers.")] = None,
    drain_timeout: Annotated[
        float | None, Parameter(help="Seconds that running steps get to finish after SIGTERM.")
    ] = None,
    verbose: Annotated[
        bool, Parameter(name=["--verbose", "-v"], negative="", help="Log what the worker does.")
    ] = False,
    log_format: Annotated[
        Literal["text", "json"], Parameter(help="json: one object a line, with the step and the trace it belongs to.")
    ] = "text",
    stop_with_parent: Annotated[bool, Parameter(show=False, negative="")] = False,
) -> int:
    """Run worker processes until SIGTERM or SIGINT: running steps are finished first, a second signal ends them."""
    from pgtasker import _logging
    from pgtasker.worker import load_worker, run_processes

    if processes < 1:
        raise usage_error("-n takes a number from 1 on")
    dsn = server_dsn()
    _logging.configure(log_format, verbose=verbose)
    if stop_with_parent:
        _stop_with_parent()
    if processes > 1:
        return run_processes(
            target,
            processes,
            dsn=dsn,
            namespaces=namespace,
            concurrency=concurrency,
            name=name,
            drain_timeout=drain_timeout,
            verbose=verbose,
            log_format=log_format,
        )
    try:
        worker = load_worker(target)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise usage_error(
            f"cannot load {target}: {error}", "TARGET is module:attribute of a pgtasker.Worker"
        ) from error
    worker.dsn = dsn
    if namespace is not None:
        worker.namespaces = namespace
    if concurrency is not None:
        worker.concurrency = concurrency
    if name is not None:
        worker.name = name
    if drain_timeout is not None:
        worker.drain_timeout = drain_timeout
    # What was imported stays; a full collection that walks through all of it holds up claims and handlers.
    gc.freeze()
    return worker.run().exit_code


def _stop_with_parent() -> None:
    """Send this process a SIGTERM once the process that started it has gone, killed without a good-bye."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop-with-parent", daemon=True).start()


WorkerUuid = Annotated[str, Parameter(name="WORKER", help="The worker's uuid.")]


@app.command(name="list")
def list_(
    *,
    all_: Annotated[bool, Parameter(name="--all", negative="", help="Also those that have ended.")] = False,
    limit: int = 50,
) -> int:
    """List workers with their states, the latest heard of first."""
    with database() as db:
        rows = db.rows(
            "select * from tasker.worker_overview where %s or not is_terminal"
            " order by last_heartbeat_at desc, worker_uuid desc limit %s",
            (all_, limit),
        )
    output.emit_rows(
        rows,
        ("worker_uuid", "name", "state", "held_steps", "namespaces", "registered_at", "last_heartbeat_at"),
        empty="no worker",
    )
    return OK


@app.command
def show(worker: WorkerUuid, /) -> int:
    """Show one worker: its row, its states so far, and what it holds."""
    with database() as db:
        worker_uuid = _uuid(worker)
        row = db.row("select * from tasker.worker_overview where worker_uuid = %s", (worker_uuid,))
        if row is None:
            raise CommandError(f"there is no worker {worker}", hint="list them: pgtasker worker list --all")
        history = db.rows(
            """
            select created_at as at, from_state, to_state, event, metadata ->> 'requested_by' as requested_by,
                   metadata ->> 'reason' as reason, metadata
              from tasker.worker_transitions where worker_uuid = %s order by sort_key
            """,
            (worker_uuid,),
        )
        held = db.rows(
            """
            select workflow_step_uuid, task_uuid, name, state, phase, attempts, max_attempts, lease_expires_at
              from tasker.step_overview
             where workflow_step_uuid in (select tasker.held_claims(%s)) order by lease_expires_at, name
            """,
            (worker_uuid,),
        )
    if settings.json:
        output.emit_json({"worker": row, "transitions": history, "held": held})
        return OK
    output.emit_record(row, skip=("is_terminal",))
    output.heading("transitions")
    output.emit_rows(history, ("at", "from_state", "to_state", "event", "requested_by", "reason"))
    output.heading("holds")
    output.emit_rows(held, ("workflow_step_uuid", "name", "state", "attempt", "lease_expires_at"), empty="nothing")
    return OK


def _uuid(worker: str) -> UUID:
    return parse_uuid(worker, "a worker is named by its uuid: pgtasker worker list")


def _manual(action: str, worker: str, reason: str, by: str | None, request_id: str | None) -> int:
    worker_uuid = _uuid(worker)
    with database() as db:
        state = getattr(db.client, action)(worker_uuid, reason, requested_by(by), request_id=request_id)
    output.answer({"worker_uuid": worker_uuid, "state": state}, state)
    return OK


@app.command
def start(worker: WorkerUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Start a supervised worker by hand: it may claim steps without being given to a job."""
    return _manual("start_worker", worker, reason, by, request_id)


@app.command
def pause(worker: WorkerUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Suspend a worker: it finishes what it holds and claims nothing until it is resumed."""
    return _manual("pause_worker", worker, reason, by, request_id)


@app.command
def resume(worker: WorkerUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Let a suspended worker go on."""
    return _manual("resume_worker", worker, reason, by, request_id)


@app.command
def drain(worker: WorkerUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Let a worker finish what it holds, claim nothing more, and stop: its process ends with code 0."""
    return _manual("drain_worker", worker, reason, by, request_id)


@app.command
def terminate(worker: WorkerUuid, /, *, reason: Reason, by: RequestedBy = None, request_id: RequestId = None) -> int:
    """Stop a worker by force: what it holds is taken away and killed. Its process registers anew and goes on."""
    return _manual("terminate_worker", worker, reason, by, request_id)
