"""The inside of a running worker: one ``Engine`` per ``run``.

Up to four connections, none of which is ever in a transaction while a handler runs:

- the main one reports results, drives the workflow and claims, several calls in one round trip where the driver can;
- the lease keeper's, in a thread of its own, so that a handler that blocks the event loop does not cost its lease;
- the listener's, which only ever says "look now". Polling is what makes sure;
- the errands', made when a handler saves its first checkpoint or a step has acceptance checks.

The engine decides nothing about workflows: it hands over results, calls ``orchestrate`` and ``tick``, and asks for
work.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import inspect
import json
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import psycopg

from . import _statements as sql
from . import _tracing
from ._acceptance import failed_summary, run_checks
from ._connect import CONFLICTS, Backoff, connection_options, connection_string, is_unusable
from ._errands import Errands, in_thread
from ._executors import Executor, ProcessExecutor, ThreadExecutor
from ._json import dumps, printable
from ._listener_async import AsyncListener
from ._rows import DriveCounts, StepOutcome, TaskOverview, TickCounts
from ._statements import RawClaim
from ._steps import (
    Cancelled,
    Report,
    StepContext,
    context_of,
    current_step,
    failure,
    failure_of,
    seconds_allowed,
    success_of,
    too_large,
    undecodable,
    validated,
)
from .errors import (
    InvalidDefinition,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    PgtaskerError,
    SchemaMissing,
    error_from_psycopg,
    json_object,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._acceptance import Check
    from ._statements import Statement
    from ._tracing import Carrier

    Handler = Callable[[StepContext], Any]
    AsyncHandler = Callable[[StepContext], Awaitable[Any]]

T = TypeVar("T")

logger = logging.getLogger("pgtasker.worker")

ANY_HANDLER = "*"

_MOST_REPORTS = 500
_MOST_CHARACTERS = 4_000_000
_MOST_CLAIMS = 500
_WORTH_SHARING = 64
_MOST_DRIVEN = 500
_MOST_TIMERS = 1000
_WATCH_SECONDS = 0.2
_HOT_SECONDS = 1.0
_HOT_POLL = 0.1
_PREFETCH_SECONDS = 0.05
_MOST_PREFETCH = 200
_MOST_CONCURRENT = 100_000
_REGISTER_SECONDS = 1.0
_TIMEOUT_PATIENCE = 10.0
_TELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker was made with; see ``Worker``."""

    dsn: str
    listen_dsn: str | None
    namespaces: tuple[str, ...] | None
    name: str
    vocabulary: str
    concurrency: int
    batch_size: int | None
    lease: float
    heartbeat_interval: float
    poll_interval: float
    drive: bool
    drain_timeout: float
    executor: str
    application_name: str
    pgbouncer: bool
    sync_handlers: dict[str, Handler]
    async_handlers: dict[str, AsyncHandler]
    checks: dict[str, Check]
    cleanups: dict[str, Handler | AsyncHandler]
    more_capabilities: tuple[str, ...]

    @property
    def handler_names(self) -> list[str]:
        """The handlers this worker has."""
        return sorted({*self.sync_handlers, *self.async_handlers})

    @property
    def capabilities(self) -> list[str]:
        """What this worker can do: its handlers, and what it was told it can."""
        return sorted({*self.handler_names, *self.more_capabilities})

    @property
    def most_held(self) -> int:
        """The most steps it may hold at once: running, claimed ahead, and done but not reported yet."""
        ahead = 0 if self.async_handlers else _MOST_PREFETCH
        return min(_MOST_CONCURRENT, 2 * (self.concurrency + ahead))

    def connection(self, suffix: str = "") -> tuple[str, dict[str, Any]]:
        """Return the connection string and the options of a connection of this worker."""
        options = connection_options(pgbouncer=self.pgbouncer, prepare_threshold=5)
        return connection_string(self.dsn, f"{self.application_name}{suffix}"), options


@dataclass(slots=True)
class Counts:
    """What happened during one run."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    refused: int = 0
    unfinished: int = 0
    forced: bool = False


@dataclass(slots=True)
class Running:
    """A step between its claim and its report.

    Attributes:
        taken_away: the server has said so: nothing that is done for it counts any more.
        timed_out: its time is over here; what that means, the server decides a moment later.
        waiting: it has ended after its time, and waits for the server to take it.
        cleaning: its clean-up hook runs.
        reporting: the report of its checks is under way, so that not holding it any more means nothing.
        time_up_at: when its time for the work is over, by the clock of the event loop.
        patience: until its timeout is reported from here.
        task: what runs for it in the event loop: an async handler, its checks, or its clean-up hook.
        trace: the trace context of its claim, where spans are made.
    """

    claim: RawClaim
    known_since: float
    deadline: dt.datetime | None = None
    cancelled: Cancelled = field(default_factory=Cancelled)
    taken_away: bool = False
    timed_out: bool = False
    waiting: bool = False
    cleaning: bool = False
    reporting: bool = False
    time_up_at: float | None = None
    patience: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None
    trace: Carrier | None = None


@dataclass(slots=True)
class Call(Generic[T]):
    """One statement of a round trip, and what came back: rows or an error."""

    statement: Statement[T]
    parameters: dict[str, Any]
    rows: list[T] = field(default_factory=list)
    error: psycopg.Error | None = None


@dataclass(slots=True)
class Goal:
    """When a run ends by itself: at nothing to do, at the end of some tasks, after a time, or never."""

    until_idle: bool = False
    wait_for_timers: float = 0.0
    task_uuids: tuple[UUID, ...] = ()
    deadline: float | None = None
    timed_out: bool = False
    tasks: dict[UUID, TaskOverview] = field(default_factory=dict)


class LeaseKeeper(threading.Thread):
    """Extends the worker's leases, tells that it lives, and learns what was taken away from it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="pgtasker-leases", daemon=True)
        self._engine = engine
        self._over = False
        self._called = threading.Event()
        self._beat_due = False

    def run(self) -> None:
        """Look at the claims every two seconds or so, extend them after each third of a lease."""
        settings = self._engine.settings
        extend_every = settings.lease / 3
        beat_every = min(extend_every, settings.heartbeat_interval / 2)
        look_every = min(beat_every, max(0.1, min(settings.poll_interval, 2.0)))
        backoff = Backoff(repeatable=True)
        conn: psycopg.Connection[Any] | None = None
        extended_at = beaten_at = time.monotonic()
        pause = look_every
        while True:
            self._called.wait(pause)
            self._called.clear()
            if self._over:
                break
            pause = look_every
            try:
                if conn is None:
                    conninfo, options = settings.connection(" leases")
                    conn = psycopg.Connection.connect(conninfo, **options)
                begun = time.monotonic()
                if self._beat_due or begun - beaten_at >= beat_every * 0.9:
                    self._beat_due = False
                    alive = self._beat(conn)
                    beaten_at = begun
                    if alive and begun - extended_at >= extend_every * 0.9:
                        lease = {"worker_uuid": self._engine.worker_uuid, "lease": settings.lease}
                        _fetch(conn, sql.EXTEND_LEASES, lease)
                        extended_at = begun
                self._look(conn)
                backoff.reset()
            except psycopg.Error as error:
                if conn is not None and is_unusable(error, conn):
                    conn.close()
                    conn = None
                # Sooner than usual: one broken connection must not cost a lease.
                pause = min(look_every, backoff.next_delay(0.1, 2.0))
                logger.warning("the leases could not be kept, trying again in %.1f s: %s", pause, str(error).strip())
        if conn is not None:
            conn.close()

    def _beat(self, conn: psycopg.Connection[Any]) -> bool:
        """Tell that the worker lives; return whether the server agrees."""
        worker_uuid = self._engine.worker_uuid
        ((state, drained),) = _fetch(conn, sql.BEAT, {"worker_uuid": worker_uuid})
        if drained:
            self._engine.drain()
        if state in self._engine.end_states:
            self._engine.worker_ended(worker_uuid, state)
            return False
        return True

    def _look(self, conn: psycopg.Connection[Any]) -> None:
        asked_at = time.monotonic()
        running = [entry for entry in self._engine.running() if entry.known_since < asked_at and not entry.taken_away]
        if running:
            held = set(_fetch(conn, sql.HELD_CLAIMS, {"worker_uuid": self._engine.worker_uuid}))
            for entry in running:
                if entry.claim.workflow_step_uuid not in held:
                    self._engine.take_away(entry)

    def call(self, *, beat: bool = False) -> None:
        """Look now; with ``beat`` ask for the worker's own state too. From any thread."""
        self._beat_due = self._beat_due or beat
        self._called.set()

    def stop(self) -> None:
        """End soon; leases are not extended any more."""
        self._over = True
        self._called.set()


