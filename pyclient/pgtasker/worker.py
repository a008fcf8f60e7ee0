"""Workers: run handlers for claimed steps, in this process or in several.

python -m pgtasker.worker module:worker        # one worker process, nothing but this package needed
"""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from . import _logging
from ._steps import CancelSignal, PermanentError, RetryAfter, StepContext, TransientError
from ._worker import Worker, WorkerSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CancelSignal",
    "PermanentError",
    "RetryAfter",
    "StepContext",
    "TransientError",
    "Worker",
    "WorkerSummary",
    "load_worker",
    "run_processes",
]

logger = logging.getLogger("pgtasker.worker")

_LONGEST_RESTART_DELAY = 30.0
# A process that lived this long was no failed start: the next one is started without delay.
_STEADY_SECONDS = 60.0


def load_worker(target: str) -> Worker:
    """Import a worker given as ``module:attribute``, from the current folder too.

    The attribute is ``worker`` when it is left out.

    Raises:
        ValueError: the attribute does not exist or is no Worker.
        ImportError: the module cannot be imported.
    """
    module_name, _, attribute = target.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: object = importlib.import_module(module_name)
    for part in (attribute or "worker").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ValueError(f"{target}: there is no {part!r} in {module_name}") from None
    if not isinstance(found, Worker):
        raise ValueError(f"{target} is a {type(found).__name__}, not a pgtasker.Worker")
    return found


def run_processes(
    target: str,
    processes: int,
    *,
    dsn: str | None = None,
    namespaces: Sequence[str] | None = None,
    concurrency: int | None = None,
    name: str | None = None,
    drain_timeout: float | None = None,
    verbose: bool = False,
    log_format: str = "text",
) -> int:
    """Run a worker in several operating system processes until they are told to stop; blocking, main thread only.

    SIGTERM and SIGINT are passed on; a process that dies by itself is started again, after a growing delay when it
    keeps dying at its start, and one that was drained is not.

    Args:
        target: ``module:attribute``.
        processes: how many.
        dsn: instead of the worker's own; the same holds for the following ones.
        namespaces: whose steps to claim.
        concurrency: handlers at the same time in each process.
        name: a number is put behind it.
        drain_timeout: seconds for running handlers after a stop.
        verbose: let the processes log what they do.
        log_format: ``text``, or ``json``: one object a line.

    Returns:
        the exit code: 0 when all of them finished what they had claimed.
    """
    if processes < 1:
        raise ValueError("at least one process is needed")
    # A typing error is told here once, and not by each process.
    default_name = load_worker(target).name
    environment = dict(os.environ)
    if dsn is not None:
        # Not an argument: those are shown to every user of the machine.
        environment["PGTASKER_WORKER_DSN"] = dsn

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pgtasker.worker", target]
        for namespace in namespaces or ():
            command += ["--namespace", namespace]
        if concurrency is not None:
            command += ["--concurrency", str(concurrency)]
        if name or default_name:
            command += ["--name", f"{name or default_name}-{number + 1}"]
        if drain_timeout is not None:
            command += ["--drain-timeout", str(drain_timeout)]
        if verbose:
            command.append("--verbose")
        command += ["--log-format", log_format]
        # A session of its own: Ctrl-C reaches the processes once, through the handler below, and not twice. The pipe
        # closes when this process dies, however it dies.
        command.append("--stop-with-stdin")
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, start_new_session=True)

    stopping = threading.Event()
    signals: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        signals.append(number)
        stopping.set()

    previous = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    running: dict[int, subprocess.Popen[bytes]] = {}
    started = dict.fromkeys(range(processes), 0.0)
    delays = dict.fromkeys(range(processes), 0.0)
    due = dict.fromkeys(range(processes), 0.0)
    code = 0
    try:
        while not stopping.is_set() and min(due.values()) < math.inf:
            now = time.monotonic()
            for number in range(processes):
                process = running.get(number)
                if process is None:
                    if now >= due[number]:
                        running[number] = start(number)
                        started[number] = now
                elif process.poll() == 0:  # nobody let it go but drain_worker
                    del running[number]
                    due[number] = math.inf
                    logger.info("worker process %d ended: it was drained", number + 1)
                elif process.returncode is not None:
                    del running[number]
                    delays[number] = (
                        0.0
                        if now - started[number] > _STEADY_SECONDS
                        else min(_LONGEST_RESTART_DELAY, max(1.0, 2 * delays[number]))
                    )
                    due[number] = now + delays[number]
                    logger.error(
                        "worker process %d ended with code %d; starting it again in %.0f s",
                        number + 1,
                        process.returncode,
                        delays[number],
                    )
            stopping.wait(0.2)
        while running or signals:
            while signals:
                signals.pop()
                for process in running.values():
                    process.terminate()
            for number, process in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    code = code or (process.returncode and 1)
            time.sleep(0.02)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker; the command line of ``python -m pgtasker.worker``."""
    parser = argparse.ArgumentParser(prog="python -m pgtasker.worker", description="Run one worker process.")
    parser.add_argument("target", help="module:attribute of the Worker")
    parser.add_argument("--namespace", action="append", dest="namespaces", help="claim only from here; may be repeated")
    parser.add_argument("--concurrency", type=int, help="handlers at the same time")
    parser.add_argument("--name", help="name shown in tasker.workers")
    parser.add_argument("--drain-timeout", type=float, help="seconds for running handlers after a stop")
    parser.add_argument("--stop-with-stdin", action="store_true", help="stop when standard input ends")
    parser.add_argument("--verbose", action="store_true", help="log what the worker does")
    parser.add_argument("--log-format", choices=_logging.FORMATS, default="text", help="json: one object a line")
    options = parser.parse_args(arguments)
    _logging.configure(options.log_format, verbose=options.verbose)
    worker = load_worker(options.target)
    if dsn := os.environ.get("PGTASKER_WORKER_DSN"):
        worker.dsn = dsn
    for setting in ("namespaces", "concurrency", "name", "drain_timeout"):
        value = getattr(options, setting)
        if value is not None:
            setattr(worker, setting, value)
    if options.stop_with_stdin:
        threading.Thread(target=_stop_at_end, args=(worker,), daemon=True).start()
    return worker.run().exit_code


def _stop_at_end(worker: Worker) -> None:
    os.read(sys.stdin.fileno(), 1)
    worker.stop()


if __name__ == "__main__":
    sys.exit(main())
