"""The worker: runs handlers for claimed steps."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
import signal
import socket
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._connect import as_seconds, as_uuid, resolve_dsn
from ._worker_engine import Engine, Goal, Settings
from .errors import PgtaskerError, WaitTimeout

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from uuid import UUID

    from ._rows import TaskOverview
    from ._steps import StepContext

    AnyHandler = Callable[[StepContext], Any] | Callable[[StepContext], Awaitable[Any]]
    AnyCheck = Callable[[StepContext, Any], Any] | Callable[[StepContext, Any], Awaitable[Any]]

H = TypeVar("H", bound="AnyHandler")
C = TypeVar("C", bound="AnyCheck")


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What one run of a worker did.

    Attributes:
        claimed: steps taken.
        succeeded: results accepted.
        failed: failures accepted; the engine may have them tried again.
        refused: results that were not wanted any more: the step was cancelled, timed out or taken over.
        unfinished: steps whose handler or report did not end in time; their leases run out.
        forced: the run was ended without waiting for its handlers.
    """

    claimed: int
    succeeded: int
    failed: int
    refused: int
    unfinished: int
    forced: bool

    @property
    def exit_code(self) -> int:
        """0 when everything claimed was finished and reported, else 1."""
        return 1 if self.unfinished or self.forced else 0


