"""The inside of a running worker: one ``Engine`` per ``run``.

Three connections, none of which is ever in a transaction while a handler runs:

- the main one reports results, drives the workflow and claims, several calls in one round trip where the driver can;
- the lease keeper's, in a thread of its own, so that a handler that blocks the event loop does not cost its lease;
- the listener's, which only ever says "look now". Polling is what makes sure.

The engine decides nothing about workflows: it hands over results, calls ``orchestrate`` and ``tick``, and asks for
work.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import psycopg

from . import _statements as sql
from ._connect import CONFLICTS, Backoff, connection_options, connection_string, is_unusable
from ._executors import Executor, ProcessExecutor, ThreadExecutor
from ._listener_async import AsyncListener
from ._rows import DriveCounts, StepOutcome, TaskOverview, TickCounts
from ._steps import Report, StepContext, context_of, deadline_of, failure, failure_of, success_of, undecodable
from .errors import InvalidDefinition, InvalidTransition, NotFound, SchemaMissing, error_from_psycopg

if TYPE_CHECKING:
    import datetime as dt

    from ._statements import RawClaim, Statement

    Handler = Callable[[StepContext], Any]
    AsyncHandler = Callable[[StepContext], Awaitable[Any]]

T = TypeVar("T")

logger = logging.getLogger("pgtasker.worker")

ANY_HANDLER = "*"

_MOST_REPORTS = 500
_MOST_CHARACTERS = 4_000_000
_MOST_CLAIMS = 500
_MOST_DRIVEN = 500
_MOST_TIMERS = 1000
_WATCH_SECONDS = 0.2
_HOT_SECONDS = 1.0
_HOT_POLL = 0.1
_PREFETCH_SECONDS = 0.05
_MOST_PREFETCH = 200


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
    poll_interval: float
    drive: bool
    drain_timeout: float
    executor: str
    application_name: str
    pgbouncer: bool
    sync_handlers: dict[str, Handler]
    async_handlers: dict[str, AsyncHandler]

    @property
    def capabilities(self) -> list[str]:
        """The handler names this worker knows."""
        return sorted({*self.sync_handlers, *self.async_handlers})

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
    """A step between its claim and its report."""

    claim: RawClaim
    known_since: float
    cancelled: threading.Event = field(default_factory=threading.Event)
    taken_away: bool = False
    timed_out: bool = False
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


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
    """Extends the worker's leases, tells that it lives, and learns which steps were taken away from it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="pgtasker-leases", daemon=True)
        self._engine = engine
        self._over = threading.Event()

    def run(self) -> None:
        """Look at the claims every two seconds or so, extend them after each third of a lease."""
        settings = self._engine.settings
        extend_every = settings.lease / 3
        look_every = min(extend_every, max(0.1, min(settings.poll_interval, 2.0)))
        backoff = Backoff(repeatable=True)
        conn: psycopg.Connection[Any] | None = None
        extended_at = time.monotonic()
        pause = look_every
        while not self._over.wait(pause):
            pause = look_every
            try:
                if conn is None:
                    conninfo, options = settings.connection(" leases")
                    conn = psycopg.Connection.connect(conninfo, **options)
                begun = time.monotonic()
                if begun - extended_at >= extend_every * 0.9:
                    self._extend(conn)
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

    def _extend(self, conn: psycopg.Connection[Any]) -> None:
        worker = {"worker_uuid": self._engine.worker_uuid}
        _fetch(conn, sql.EXTEND_LEASES, {**worker, "lease": self._engine.settings.lease})
        _fetch(conn, sql.WORKER_HEARTBEAT, worker)

    def _look(self, conn: psycopg.Connection[Any]) -> None:
        asked_at = time.monotonic()
        running = [entry for entry in self._engine.running() if entry.known_since < asked_at and not entry.taken_away]
        if running:
            held = set(_fetch(conn, sql.HELD_CLAIMS, {"worker_uuid": self._engine.worker_uuid}))
            for entry in running:
                if entry.claim.workflow_step_uuid not in held:
                    self._engine.take_away(entry)

    def stop(self) -> None:
        """End soon; leases are not extended any more."""
        self._over.set()


