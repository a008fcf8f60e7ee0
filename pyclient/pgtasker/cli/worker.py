"""``pgtasker worker``: run workers and list them."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database, server_dsn
from pgtasker.cli._errors import usage_error

app = App(name="worker", help="Run workers.", result_action="return_value")


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
    stop_with_parent: Annotated[bool, Parameter(show=False, negative="")] = False,
) -> int:
    """Run worker processes until SIGTERM or SIGINT: running steps are finished first, a second signal ends them."""
    from pgtasker.worker import load_worker, run_processes

    if processes < 1:
        raise usage_error("-n takes a number from 1 on")
    dsn = server_dsn()
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s [%(process)d]: %(message)s",
    )
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
    return worker.run().exit_code


def _stop_with_parent() -> None:
    """Send this process a SIGTERM once the process that started it has gone, killed without a good-bye."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop-with-parent", daemon=True).start()


@app.command(name="list")
def list_(
    *,
    all_: Annotated[bool, Parameter(name="--all", negative="", help="Also those that were shut down.")] = False,
    limit: int = 50,
) -> int:
    """List workers, the latest heard of first."""
    with database() as db:
        rows = db.rows(
            """
            select * from tasker.workers
             where %s or shut_down_at is null
             order by last_heartbeat_at desc, worker_uuid desc limit %s
            """,
            (all_, limit),
        )
    output.emit_rows(
        rows,
        ("worker_uuid", "name", "namespaces", "max_concurrent", "registered_at", "last_heartbeat_at", "shut_down_at"),
        empty="no worker",
    )
    return 0