class Worker:
    """Runs handlers for the steps of one or more namespaces.

    Sync handlers run in threads (or processes), async ones in the event loop. While they run no transaction is open;
    leases are extended in the background, and a step that is taken away (cancelled, timed out) sets its handler's
    ``ctx.cancelled``. Results go out as soon as they are there, many in one call when there are many. The worker also
    drives the workflows itself: it needs no orchestrator beside it. A worker that is paused keeps asking for work; one
    whose registration the server has ended (given up, shut down or terminated by others, its job over) registers again
    under a new identity and goes on. A signal or ``stop`` is what ends the process.

    Example::

        worker = Worker(namespaces=["media"])

        @worker.step("resize")
        def resize(ctx: StepContext) -> dict[str, int]:
            return {"width": ctx.inputs["fetch"]["width"] // 2}

        if __name__ == "__main__":
            worker.run()

    Args:
        dsn: connection string or URI; None takes ``DATABASE_URL``, else the embedded server.
        namespaces: whose steps to claim; None takes all.
        name: shown in ``tasker.workers``; None makes one of host name and process.
        concurrency: handlers at the same time.
        batch_size: most steps in one claim; None goes by the free slots.
        sessions: how many sessions of the server claim and report side by side, each registered as a worker of its own
            with its share of ``concurrency``. More than one is for quick handlers, where the server's processor is
            what limits: a session keeps one of its cores busy, and leaves a part of its work to one that has none.
        lease: seconds (or timedelta) after which a step of a silent worker is given to another.
        heartbeat_interval: seconds (or timedelta) within which the server expects a sign of life; after three missed
            ones a worker loses what it holds.
        poll_interval: seconds between looks for work when no notification comes.
        drive: whether to call ``orchestrate`` and ``tick`` too; off only where something else does.
        drain_timeout: seconds that running handlers get after a stop was asked for.
        listen_dsn: direct connection for LISTEN where ``dsn`` leads through a pooler in transaction mode.
        executor: ``"thread"`` or ``"process"`` for sync handlers; processes need handlers that can be imported.
        vocabulary: the vocabulary the worker registers for.
        capabilities: what it can do besides its handlers, whose names are capabilities too; steps that require more
            are not handed to it.
        application_name: shown in ``pg_stat_activity`` and recorded in the audit trail.
        pgbouncer: set it for a pooler in transaction mode.

    The constructor opens nothing, so a worker may be made at import time and run in another process.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        namespaces: Sequence[str] | None = None,
        name: str | None = None,
        concurrency: int = 8,
        batch_size: int | None = None,
        sessions: int = 1,
        lease: float | dt.timedelta = 30.0,
        poll_interval: float = 5.0,
        drive: bool = True,
        drain_timeout: float = 30.0,
        listen_dsn: str | None = None,
        executor: Literal["thread", "process"] = "thread",
        vocabulary: str = "tasker",
        capabilities: Sequence[str] = (),
        heartbeat_interval: float | dt.timedelta = 10.0,
        application_name: str = "pgtasker-worker",
        pgbouncer: bool = False,
    ) -> None:
        if isinstance(namespaces, str) or isinstance(capabilities, str):
            raise TypeError("namespaces and capabilities are lists of names, not one text")
        self.dsn = dsn
        self.namespaces = namespaces
        self.name = name
        self.concurrency = concurrency
        self.batch_size = batch_size
        self.sessions = sessions
        self.lease = lease
        self.poll_interval = poll_interval
        self.drive = drive
        self.drain_timeout = drain_timeout
        self.listen_dsn = listen_dsn
        self.executor = executor
        self.vocabulary = vocabulary
        self.capabilities = capabilities
        self.heartbeat_interval = heartbeat_interval
        self.application_name = application_name
        self.pgbouncer = pgbouncer
        self._handlers: dict[str, AnyHandler] = {}
        self._checks: dict[str, AnyCheck] = {}
        self._cleanups: dict[str, AnyHandler] = {}
        self._engines: list[Engine] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_early = False
        self._guard = threading.Lock()

    # ---------------------------------------------------------------------------------------------------- handlers

    def step(self, handler: str) -> Callable[[H], H]:
        """Register the decorated function, sync or async, for steps with this handler name.

        The function gets a ``StepContext`` and returns the step's result, anything that is JSON. It says what went
        wrong by raising ``PermanentError``, ``TransientError`` or ``RetryAfter``; any other exception counts as
        unknown. The name ``"*"`` takes every step whose handler has no function of its own.
        """
        if not isinstance(handler, str):
            raise TypeError('write @worker.step("handler name")')
        if handler in self._handlers:
            raise ValueError(f"there is a function for handler {handler!r} already: {self._handlers[handler]!r}")

        def register(function: H) -> H:
            self._handlers[handler] = function
            return function

        return register

    def cleanup(self, handler: str) -> Callable[[H], H]:
        """Register the decorated function, sync or async, to clean up after a step of this handler that was cancelled,
        taken away, or whose time was over (seed 002, "Cleanup Actions").

        It gets the ``StepContext`` that the handler had, after the handler has ended; what it returns is not used, and
        what it raises is logged. The name ``"*"`` takes every handler without a function of its own. Sync functions run
        in a thread of this process, with ``executor="process"`` too.
        """
        if handler in self._cleanups:
            raise ValueError(f"there is a clean-up for handler {handler!r} already: {self._cleanups[handler]!r}")

        def register(function: H) -> H:
            self._cleanups[handler] = function
            return function

        return register

    def check(self, name: str) -> Callable[[C], C]:
        """Register the decorated function, sync or async, as acceptance check ``{"type": "custom", "handler": name}``.

        It gets the ``StepContext`` and the handler's result (as read back from JSON). It fails by raising, whose
        message is stored, or by returning False.
        """
        if name in self._checks:
            raise ValueError(f"there is a check named {name!r} already: {self._checks[name]!r}")

        def register(function: C) -> C:
            self._checks[name] = function
            return function

        return register

    @property
    def handlers(self) -> dict[str, AnyHandler]:
        """The registered functions by handler name."""
        return dict(self._handlers)

    # --------------------------------------------------------------------------------------------------------- run

    def run(self) -> WorkerSummary:
        """Work until SIGTERM, SIGINT or ``stop``; blocking.

        The first signal ends the claiming: running handlers may finish within ``drain_timeout``, leases are kept
        meanwhile, results are reported. A second one does not wait; a third one ends the process in the usual way.
        Signals are heeded only in the main thread. In a process that does nothing else, ``gc.freeze()`` before it keeps
        full garbage collections short, which otherwise hold up claims and handlers; ``pgtasker worker run`` does so.

        Raises:
            psycopg.OperationalError: the server could not be reached at the start. Later the worker reconnects by
            itself.
            PgtaskerError: the schema is missing or the worker was refused.
        """
        return asyncio.run(self._run(Goal(), signals=True))

    async def run_async(self) -> WorkerSummary:
        """Do the same as ``run`` in the running event loop, without touching signals; cancelling it ends the worker."""
        return await self._run(Goal(), signals=False)

    def run_until_idle(self, *, timeout: float | None = None, wait_for_timers: float = 0.0) -> WorkerSummary:
        """Work until nothing is ready, nothing is running and no timer is due; for tests and scripts.

        Args:
            timeout: seconds after which to give up.
            wait_for_timers: also wait for timers (retries, leases) due within this many seconds.

        Raises:
            WaitTimeout: there still was something to do.
        """
        return asyncio.run(self.run_until_idle_async(timeout=timeout, wait_for_timers=wait_for_timers))

    async def run_until_idle_async(
        self, *, timeout: float | None = None, wait_for_timers: float = 0.0
    ) -> WorkerSummary:
        """Do the same as ``run_until_idle`` in the running event loop."""
        goal = Goal(until_idle=True, wait_for_timers=wait_for_timers, deadline=_deadline(timeout))
        summary = await self._run(goal, signals=False)
        if goal.timed_out:
            raise WaitTimeout(f"there was still work to do after {timeout:g} s")
        return summary

    def run_until(self, *task_uuids: UUID | str, timeout: float | None = None) -> list[TaskOverview]:
        """Work until the given tasks have ended, or are blocked and wait for a decision; returns them in that order.

        Steps of other tasks are worked on too.

        Raises:
            WaitTimeout: the tasks have not ended.
            NotFound: no such task.
        """
        return asyncio.run(self.run_until_async(*task_uuids, timeout=timeout))

    async def run_until_async(self, *task_uuids: UUID | str, timeout: float | None = None) -> list[TaskOverview]:
        """Do the same as ``run_until`` in the running event loop."""
        wanted = tuple(found for uuid in task_uuids if (found := as_uuid(uuid, "task_uuid")) is not None)
        if not wanted:
            return []
        goal = Goal(task_uuids=wanted, deadline=_deadline(timeout))
        await self._run(goal, signals=False)
        if goal.timed_out:
            open_tasks = [str(uuid) for uuid in wanted if uuid not in goal.tasks or not goal.tasks[uuid].is_terminal]
            raise WaitTimeout(
                f"{len(open_tasks)} of {len(wanted)} tasks have not ended within {timeout:g} s",
                detail={"task_uuids": open_tasks},
                hint="See explain_task for what they wait for.",
            )
        return [goal.tasks[uuid] for uuid in wanted if uuid in goal.tasks]

    def stop(self, force: bool = False) -> None:
        """Ask a running worker to end, as the first signal does; with ``force`` as the second. From any thread."""
        with self._guard:
            engines, loop = self._engines, self._loop
            if loop is None:
                self._stop_early = True
                return
        with contextlib.suppress(RuntimeError):  # the loop has just closed: the worker has ended
            loop.call_soon_threadsafe(lambda: _stop_all(engines, force=force))

    async def _run(self, goal: Goal, *, signals: bool) -> WorkerSummary:
        engines: list[Engine] = []
        engines += [Engine(settings, goal, engines) for settings in self._shares()]
        with self._guard:
            if self._engines:
                raise PgtaskerError("this worker is running already")
            self._engines, self._loop = engines, asyncio.get_running_loop()
            if self._stop_early:
                _stop_all(engines)
        try:
            with _signals(engines) if signals else contextlib.nullcontext():
                await _run_all(engines)
        finally:
            with self._guard:
                self._engines, self._loop = [], None
                self._stop_early = False
        counts = [engine.counts for engine in engines]
        return WorkerSummary(
            claimed=sum(c.claimed for c in counts),
            succeeded=sum(c.succeeded for c in counts),
            failed=sum(c.failed for c in counts),
            refused=sum(c.refused for c in counts),
            unfinished=sum(c.unfinished for c in counts),
            forced=any(c.forced for c in counts),
        )

    def _shares(self) -> list[Settings]:
        """The settings of each session: a name and a part of the handlers."""
        whole = self._settings()
        if self.sessions == 1:
            return [whole]
        share, more = divmod(whole.concurrency, self.sessions)
        return [
            replace(whole, name=f"{whole.name}/{number + 1}", concurrency=share + (number < more))
            for number in range(self.sessions)
        ]

    def _settings(self) -> Settings:
        if self.concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        if not 1 <= self.sessions <= self.concurrency:
            raise ValueError("sessions must be at least 1, and not more than concurrency")
        if self.executor not in ("thread", "process"):
            raise ValueError(f"executor must be 'thread' or 'process', not {self.executor!r}")
        lease = as_seconds(self.lease, "lease")
        if lease is None or lease <= 0:
            raise ValueError("lease must be longer than nothing")
        heartbeat_interval = as_seconds(self.heartbeat_interval, "heartbeat_interval")
        if heartbeat_interval is None or heartbeat_interval <= 0:
            raise ValueError("heartbeat_interval must be longer than nothing")
        is_async = {name: _is_async(function) for name, function in self._handlers.items()}
        return Settings(
            dsn=resolve_dsn(self.dsn),
            listen_dsn=self.listen_dsn,
            namespaces=None if self.namespaces is None else tuple(self.namespaces),
            name=self.name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}",
            vocabulary=self.vocabulary,
            concurrency=self.concurrency,
            batch_size=self.batch_size,
            lease=lease,
            heartbeat_interval=heartbeat_interval,
            poll_interval=self.poll_interval,
            drive=self.drive,
            drain_timeout=self.drain_timeout,
            executor=self.executor,
            application_name=self.application_name,
            pgbouncer=self.pgbouncer,
            sync_handlers={name: f for name, f in self._handlers.items() if not is_async[name]},
            async_handlers={name: f for name, f in self._handlers.items() if is_async[name]},
            checks=dict(self._checks),
            cleanups=dict(self._cleanups),
            more_capabilities=tuple(self.capabilities),
        )


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _is_async(function: AnyHandler) -> bool:
    # An object with "async def __call__" is a handler too.
    call = vars(type(function)).get("__call__")
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _run_all(engines: list[Engine]) -> None:
    """Run until all have ended; one that fails ends the others."""
    if len(engines) == 1:
        await engines[0].run()
        return
    running = [asyncio.ensure_future(engine.run()) for engine in engines]
    try:
        await asyncio.gather(*running)
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _stop_all(engines: list[Engine], *, force: bool = False) -> None:
    for engine in engines:
        engine.request_stop(force=force)


@contextlib.contextmanager
def _signals(engines: list[Engine]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    heeded = (signal.SIGTERM, signal.SIGINT)
    received = 0

    def react() -> None:
        nonlocal received
        received += 1
        _stop_all(engines)
        if received == 2:
            for number in heeded:
                loop.remove_signal_handler(number)

    for number in heeded:
        loop.add_signal_handler(number, react)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