def _fetch(conn: psycopg.Connection[Any], statement: Statement[T], parameters: dict[str, Any]) -> list[T]:
    with psycopg.Cursor(conn, row_factory=statement.row_factory) as cursor:
        cursor.execute(statement.sql, parameters)
        return cursor.fetchall()


class Engine:
    """One run of a worker.

    Args:
        settings: what the worker was made with.
        goal: when to end without being asked to.
    """

    def __init__(self, settings: Settings, goal: Goal) -> None:
        self.settings = settings
        self.goal = goal
        self.counts = Counts()
        self.worker_uuid: UUID | None = None
        self._loop = asyncio.get_running_loop()
        self._conn: psycopg.AsyncConnection[Any] | None = None
        self._pipelined = not settings.pgbouncer and psycopg.Pipeline.is_supported()
        self._backoff = Backoff(repeatable=True)
        self._running: dict[tuple[UUID, UUID], Running] = {}
        self._reports: deque[Report] = deque()
        self._singly = 0
        self._wake = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._drain_until: float | None = None
        self._cut = False
        self._limit: asyncio.Timeout | None = None
        executor = ProcessExecutor if settings.executor == "process" else ThreadExecutor
        self._executor: Executor = executor(settings.concurrency, self._loop, self._deliver)
        # The longest handler run of late, forgotten slowly: it tells how far ahead it is safe to claim.
        self._slowest = float("inf")
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
        """Mark a step as not ours any more; called on the lease keeper's thread."""
        entry.taken_away = True
        entry.cancelled.set()
        self._loop.call_soon_threadsafe(self._cancel, entry)

    def _cancel(self, entry: Running) -> None:
        if entry.claim.key in self._running:
            logger.info("step %s (%s) was taken away", entry.claim.name, entry.claim.workflow_step_uuid)
            self._executor.cancel(entry.claim)
            if entry.task is not None:
                entry.task.cancel()

    # --------------------------------------------------------------------------------------------------------- run

    async def run(self) -> None:
        """Work until stopped or the goal is reached.

        The first connection fails loudly, so that a wrong address is known at once; later ones are tried for ever.
        """
        await self._connect()
        try:
            await self._register()
            keeper = LeaseKeeper(self)
            keeper.start()
            listening = self._loop.create_task(self._listen())
            try:
                await self._work()
            finally:
                listening.cancel()
                await self._abandon()
                await asyncio.gather(listening, return_exceptions=True)
                keeper.stop()
        finally:
            await self._sign_off()

    async def _register(self) -> None:
        settings = self.settings
        call = Call(
            sql.REGISTER_WORKER,
            {
                "name": settings.name,
                "capabilities": settings.capabilities,
                "max_concurrent": settings.concurrency,
                "vocabulary": settings.vocabulary,
                "namespaces": None if settings.namespaces is None else list(settings.namespaces),
            },
        )
        await self._round_trip([call])
        if call.error is not None:
            raise error_from_psycopg(call.error) or call.error
        self.worker_uuid = call.rows[0]
        logger.info("worker %s (%s) handles %s", settings.name, self.worker_uuid, ", ".join(settings.capabilities))

    async def _work(self) -> None:
        while not self._is_over():
            self._wake.clear()
            try:
                async with asyncio.timeout(None) as self._limit:
                    if self._drain_until is not None:
                        self._limit.reschedule(self._loop.time() + max(0.05, self._drain_until - time.monotonic()))
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

    def _end_running(self) -> bool:
        """End what still runs, where that is possible; return whether there is anything to wait for."""
        worth_waiting = False
        for entry in self.running():
            entry.cancelled.set()
            self._executor.cancel(entry.claim)
            if entry.task is not None:
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
        self._end_running()
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
        if self._conn is None:
            return
        try:
            if self.worker_uuid is not None and not self._conn.closed:
                async with asyncio.timeout(2.0):
                    reason = "forced" if self.counts.forced else "drained"
                    await self._round_trip(
                        [Call(sql.SHUTDOWN_WORKER, {"worker_uuid": self.worker_uuid, "reason": reason})]
                    )
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
        return self._conn

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
        listener = AsyncListener(conninfo, options, ["tasker_work"])
        wanted = settings.namespaces
        try:
            # Without a connection there is nothing to test; the listener keeps trying to get one.
            if await listener.connect() and not await self._listening_works(listener):
                logger.warning(
                    "notifications do not arrive, so new work is noticed only every %g s. Most often a pooler in"
                    " transaction mode stands between: give a direct connection as listen_dsn.",
                    settings.poll_interval,
                )
                return
            while True:
                if await listener.wait(60.0, matching=lambda payload: wanted is None or payload in wanted):
                    # All listeners get the same hint: a little apart they do not ask for the same rows.
                    await asyncio.sleep(random.uniform(0.0, 0.005))  # noqa: S311 (jitter, not a secret)
                    self._become_hot()
        except Exception:
            logger.exception("listening ended; the worker goes on by polling")
        finally:
            await listener.close()

    async def _listening_works(self, listener: AsyncListener) -> bool:
        conninfo, options = self.settings.connection(" test of LISTEN")
        try:
            async with await psycopg.AsyncConnection.connect(conninfo, **options) as sender:
                return await listener.self_test(sender)
        except psycopg.Error as error:
            logger.debug("LISTEN could not be tested: %s", error)
            return True

    def _become_hot(self) -> None:
        now = time.monotonic()
        self._look_at = self._drive_at = now
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
        reports = self._take_reports(now)
        thorough = goal.until_idle and not self._running and not reports and not self._reports
        calls: list[Call[Any]] = []
        complete: Call[StepOutcome] | None = None
        orchestrate: Call[DriveCounts] | None = None
        tick: Call[tuple[TickCounts, float | None]] | None = None
        claim: Call[RawClaim] | None = None
        watch: Call[TaskOverview] | None = None
        if reports:
            complete = Call(sql.COMPLETE_STEPS, {"results": f"[{','.join(report.text for report in reports)}]"})
            calls.append(complete)
        if settings.drive and (reports or thorough or now >= self._drive_at):
            orchestrate = Call(sql.ORCHESTRATE, {"processor_uuid": None, "limit": _MOST_DRIVEN})
            calls.append(orchestrate)
        if settings.drive and (thorough or now >= self._tick_at or any(not report.success for report in reports)):
            tick = Call(sql.TICK_DELAY, {"limit": _MOST_TIMERS})
            calls.append(tick)
        wanted = min(self._free(), settings.batch_size or _MOST_CLAIMS)
        if self._drain_until is None and wanted > 0 and (reports or thorough or now >= self._look_at):
            claim = Call(
                sql.CLAIM_RAW,
                {
                    "worker_uuid": self.worker_uuid,
                    "namespaces": None if settings.namespaces is None else list(settings.namespaces),
                    "limit": wanted,
                    "lease": settings.lease,
                },
            )
            calls.append(claim)
        if goal.task_uuids and now >= self._watch_at:
            watch = Call(sql.TASKS_BY_UUID, {"task_uuids": list(goal.task_uuids)})
            calls.append(watch)
        if not calls:
            return
        try:
            await self._round_trip(calls)
        except BaseException:
            # Also when the round trip was given up: a report that may not have arrived is sent again, the fence sorts
            # it out.
            if complete is not None and complete.rows:
                self._after_reports(complete, reports)
            else:
                self._reports.extendleft(reversed(reports))
            if claim is not None and claim.rows:
                self._dispatch(claim.rows)
            raise
        if claim is not None:
            self._after_claim(claim, wanted)
        if complete is not None:
            self._after_reports(complete, reports)
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

    def _take_reports(self, now: float) -> list[Report]:
        if now < self._report_at:
            return []
        taken: list[Report] = []
        size = 0
        most = 1 if self._singly else _MOST_REPORTS
        while (
            self._reports and len(taken) < most and (not taken or size + len(self._reports[0].text) < _MOST_CHARACTERS)
        ):
            taken.append(self._reports.popleft())
            size += len(taken[-1].text)
        return taken

    def _after_reports(self, call: Call[StepOutcome], reports: list[Report]) -> None:
        if call.error is not None:
            self._report_failed(reports, call.error)
            return
        if self._singly:
            self._singly -= 1
        for report, outcome in zip(reports, call.rows, strict=True):
            if outcome.code is not None:
                self.counts.refused += 1
                logger.warning(
                    "the report of step %s was refused: %s [%s]", report.key[0], outcome.message, outcome.code
                )
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
            self._look_at = now + (_HOT_POLL if now < self._hot_until else self.settings.poll_interval)
        self._dispatch(call.rows)

    def _claim_failed(self, error: psycopg.Error) -> None:
        ours = error_from_psycopg(error)
        if isinstance(ours, InvalidTransition):
            logger.warning("asked to stop: %s", ours.message)
            self.request_stop()
            return
        if isinstance(ours, SchemaMissing | InvalidDefinition | NotFound) or error.sqlstate == "42501":
            raise ours or error
        self._look_at = time.monotonic() + self._backoff.next_delay(0.05, 5.0)
        logger.warning("claiming failed, trying again: %s", error)

    async def _reconcile(self) -> None:
        """Give back claims of ours that we know nothing of: their answer was lost with a connection."""
        held = Call(sql.HELD_CLAIMS, {"worker_uuid": self.worker_uuid})
        await self._round_trip([held])
        self._reconcile_at = time.monotonic() + self.settings.lease
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
        now = time.monotonic()
        settings = self.settings
        self.counts.claimed += len(claims)
        for claim in claims:
            entry = Running(claim, now)
            self._running[claim.key] = entry
            deadline = deadline_of(claim)
            if claim.timeout is not None:
                entry.timer = self._loop.call_later(claim.timeout.total_seconds(), self._time_is_up, entry)
            if handler := settings.sync_handlers.get(claim.handler):
                self._executor.submit(handler, claim, entry.cancelled, deadline)
            elif async_handler := settings.async_handlers.get(claim.handler):
                entry.task = self._loop.create_task(self._run_async(entry, async_handler, deadline))
            elif handler := settings.sync_handlers.get(ANY_HANDLER):
                self._executor.submit(handler, claim, entry.cancelled, deadline)
            elif async_handler := settings.async_handlers.get(ANY_HANDLER):
                entry.task = self._loop.create_task(self._run_async(entry, async_handler, deadline))
            else:
                known = ", ".join(settings.capabilities) or "none"
                message = f"worker {settings.name} has no handler named {claim.handler!r}; it has: {known}"
                logger.error("step %s of task %s: %s", claim.name, claim.task_uuid, message)
                self._deliver(
                    claim, failure(claim.key, type_name="UnknownHandler", message=message, category="permanent")
                )

    def _time_is_up(self, entry: Running) -> None:
        """End an async handler whose step took longer than its timeout; a sync one can only be told."""
        entry.timed_out = True
        entry.cancelled.set()
        self._executor.cancel(entry.claim)
        if entry.task is not None:
            entry.task.cancel()

    async def _run_async(self, entry: Running, handler: AsyncHandler, deadline: dt.datetime | None) -> None:
        claim = entry.claim
        started = time.perf_counter()
        try:
            context = context_of(claim, entry.cancelled, deadline)
        except (ValueError, RecursionError) as error:
            self._deliver(claim, undecodable(claim, error))
            return
        try:
            result = await handler(context)
        except asyncio.CancelledError as error:
            seconds = time.perf_counter() - started
            if entry.timed_out:
                report = failure(
                    claim.key,
                    type_name="StepTimeout",
                    message=f"the handler was cancelled when the step's timeout of {claim.timeout} was over",
                    category="transient",
                    seconds=seconds,
                )
            elif self._cut and not entry.taken_away:
                report = failure(
                    claim.key,
                    type_name="WorkerStopped",
                    message="the worker was stopped before the step had ended",
                    category="transient",
                    seconds=seconds,
                )
            else:
                report = failure_of(claim, error, seconds)
        except BaseException as error:
            report = failure_of(claim, error, time.perf_counter() - started)
        else:
            report = success_of(claim, result, time.perf_counter() - started)
        self._deliver(claim, report)

    def _deliver(self, claim: RawClaim, report: Report) -> None:
        """Take the report of a handler that has ended; called on the event loop's thread."""
        entry = self._running.pop(claim.key, None)
        if entry is None:
            return
        if entry.timer is not None:
            entry.timer.cancel()
        if report.seconds > 0:
            forgotten = 0.0 if self._slowest == float("inf") else self._slowest * 0.95
            self._slowest = max(report.seconds, forgotten)
        if entry.taken_away:
            # Nobody wants the result any more, and the fence would refuse it.
            self.counts.refused += 1
        else:
            self._reports.append(report)
        self._wake.set()