def _fetch(conn: psycopg.Connection[Any], statement: Statement[T], parameters: dict[str, Any]) -> list[T]:
    with psycopg.Cursor(conn, row_factory=statement.row_factory) as cursor:
        cursor.execute(statement.sql, parameters)
        return cursor.fetchall()


class Engine:
    """One run of a worker.

    Args:
        settings: what the worker was made with.
        goal: when to end without being asked to.
        sessions: all of the same worker, this one among them.
    """

    def __init__(self, settings: Settings, goal: Goal, sessions: Sequence[Engine]) -> None:
        self.settings = settings
        self.goal = goal
        self._sessions = sessions
        self.counts = Counts()
        self.worker_uuid: UUID | None = None
        self.end_states: frozenset[str] = frozenset()
        self._registered = False
        self._registered_at = -_REGISTER_SECONDS
        self._keeper = LeaseKeeper(self)
        self._loop = asyncio.get_running_loop()
        self._conn: psycopg.AsyncConnection[Any] | None = None
        self._pipelined = not settings.pgbouncer and psycopg.Pipeline.is_supported()
        self._backoff = Backoff(repeatable=True)
        self._running: dict[tuple[UUID, UUID], Running] = {}
        self._reports: deque[Report] = deque()
        self._traces: dict[tuple[UUID, UUID], Carrier] = {}
        self._reported_at = 0
        self._singly = 0
        self._taken_at_once = 0
        self._wake = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._drain_until: float | None = None
        self._cut = False
        self._limit: asyncio.Timeout | None = None
        executor = ProcessExecutor if settings.executor == "process" else ThreadExecutor
        self._errands = Errands(*settings.connection(" errands"))
        self._executor: Executor = executor(settings.concurrency, self._loop, self._deliver, self._errands)
        # The longest handler run of late, forgotten slowly: it tells how far ahead it is safe to claim.
        self._slowest = float("inf")
        self._told_at: dict[str, float] = {}
        self._time_watch: asyncio.TimerHandle | None = None
        now = time.monotonic()
        self._report_at = self._look_at = self._drive_at = self._tick_at = self._watch_at = now
        self._reconcile_at = now + settings.lease
        self._hot_until = now

    # ------------------------------------------------------------------------------------------------ from outside

    def request_stop(self, *, force: bool = False) -> None:
        """Stop claiming and let running handlers end; with ``force``, or asked a second time, do not wait for them."""
        now = time.monotonic()
        if self._stop_requested.is_set():
            force = True
        else:
            logger.info("stopping; steps still running: %d", len(self._running))
        self._drain_until = now + self.settings.drain_timeout
        if force:
            self.counts.forced = True
            self._drain_until = now
        self._stop_requested.set()
        self._wake.set()
        if self._limit is not None:
            # A round trip under way is given up when the drain is over; at once when nothing depends on it.
            idle = not self._running and not self._reports and self._conn is None
            self._limit.reschedule(self._loop.time() + (0.0 if idle else self._drain_until - now + 0.1))

    def running(self) -> list[Running]:
        """Return the steps between claim and report; safe to call from the lease keeper's thread."""
        return list(self._running.values())

    def take_away(self, entry: Running) -> None:
        """Mark a step as not ours any more; from any thread."""
        if not entry.reporting:
            entry.taken_away = True
            entry.cancelled.set()
            self._on_loop(self._cancel, entry)

    def _on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back on the event loop's thread; a run that has ended meanwhile has nothing left to do."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _cancel(self, entry: Running) -> None:
        if entry.claim.key not in self._running:
            return
        logger.info("step %s (%s) was taken away", entry.claim.name, entry.claim.workflow_step_uuid)
        if entry.waiting:
            self._leave(entry)
        elif not entry.cleaning:
            self._executor.cancel(entry.claim)
            if entry.task is not None:
                entry.task.cancel()

    def drain(self) -> None:
        """Claim nothing more and end with what runs, however long that takes; from any thread."""
        self._on_loop(self._begin_drain)

    def _begin_drain(self) -> None:
        if self._drain_until is None:
            logger.info("worker %s was drained; steps still running: %d", self.worker_uuid, len(self._running))
            self._drain_until = math.inf
            self._wake.set()

    def worker_ended(self, worker_uuid: UUID | None, state: str) -> None:
        """Take note that the server has ended this worker; called on the lease keeper's thread."""
        if worker_uuid == self.worker_uuid:
            self._on_loop(self._give_up_identity, state)

    def _give_up_identity(self, state: str) -> None:
        if self._registered and self._drain_until is None:
            logger.warning("worker %s has ended (%s); registering again", self.worker_uuid, state)
            self._registered = False
            self._wake.set()

    # --------------------------------------------------------------------------------------------------------- run

    async def run(self) -> None:
        """Work until stopped or the goal is reached.

        The first connection fails loudly, so that a wrong address is known at once; later ones are tried for ever.
        """
        await self._connect()
        try:
            await self._register()
            self._keeper.start()
            listening = self._loop.create_task(self._listen())
            try:
                await self._work()
            finally:
                listening.cancel()
                await self._abandon()
                await asyncio.gather(listening, return_exceptions=True)
                self._keeper.stop()
        finally:
            await self._sign_off()

    async def _register(self) -> None:
        settings = self.settings
        call = Call(
            sql.REGISTER_WORKER,
            {
                "name": settings.name,
                "capabilities": settings.capabilities,
                "max_concurrent": settings.most_held,
                "vocabulary": settings.vocabulary,
                "namespaces": None if settings.namespaces is None else list(settings.namespaces),
                "heartbeat_interval": settings.heartbeat_interval,
                "max_missed_heartbeats": 3,
                "handlers": None if ANY_HANDLER in settings.handler_names else settings.handler_names,
                "request_id": None,
            },
        )
        ends = Call(sql.WORKER_END_STATES, {"vocabulary": settings.vocabulary})
        await self._round_trip([call, ends])
        for done in (call, ends):
            if done.error is not None:
                raise error_from_psycopg(done.error) or done.error
        self.worker_uuid = call.rows[0]
        self.end_states = frozenset(ends.rows)
        self._registered = True
        self._registered_at = time.monotonic()
        logger.info("worker %s (%s) handles %s", settings.name, self.worker_uuid, ", ".join(settings.handler_names))

    async def _register_again(self) -> None:
        """Go on under a new identity; what was held under the old one is lost."""
        for entry in self.running():
            self.take_away(entry)
        pause = self._registered_at + _REGISTER_SECONDS - time.monotonic()
        if pause > 0:
            # Whatever ends workers at once must not make them come back in a circle at full speed.
            try:
                async with asyncio.timeout(pause):
                    await self._stop_requested.wait()
            except TimeoutError:
                pass
        if self._drain_until is None:
            await self._register()
            self._become_hot()

    async def _work(self) -> None:
        while not self._is_over():
            self._wake.clear()
            try:
                async with asyncio.timeout(None) as self._limit:
                    if self._drain_until is not None:
                        self._limit.reschedule(self._loop.time() + max(0.05, self._drain_until - time.monotonic()))
                    elif not self._registered:
                        await self._register_again()
                    await self._cycle()
            except TimeoutError:
                await self._forget_connection()
                continue
            except psycopg.Error as error:
                await self._recover(error)
                continue
            finally:
                self._limit = None
            if not self._is_over():
                await self._pause(self._seconds_to_next_look())

    def _is_over(self) -> bool:
        goal = self.goal
        now = time.monotonic()
        if goal.deadline is not None and now >= goal.deadline and self._drain_until is None:
            goal.timed_out = True
            self._finish()
        if self._drain_until is None:
            return False
        if not self._running and not self._reports:
            return True
        if now < self._drain_until:
            return False
        if self._cut:
            return True
        # Give what can be ended a moment to end, so that its failure can be reported and is tried again elsewhere at
        # once.
        self._cut = True
        self._drain_until = now + (2.0 if self._end_running() or self._reports else 0.0)
        return False

    def _finish(self) -> None:
        if self._drain_until is None:
            self._drain_until = time.monotonic() + self.settings.drain_timeout

    def _end_running(self, *, cleaning: bool = False) -> bool:
        """End what still runs, where that is possible; return whether there is anything to wait for.

        Clean-up hooks are left alone unless ``cleaning``.
        """
        worth_waiting = False
        for entry in self.running():
            entry.cancelled.set()
            if entry.waiting:
                self._report_timeout(entry)
                continue
            self._executor.cancel(entry.claim)
            if entry.task is not None:
                if cleaning or not entry.cleaning:
                    entry.task.cancel()
                worth_waiting = True
        self._executor.stop(kill=True)
        return worth_waiting or (bool(self._running) and self.settings.executor == "process")

    async def _abandon(self) -> None:
        """Leave nothing running in this loop, also when ``run`` itself was cancelled; say so to the server if it
        listens.
        """
        tasks = [entry.task for entry in self.running() if entry.task is not None]
        self._cut = True
        self._end_running(cleaning=True)
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)
        if self._reports and self._conn is not None and not self._conn.closed:
            try:
                async with asyncio.timeout(2.0):
                    self._drain_until = time.monotonic()
                    await self._cycle()
            except (psycopg.Error, TimeoutError) as error:
                logger.warning("the last results could not be reported: %s", error)

    async def _sign_off(self) -> None:
        self.counts.unfinished = len(self._running) + len(self._reports)
        if self.counts.unfinished:
            logger.warning("%d steps were left unfinished; their leases will run out", self.counts.unfinished)
        self._errands.close()
        if self._conn is None:
            return
        try:
            if self.worker_uuid is not None and not self._conn.closed:
                async with asyncio.timeout(2.0):
                    reason = "forced" if self.counts.forced else "drained"
                    worker = {"worker_uuid": self.worker_uuid, "reason": reason, "request_id": None}
                    await self._round_trip([Call(sql.SHUTDOWN_WORKER, worker)])
        except (psycopg.Error, TimeoutError) as error:
            logger.warning("could not sign off: %s", error)
        finally:
            await self._conn.close()

    async def _pause(self, seconds: float) -> None:
        if seconds <= 0:
            # Handlers that are ready come first; what they return meanwhile goes out in the same round trip.
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _seconds_to_next_look(self) -> float:
        times = [self._reconcile_at]
        if self._reports:
            times.append(self._report_at)
        if self._drain_until is not None:
            times.append(self._drain_until)
        elif self._free() > 0:
            times.append(self._look_at)
        if self.settings.drive:
            times += [self._drive_at, self._tick_at]
        if self.goal.deadline is not None and self._drain_until is None:
            times.append(self.goal.deadline)
        if self.goal.task_uuids:
            times.append(self._watch_at)
        return min(times) - time.monotonic()

    # ------------------------------------------------------------------------------------------------- connections

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        conninfo, options = self.settings.connection()
        self._conn = await psycopg.AsyncConnection.connect(conninfo, **options)
        self._conn.add_notice_handler(self._told_of_steps_left)
        return self._conn

    def _told_of_steps_left(self, notice: psycopg.errors.Diagnostic) -> None:
        """Log what the server says of steps whose handler this worker does not have, once a minute for each handler."""
        text = notice.message_primary or ""
        about = f"{notice.severity_nonlocalized} {json_object(notice.message_detail).get('handler')}"
        now = time.monotonic()
        if now - self._told_at.get(about, -_TELL_SECONDS) < _TELL_SECONDS:
            return
        self._told_at[about] = now
        logger.log(logging.WARNING if notice.severity_nonlocalized == "WARNING" else logging.INFO, "%s", text)

    async def _ready_connection(self) -> psycopg.AsyncConnection[Any]:
        if self._conn is not None and not self._conn.closed:
            return self._conn
        conn = await self._connect()
        logger.info("connected again")
        return conn

    async def _forget_connection(self) -> None:
        """Close the connection after a round trip of which nobody knows how far it came."""
        conn, self._conn = self._conn, None
        self._reconcile_at = 0.0
        if conn is not None:
            await conn.close()

    async def _recover(self, error: psycopg.Error) -> None:
        if self._conn is None or is_unusable(error, self._conn):
            await self._forget_connection()
        delay = self._backoff.next_delay(0.1, 5.0)
        if self._drain_until is not None:
            if not self._running and not self._reports:
                return
            delay = max(0.0, min(delay, self._drain_until - time.monotonic()))
        logger.warning("the database failed, trying again in %.1f s: %s", delay, str(error).strip())
        if self._stop_requested.is_set():
            await asyncio.sleep(delay)
            return
        try:
            async with asyncio.timeout(delay):
                await self._stop_requested.wait()
        except TimeoutError:
            pass

    async def _listen(self) -> None:
        settings = self.settings
        conninfo = connection_string(settings.listen_dsn or settings.dsn, f"{settings.application_name} listener")
        options = connection_options(pgbouncer=settings.pgbouncer, prepare_threshold=None)
        listener = AsyncListener(conninfo, options, ["tasker_work", "tasker_worker_state"])
        try:
            # Without a connection there is nothing to test; the listener keeps trying to get one.
            if await listener.connect() and not await self._listening_works(listener):
                logger.warning(
                    "notifications do not arrive, so new work is noticed only every %g s. Most often a pooler in"
                    " transaction mode stands between: give a direct connection as listen_dsn.",
                    settings.poll_interval,
                )
                return
            # What came before the listening began, or during the test, is seen by looking once.
            self._become_hot()
            while True:
                if await listener.wait(60.0, matching=self._concerns_us):
                    self._become_hot(drive=False)
        except Exception:
            logger.exception("listening ended; the worker goes on by polling")
        finally:
            await listener.close()

    def _concerns_us(self, payload: str) -> bool:
        """Whether a notification is reason to ask for work: there is some, or this worker may have been let go on.

        Such that take something away are passed on to the lease keeper, who asks what is left.
        """
        wanted = self.settings.namespaces
        if payload[:1] not in ("[", "{"):  # the name of a namespace
            return wanted is None or payload in wanted
        concerned = False
        us = str(self.worker_uuid)
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            return False  # anybody who may connect can send anything here
        for event in told if isinstance(told, list) else [told]:
            if not isinstance(event, dict):
                continue
            if event.get("kind") == "step_taken_away" and event.get("worker_uuid") == us:
                self._keeper.call()
            elif event.get("kind") == "worker_drained" and event.get("worker_uuid") == us:
                self._keeper.call(beat=True)
            elif event.get("kind") == "worker" and event.get("uuid") == us:
                if event.get("to_state") in self.end_states:
                    self._keeper.call(beat=True)
                # Its own comings and goings are told here too; while it is awake anyway they are no news.
                concerned = concerned or time.monotonic() >= self._hot_until
            elif event.get("kind") == "engine" and (wanted is None or event.get("namespace") in wanted):
                self._drive_at = time.monotonic()  # no worker is asked for: orchestrate runs it
                concerned = True
        return concerned

    async def _listening_works(self, listener: AsyncListener) -> bool:
        conninfo, options = self.settings.connection(" test of LISTEN")
        try:
            async with await psycopg.AsyncConnection.connect(conninfo, **options) as sender:
                return await listener.self_test(sender)
        except psycopg.Error as error:
            logger.debug("LISTEN could not be tested: %s", error)
            return True

    def _soon(self, now: float) -> float:
        """Seconds until the next look while work keeps coming: 10 ms after the last sign of it, growing to 100 ms."""
        return min(_HOT_POLL, 0.01 + max(0.0, now - self._hot_until + _HOT_SECONDS) / 4)

    def _become_hot(self, *, drive: bool = True) -> None:
        """Look at once. Who heard of work in a queue need not ask for results that wait: it would come second."""
        now = time.monotonic()
        self._look_at = now
        if drive:
            self._drive_at = now
        self._hot_until = now + _HOT_SECONDS
        self._wake.set()

    async def _round_trip(self, calls: list[Call[Any]]) -> None:
        """Send several statements, each a transaction of its own, in one round trip where the driver can.

        What happened to each stands in the call. Raises psycopg.Error when the connection cannot be made or was lost;
        calls that have neither rows nor an error were not carried out then, or nobody knows.
        """
        conn = await self._ready_connection()
        cursors = [psycopg.AsyncCursor(conn, row_factory=call.statement.row_factory) for call in calls]
        pipelined = self._pipelined and len(calls) > 1
        failed: psycopg.Error | None = None
        try:
            if pipelined:
                async with conn.pipeline() as pipeline:
                    for call, cursor in zip(calls, cursors, strict=True):
                        await cursor.execute(call.statement.sql, call.parameters)
                        await pipeline.sync()
            else:
                for call, cursor in zip(calls, cursors, strict=True):
                    await cursor.execute(call.statement.sql, call.parameters)
        except psycopg.Error as error:
            failed = error
        # One failed statement does not stop the others of a pipeline: claims that came through must not be dropped.
        for call, cursor in zip(calls, cursors, strict=True):
            if cursor.pgresult is not None:
                call.rows = await cursor.fetchall()
            else:
                call.error = failed
        if failed is not None and is_unusable(failed, conn):
            await conn.close()
            raise failed

    # ------------------------------------------------------------------------------------------------------- cycle

    def _free(self) -> int:
        settings = self.settings
        ahead = 0
        if not settings.async_handlers and self._slowest < _PREFETCH_SECONDS:
            # Quick handlers: claim what a moment will need, so that no thread waits for a round trip.
            ahead = min(_MOST_PREFETCH, int(settings.concurrency * _PREFETCH_SECONDS / max(self._slowest, 1e-4)))
        return settings.concurrency + ahead - len(self._running)

    async def _cycle(self) -> None:
        now = time.monotonic()
        if now >= self._reconcile_at:
            await self._reconcile()
        settings, goal = self.settings, self.goal
        idle = self._idle_sessions(now)
        reports = self._take_reports(now, len(idle))
        thorough = goal.until_idle and not self._running and not reports and not self._reports
        calls: list[Call[Any]] = []
        complete: Call[StepOutcome] | None = None
        go_on: Call[tuple[StepOutcome, bool] | RawClaim] | None = None
        orchestrate: Call[DriveCounts] | None = None
        tick: Call[tuple[TickCounts, float | None]] | None = None
        claim: Call[RawClaim] | None = None
        watch: Call[TaskOverview] | None = None
        worker = {
            "worker_uuid": self.worker_uuid,
            "namespaces": None if settings.namespaces is None else list(settings.namespaces),
            "lease": settings.lease,
        }
        wanted = max(0, min(self._free(), settings.batch_size or _MOST_CLAIMS))
        if self._drain_until is not None or idle:
            wanted = 0
        if reports:
            results = {"results": f"[{','.join(report.text for report in reports)}]"}
            if settings.drive:
                at_once = self._at_once(wanted, now)
                wanted -= at_once
                go_on = Call(sql.REPORT_AND_CLAIM, {**worker, **results, "limit": at_once})
                calls.append(go_on)
            else:
                complete = Call(sql.COMPLETE_STEPS, results)
                calls.append(complete)
        # What failures mean is decided by orchestration, and backoffs may be over at once.
        failed = any(not report.success for report in reports)
        if settings.drive and (thorough or failed or now >= self._drive_at):
            orchestrate = Call(sql.ORCHESTRATE, {"processor_uuid": None, "limit": _MOST_DRIVEN})
            calls.append(orchestrate)
        if settings.drive and (thorough or failed or now >= self._tick_at):
            tick = Call(sql.TICK_DELAY, {"limit": _MOST_TIMERS})
            calls.append(tick)
        if wanted > 0 and (complete is not None or thorough or now >= self._look_at):
            claim = Call(sql.CLAIM_RAW, {**worker, "limit": wanted})
            calls.append(claim)
        if goal.task_uuids and now >= self._watch_at:
            watch = Call(sql.TASKS_BY_UUID, {"task_uuids": list(goal.task_uuids)})
            calls.append(watch)
        if not calls:
            return
        began = self._reported_at = time.time_ns()
        try:
            await self._round_trip(calls)
            if _tracing.is_on():
                await self._follow_traces([*(claim.rows if claim else ()), *(go_on.rows if go_on else ())], began)
        except BaseException:
            # Also when the round trip was given up: a report that may not have arrived is sent again, the fence sorts
            # it out.
            if complete is not None and complete.rows:
                self._after_reports(complete.rows, complete.error, reports)
            elif go_on is not None and go_on.rows:
                self._after_going_on(go_on, reports)
            else:
                self._reports.extendleft(reversed(reports))
            if claim is not None and claim.rows:
                self._dispatch(claim.rows)
            raise
        for session in idle:
            session._become_hot(drive=False)  # what these reports made ready is left to it
        if claim is not None:
            self._after_claim(claim, wanted)
        if complete is not None:
            self._after_reports(complete.rows, complete.error, reports)
        if go_on is not None:
            self._after_going_on(go_on, reports)
        if orchestrate is not None:
            self._after_orchestrate(orchestrate)
        if tick is not None:
            self._after_tick(tick)
        if watch is not None:
            self._after_watch(watch)
        if all(call.error is None for call in calls):
            self._backoff.reset()
        if thorough and self._found_nothing(claim, orchestrate, tick):
            self._finish()

    async def _follow_traces(self, answered: list[RawClaim | tuple[StepOutcome, bool]], began: int) -> None:
        """Make the spans of claims, in the traces of their tasks; ``_dispatch`` finds the contexts."""
        claims = [row for row in answered if isinstance(row, RawClaim)]
        if not claims:
            return
        found = Call(sql.TRACES, {"task_uuids": list({claim.task_uuid for claim in claims})})
        await self._round_trip([found])
        parents = {
            task_uuid: {"traceparent": parent, **({} if state is None else {"tracestate": state})}
            for task_uuid, parent, state in found.rows
        }
        for claim in claims:
            self._traces[claim.key] = _tracing.claimed(claim, parents.get(claim.task_uuid, {}), began)

    def _found_nothing(
        self,
        claim: Call[RawClaim] | None,
        orchestrate: Call[DriveCounts] | None,
        tick: Call[tuple[TickCounts, float | None]] | None,
    ) -> bool:
        if claim is None or claim.rows or claim.error:
            return False
        if orchestrate is not None and (not orchestrate.rows or orchestrate.rows[0].messages):
            return False
        if tick is not None:
            if not tick.rows:
                return False
            counts, delay = tick.rows[0]
            if counts.timers_fired or counts.leases_expired or counts.tasks_moved or counts.steps_enqueued:
                return False
            return delay is None or delay > self.goal.wait_for_timers
        return True

    def _take_reports(self, now: float, idle: int) -> list[Report]:
        """What to report now: where sessions are idle their part, and the rest in the next call."""
        if now < self._report_at:
            return []
        taken: list[Report] = []
        size = 0
        part = len(self._reports) * idle // (idle + 1) if idle else _MOST_REPORTS
        most = 1 if self._singly else min(part, _MOST_REPORTS)
        while (
            self._reports and len(taken) < most and (not taken or size + len(self._reports[0].text) < _MOST_CHARACTERS)
        ):
            taken.append(self._reports.popleft())
            size += len(taken[-1].text)
        return taken

    def _idle_sessions(self, now: float) -> list[Engine]:
        """The sessions of this worker that have nothing to do, while this one has much to report.

        They get what their part of the reports makes ready. It costs them a call more, so a few reports are no reason.
        """
        if len(self._reports) < _WORTH_SHARING or now < self._report_at:
            return []
        return [session for session in self._sessions if session._is_idle(now)]

    def _is_idle(self, now: float) -> bool:
        """Whether it holds nothing and waits for the next look."""
        waits = self._limit is None and self._drain_until is None and now < self._look_at
        return waits and not self._running and not self._reports

    def _at_once(self, wanted: int, now: float) -> int:
        """How many of the steps that its reports make ready this worker takes at once.

        All it has room for, unless others wait in the queue: they get a quarter, so that no workflow holds up the rest,
        and more where reports make little ready. Which quarter of a single place that is, chance says.
        """
        if now < self._look_at:
            return wanted
        share = int(wanted * 0.75 + random.random())  # noqa: S311 (fairness, not a secret)
        return min(share, 2 * self._taken_at_once + wanted // 8)

    def _after_going_on(self, call: Call[tuple[StepOutcome, bool] | RawClaim], reports: list[Report]) -> None:
        claims = [row for row in call.rows if isinstance(row, RawClaim)]
        outcomes = [row for row in call.rows if not isinstance(row, RawClaim)]
        now = time.monotonic()
        if any(awaits for _, awaits in outcomes):
            self._drive_at = now
        self._taken_at_once = len(claims)
        self._after_reports([outcome for outcome, _ in outcomes], call.error, reports)
        self._dispatch(claims)
        # What became ready and was not for this worker, or came from elsewhere meanwhile, is looked for soon.
        self._hot_until = now + _HOT_SECONDS
        self._look_at = min(self._look_at, now + _HOT_POLL)
        if not self._running:
            self._watch_at = now

    def _after_reports(self, outcomes: list[StepOutcome], error: psycopg.Error | None, reports: list[Report]) -> None:
        if error is not None:
            self._report_failed(reports, error)
            return
        if self._singly:
            self._singly -= 1
        if _tracing.is_on():
            _tracing.reported(reports, outcomes, self._reported_at)
        for report, outcome in zip(reports, outcomes, strict=True):
            if outcome.code is not None:
                logger.warning(
                    "the report of step %s was refused: %s [%s]", report.key[0], outcome.message, outcome.code
                )
                if outcome.code == PayloadTooLarge.default_sqlstate:
                    self._reports.append(too_large(report, outcome.message or ""))
                else:
                    self.counts.refused += 1
            elif report.success:
                self.counts.succeeded += 1
            else:
                self.counts.failed += 1

    def _report_failed(self, reports: list[Report], error: psycopg.Error) -> None:
        """Put reports back after a call that failed as a whole; find the one to blame by sending them one by one."""
        if error.sqlstate in CONFLICTS:
            self._report_at = time.monotonic() + self._backoff.next_delay(0.02, 2.0)
            self._reports.extendleft(reversed(reports))
        elif len(reports) > 1:
            logger.warning("a batch of %d reports failed, sending them singly: %s", len(reports), error)
            self._singly = len(reports)
            self._reports.extendleft(reversed(reports))
        elif reports[0].success:
            logger.error("the result of step %s could not be stored: %s", reports[0].key[0], error)
            self._reports.appendleft(
                failure(
                    reports[0].key,
                    type_name="ResultNotStored",
                    message=f"the database refused the result: {error}",
                    category="permanent",
                    seconds=reports[0].seconds,
                )
            )
        else:
            # Not even the failure can be told. The claim is found again by the reconciliation, or runs out.
            logger.error("the failure of step %s could not be stored: %s", reports[0].key[0], error)
            self._singly = max(0, self._singly - 1)

    def _after_orchestrate(self, call: Call[DriveCounts]) -> None:
        now = time.monotonic()
        if call.error is not None:
            logger.info("orchestrate failed, trying again: %s", call.error)
            self._drive_at = now + self._backoff.next_delay(0.02, 2.0)
            return
        counts = call.rows[0]
        self._drive_at = now if counts.messages >= _MOST_DRIVEN else now + self.settings.poll_interval
        if counts.steps_enqueued:
            self._hot_until = now + _HOT_SECONDS
            self._look_at = min(self._look_at, now + _HOT_POLL)
        if counts.tasks_finished:
            self._watch_at = now

    def _after_tick(self, call: Call[tuple[TickCounts, float | None]]) -> None:
        now = time.monotonic()
        if call.error is not None:
            logger.info("tick failed, trying again: %s", call.error)
            self._tick_at = now + self._backoff.next_delay(0.02, 2.0)
            return
        counts, delay = call.rows[0]
        wait = self.settings.poll_interval
        if delay is not None:
            # Workers that know of the same due time do not all come at the same moment.
            wait = min(wait, max(0.0, delay) + random.uniform(0.001, 0.02))  # noqa: S311 (jitter, not a secret)
        self._tick_at = now + wait
        if counts.timers_fired >= _MOST_TIMERS:
            self._tick_at = now
        if any(entry.timed_out for entry in self.running()):
            self._reconcile_at = now
        if counts.timers_fired or counts.leases_expired or counts.steps_enqueued:
            self._hot_until = now + _HOT_SECONDS
            self._look_at = min(self._look_at, now + _HOT_POLL)
            self._drive_at = min(self._drive_at, now + _HOT_POLL)

    def _after_watch(self, call: Call[TaskOverview]) -> None:
        self._watch_at = time.monotonic() + _WATCH_SECONDS
        if call.error is not None:
            raise error_from_psycopg(call.error) or call.error
        self.goal.tasks = {task.task_uuid: task for task in call.rows}
        missing = [uuid for uuid in self.goal.task_uuids if uuid not in self.goal.tasks]
        if missing:
            raise NotFound(f"there is no task {missing[0]}", detail={"kind": "task", "uuid": str(missing[0])})
        if all(task.is_terminal or task.phase == "blocked" for task in call.rows):
            self._finish()

    def _after_claim(self, call: Call[RawClaim], wanted: int) -> None:
        now = time.monotonic()
        if call.error is not None:
            self._claim_failed(call.error)
            return
        if call.rows:
            self._hot_until = now + _HOT_SECONDS
        if len(call.rows) >= wanted:
            self._look_at = now
        else:
            self._look_at = now + (self._soon(now) if now < self._hot_until else self.settings.poll_interval)
        self._dispatch(call.rows)

    def _claim_failed(self, error: psycopg.Error) -> None:
        ours = error_from_psycopg(error)
        if isinstance(ours, InvalidTransition):
            self._give_up_identity(ours.message)
            return
        if isinstance(ours, SchemaMissing | InvalidDefinition | NotFound) or error.sqlstate == "42501":
            raise ours or error
        self._look_at = time.monotonic() + self._backoff.next_delay(0.05, 5.0)
        logger.warning("claiming failed, trying again: %s", error)

    async def _reconcile(self) -> None:
        """Let go of steps that are not held any more, and give back claims of ours that we know nothing of.

        The answer to such a claim was lost with its connection.
        """
        asked_at = time.monotonic()
        held = Call(sql.HELD_CLAIMS, {"worker_uuid": self.worker_uuid})
        await self._round_trip([held])
        self._reconcile_at = time.monotonic() + self.settings.lease
        if held.error is not None:
            return
        still_held = set(held.rows)
        for entry in self.running():
            ours = entry.known_since < asked_at and not entry.taken_away
            if ours and entry.claim.workflow_step_uuid not in still_held:
                self.take_away(entry)
        known = {key[0] for key in self._running} | {report.key[0] for report in self._reports}
        lost = [step_uuid for step_uuid in held.rows if step_uuid not in known]
        if not lost:
            return
        found = Call(sql.UNKNOWN_CLAIMS, {"step_uuids": lost, "worker_uuid": self.worker_uuid})
        await self._round_trip([found])
        if found.error is not None:
            logger.error("%d claims are held but unknown, and cannot be given back: %s", len(lost), found.error)
        for key in found.rows:
            self._reports.append(
                failure(
                    key,
                    type_name="ClaimLost",
                    message="the connection broke while the step was handed over; its handler did not run",
                    category="transient",
                    retry_after=0.0,
                )
            )

    # ---------------------------------------------------------------------------------------------------- handlers

    def _dispatch(self, claims: list[RawClaim]) -> None:
        now, loop_now, today = time.monotonic(), self._loop.time(), dt.datetime.now(dt.UTC)
        settings = self.settings
        names = set(settings.handler_names)
        first_time_up = math.inf
        self.counts.claimed += len(claims)
        for claim in claims:
            if claim.attempt > 1:
                self._take_away_earlier_attempts(claim)
            seconds = seconds_allowed(claim)
            deadline = None if seconds is None else today + dt.timedelta(seconds=seconds)
            entry = Running(claim, now, deadline, trace=self._traces.pop(claim.key, None) if self._traces else None)
            self._running[claim.key] = entry
            if seconds is not None:
                entry.time_up_at = loop_now + seconds
                first_time_up = min(first_time_up, entry.time_up_at)
            name = claim.handler if claim.handler in names else ANY_HANDLER  # no others are handed out
            if handler := settings.sync_handlers.get(name):
                self._submit(handler, entry)
            else:
                entry.task = self._loop.create_task(self._run_async(entry, settings.async_handlers[name], deadline))
        if first_time_up < math.inf:
            self._watch_times(first_time_up)

    def _submit(self, handler: Handler, entry: Running) -> None:
        if entry.trace is not None:
            handler = _tracing.Traced(handler, entry.claim, entry.trace)
        self._executor.submit(handler, entry.claim, entry.cancelled, entry.deadline)

    def _take_away_earlier_attempts(self, claim: RawClaim) -> None:
        """A handler that outlived its claim has lost its step, also where the same worker got it again."""
        for entry in self.running():
            if entry.claim.workflow_step_uuid == claim.workflow_step_uuid:
                self.take_away(entry)

    def _watch_times(self, at: float) -> None:
        """Look when the first step's time is over: one timer for all of them, since hardly any needs its own."""
        if self._time_watch is None or at < self._time_watch.when():
            if self._time_watch is not None:
                self._time_watch.cancel()
            self._time_watch = self._loop.call_at(at, self._look_at_times)

    def _look_at_times(self) -> None:
        self._time_watch = None
        now = self._loop.time() + 0.001  # a timer may come a tick early
        for entry in self.running():
            if entry.time_up_at is not None and entry.time_up_at <= now:
                entry.time_up_at = None
                self._time_is_up(entry)
        later = [entry.time_up_at for entry in self.running() if entry.time_up_at is not None]
        if later:
            self._watch_times(min(later))

    def _time_is_up(self, entry: Running) -> None:
        """End what runs for a step whose time is over; a sync handler can only be told.

        What it means is for the server to say, whose own time for the step is over a moment later.
        """
        entry.timed_out = True
        entry.cancelled.set()
        self._executor.cancel(entry.claim)
        if entry.task is not None:
            entry.task.cancel()
        seconds, timeout = seconds_allowed(entry.claim), entry.claim.timeout
        if seconds is not None and timeout is not None:
            self._loop.call_later(timeout.total_seconds() - seconds + 0.01, self._ask_for_timeouts)

    def _ask_for_timeouts(self) -> None:
        now = time.monotonic()
        self._tick_at = now
        if not self.settings.drive:
            self._reconcile_at = min(self._reconcile_at, now + self.settings.poll_interval)
        self._wake.set()

    async def _run_async(self, entry: Running, handler: AsyncHandler, deadline: dt.datetime | None) -> None:
        claim = entry.claim
        started = time.perf_counter()
        try:
            context = context_of(claim, entry.cancelled, deadline, self._errands)
        except (ValueError, RecursionError) as error:
            self._deliver(claim, undecodable(claim, error))
            return
        current_step.set(claim)  # of this asyncio task
        try:
            if entry.trace is None:
                result = await handler(context)
            else:
                with _tracing.handling(claim, entry.trace):
                    result = await handler(context)
        except asyncio.CancelledError as error:
            seconds = time.perf_counter() - started
            if entry.taken_away or entry.timed_out or not self._cut:
                report = failure_of(claim, error, seconds)
            else:
                report = _stopped(claim, seconds)
        except BaseException as error:
            report = failure_of(claim, error, time.perf_counter() - started)
        else:
            report = success_of(claim, result, time.perf_counter() - started)
        self._deliver(claim, report)

    def _deliver(self, claim: RawClaim, report: Report) -> None:
        """Take the report of a handler that has ended; called on the event loop's thread."""
        entry = self._running.get(claim.key)
        if entry is None:
            return
        if report.seconds > 0:
            forgotten = 0.0 if self._slowest == float("inf") else self._slowest * 0.95
            self._slowest = max(report.seconds, forgotten)
        if entry.taken_away or (entry.timed_out and not report.success):
            # Nobody wants the result any more, or the server is about to say that its time is over.
            self._interrupted(entry)
        elif report.success and claim.acceptance not in (None, "[]"):
            entry.task = self._loop.create_task(self._validate(entry, report))
        else:
            self._report(entry, report)
        self._wake.set()

    def _forget(self, entry: Running) -> None:
        self._running.pop(entry.claim.key, None)
        if entry.patience is not None:
            entry.patience.cancel()

    def _report(self, entry: Running, report: Report) -> None:
        self._forget(entry)
        self._reports.append(report if entry.trace is None else replace(report, trace=entry.trace))
        self._wake.set()

    # ------------------------------------------------------------------------------------------------ interruptions

    def _interrupted(self, entry: Running) -> None:
        """Clean up after a step that was taken away or whose time is over."""
        cleanups = self.settings.cleanups
        hook = cleanups.get(entry.claim.handler) or cleanups.get(ANY_HANDLER)
        if hook is None:
            self._leave(entry)
        else:
            entry.cleaning = True
            entry.task = self._loop.create_task(self._clean_up(entry, hook))

    async def _clean_up(self, entry: Running, hook: Handler | AsyncHandler) -> None:
        try:
            context = context_of(entry.claim, entry.cancelled, entry.deadline, self._errands)
            if inspect.iscoroutinefunction(hook):
                await hook(context)
            else:
                await in_thread(hook, context)
        except asyncio.CancelledError:
            logger.warning("the clean-up of step %s was cut short", entry.claim.name)
        except Exception:
            logger.exception("the clean-up of step %s failed", entry.claim.name)
        entry.cleaning = False
        self._leave(entry)

    def _leave(self, entry: Running) -> None:
        """Be done with an interrupted step, or wait until the server takes the one whose time is over."""
        if entry.taken_away:
            self._forget(entry)
            self.counts.refused += 1
        elif self._cut:
            self._report_timeout(entry)
        else:
            entry.waiting = True
            entry.task = None
            entry.patience = self._loop.call_later(_TIMEOUT_PATIENCE, self._report_timeout, entry)
        self._wake.set()

    def _report_timeout(self, entry: Running) -> None:
        """Say it ourselves where nobody else does: nothing calls ``tick``, or the worker ends now."""
        if entry.claim.key in self._running:
            self._report(
                entry,
                failure(
                    entry.claim.key,
                    type_name="timeout",
                    message=f"it ran for longer than {entry.claim.timeout}",
                    category="transient",
                ),
            )

    # ------------------------------------------------------------------------------------------------------- checks

    async def _validate(self, entry: Running, report: Report) -> None:
        """Run the acceptance checks of a step whose handler has succeeded, and report what came out.

        Where its lifecycle has a phase for them, the result is reported first and the checks after them; elsewhere a
        failed check makes a failed step.
        """
        claim = entry.claim
        execution = {"execution_duration_ms": round(report.seconds * 1000)}
        reported = False
        try:
            context = context_of(claim, entry.cancelled, entry.deadline, self._errands)
            (has_phase,) = await self._errand(sql.VALIDATES_AFTER_REPORT, {"step_uuid": claim.workflow_step_uuid})
            if has_phase:
                reported = await self._begin_validation(entry, report)
                if not reported:
                    return
            passed, details = await run_checks(
                claim.acceptance or "[]", context, json.loads(report.result), self.settings.checks
            )
            details |= execution
            if has_phase:
                await self._end_validation(entry, passed, details)
            elif passed:
                self._report(entry, validated(report, details))
            else:
                self._report(
                    entry,
                    failure(
                        claim.key,
                        type_name="validation_failed",
                        message=failed_summary(details),
                        category="permanent",
                        details=details,
                        seconds=report.seconds,
                    ),
                )
        except asyncio.CancelledError:
            if entry.taken_away or entry.timed_out:
                self._interrupted(entry)
            elif not reported:
                self._report(entry, _stopped(claim, report.seconds))
            # else: somebody has to check it again; it is given to others when its lease ends
        except Exception as error:
            logger.exception("the checks of step %s could not be run", claim.name)
            if reported:
                await self._end_validation(entry, False, {"error": printable(str(error), 2000), **execution})
            else:
                self._report(entry, failure_of(claim, error, report.seconds))

    async def _errand(self, statement: Statement[T], parameters: dict[str, Any]) -> list[T]:
        """Run a statement beside the main connection, for as long as it takes to get an answer."""
        backoff = Backoff(repeatable=True)
        while True:
            try:
                return await in_thread(self._errands.fetch, statement, parameters)
            except psycopg.OperationalError as error:
                delay = backoff.next_delay(0.1, 5.0)
                logger.warning("the database failed, trying again in %.1f s: %s", delay, str(error).strip())
                await asyncio.sleep(delay)

    async def _begin_validation(self, entry: Running, report: Report) -> bool:
        (outcome,) = await self._errand(sql.COMPLETE_STEPS, {"results": f"[{report.text}]"})
        if outcome.code == PayloadTooLarge.default_sqlstate:
            self._report(entry, too_large(report, outcome.message or ""))
            return False
        if outcome.code is not None:
            logger.warning("the report of step %s was refused: %s [%s]", report.key[0], outcome.message, outcome.code)
            self.counts.refused += 1
            self._forget(entry)
            return False
        entry.time_up_at = None  # its time was for the work; each check has its own
        return True

    async def _end_validation(self, entry: Running, passed: bool, details: dict[str, Any]) -> None:
        step_uuid, claim_uuid = entry.claim.key
        told = {
            "step_uuid": step_uuid,
            "claim_uuid": claim_uuid,
            "passed": passed,
            "details": dumps(details, "details"),
        }
        entry.reporting = True
        try:
            await self._errand(sql.REPORT_VALIDATION, told)
        except PgtaskerError as error:
            logger.warning("the validation of step %s was refused: %s [%s]", step_uuid, error.message, error.sqlstate)
            self.counts.refused += 1
        else:
            if passed:
                self.counts.succeeded += 1
            else:
                self.counts.failed += 1
        self._forget(entry)
        # What depends on it may be ready, and this report went another way than the others.
        self._become_hot()


def _stopped(claim: RawClaim, seconds: float) -> Report:
    return failure(
        claim.key,
        type_name="WorkerStopped",
        message="the worker was stopped before the step had ended",
        category="transient",
        seconds=seconds,
    )
