"""Where sync handlers run: threads of this process, or processes of their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Protocol

from ._steps import Cancelled, Report, StepContext, failure, failure_of, run_handler

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from uuid import UUID

    from ._errands import Errands
    from ._statements import RawClaim

    Handler = Callable[[StepContext], Any]
    Deliver = Callable[[RawClaim, Report], None]


class Executor(Protocol):
    """Runs sync handlers and delivers each report on the event loop's thread."""

    def submit(self, handler: Handler, claim: RawClaim, cancelled: Cancelled, deadline: dt.datetime | None) -> None:
        """Run a handler as soon as there is room."""
        ...

    def cancel(self, claim: RawClaim) -> None:
        """Pass on that a step was taken away."""
        ...

    def stop(self, *, kill: bool) -> None:
        """Take no more work. With ``kill`` end running handlers where that is possible."""
        ...


class ThreadExecutor:
    """Handlers in daemon threads.

    Not ``concurrent.futures``: its threads keep a forced exit waiting for a handler that never ends, and it wakes the
    event loop once per result, here once per burst.

    Args:
        size: most threads.
        loop: the loop on whose thread reports are delivered.
        deliver: gets each claim with its report.
        errands: saves the handlers' checkpoints.
    """

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop, deliver: Deliver, errands: Errands) -> None:
        self._size = size
        self._loop = loop
        self._deliver = deliver
        self._errands = errands
        self._jobs: queue.SimpleQueue[tuple[Handler, RawClaim, Cancelled, dt.datetime | None] | None] = (
            queue.SimpleQueue()
        )
        self._done: deque[tuple[RawClaim, Report]] = deque()
        self._delivery_due = False
        self._threads: list[threading.Thread] = []
        self._open = 0

    def submit(self, handler: Handler, claim: RawClaim, cancelled: Cancelled, deadline: dt.datetime | None) -> None:
        """Run a handler as soon as a thread is free."""
        self._open += 1
        if self._open > len(self._threads) and len(self._threads) < self._size:
            thread = threading.Thread(target=self._work, name=f"pgtasker-step-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((handler, claim, cancelled, deadline))

    def cancel(self, claim: RawClaim) -> None:
        """Nothing to do: the handler sees its event, and a thread cannot be ended from outside."""

    def stop(self, *, kill: bool) -> None:
        """Let each thread end after what it is doing."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            handler, claim, cancelled, deadline = job
            self._done.append((claim, run_handler(handler, claim, cancelled, deadline, self._errands)))
            # The flag is lowered before the list is emptied, so a report that finds it raised is certain to be seen.
            if not self._delivery_due:
                self._delivery_due = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver_all)
                except RuntimeError:
                    return  # the loop was closed by a forced exit; nobody waits for the report any more

    def _deliver_all(self) -> None:
        self._delivery_due = False
        while self._done:
            self._open -= 1
            self._deliver(*self._done.popleft())


class _SharedFlag:
    """A cancel signal in memory that the worker and its handler processes share."""

    def __init__(self, flags: Any, slot: int) -> None:
        self._flags = flags
        self._slot = slot

    def is_set(self) -> bool:
        return bool(self._flags[self._slot])

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = 0.05 if end is None else min(0.05, end - time.monotonic())
            if left <= 0:
                break
            time.sleep(left)
        return self.is_set()


_flags_of_process: Any = None
_errands_of_process: Any = None


def _begin_process(flags: Any, lifeline: Connection, errands: Errands) -> None:
    global _flags_of_process, _errands_of_process
    _flags_of_process = flags
    _errands_of_process = errands
    # A signal for the whole group (Ctrl-C, systemd) is the worker's to answer: it lets its handlers finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    # The other end closes when the worker says so or dies; nothing is ever sent.
    lifeline.poll(None)
    os._exit(1)


def _run_in_process(handler: Handler, claim: RawClaim, slot: int, deadline: dt.datetime | None) -> Report:
    return run_handler(handler, claim, _SharedFlag(_flags_of_process, slot), deadline, _errands_of_process)


class ProcessExecutor:
    """Handlers in processes: for work that keeps Python's interpreter lock busy or may crash.

    Handlers must be importable.

    Args:
        size: most processes.
        loop: the loop on whose thread reports are delivered.
        deliver: gets each claim with its report.
        errands: saves the handlers' checkpoints.
    """

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop, deliver: Deliver, errands: Errands) -> None:
        self._size = size
        self._loop = loop
        self._deliver = deliver
        self._errands = errands
        self._processes = multiprocessing.get_context("spawn")
        self._waiting: deque[tuple[Handler, RawClaim, Cancelled, dt.datetime | None]] = deque()
        self._slots: dict[tuple[UUID, UUID], int] = {}
        self._stopped = False
        self._start()

    def _start(self) -> None:
        self._flags = self._processes.RawArray("b", self._size)
        far_end, self._lifeline = self._processes.Pipe(duplex=False)
        self._pool = concurrent.futures.ProcessPoolExecutor(
            self._size,
            mp_context=self._processes,
            initializer=_begin_process,
            initargs=(self._flags, far_end, self._errands),
        )

    def submit(self, handler: Handler, claim: RawClaim, cancelled: Cancelled, deadline: dt.datetime | None) -> None:
        """Run a handler as soon as a process is free."""
        self._waiting.append((handler, claim, cancelled, deadline))
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._slots) < self._size and not self._stopped:
            handler, claim, cancelled, deadline = self._waiting.popleft()
            slot = next(number for number in range(self._size) if number not in self._slots.values())
            self._flags[slot] = 1 if cancelled.is_set() else 0
            self._slots[claim.key] = slot
            try:
                future = self._pool.submit(_run_in_process, handler, claim, slot, deadline)
            except BrokenProcessPool:
                self._start()
                future = self._pool.submit(_run_in_process, handler, claim, slot, deadline)
            future.add_done_callback(lambda done, claim=claim: self._came_back(claim, done))  # type: ignore[misc]

    def _came_back(self, claim: RawClaim, future: concurrent.futures.Future[Report]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, claim, future)
        except RuntimeError:
            return

    def _settle(self, claim: RawClaim, future: concurrent.futures.Future[Report]) -> None:
        self._slots.pop(claim.key, None)
        self._deliver(claim, self._report_of(claim, future))
        self._fill()

    def _report_of(self, claim: RawClaim, future: concurrent.futures.Future[Report]) -> Report:
        try:
            return future.result()
        except (BrokenProcessPool, concurrent.futures.CancelledError):
            return failure(
                claim.key,
                type_name="ProcessDied",
                message="the process that ran the handler ended before the handler did",
                category="transient",
            )
        except BaseException as error:
            # Most often: the handler or its result cannot be pickled.
            return failure_of(claim, error, 0.0)

    def cancel(self, claim: RawClaim) -> None:
        """Set the flag that the handler's process looks at."""
        slot = self._slots.get(claim.key)
        if slot is not None:
            self._flags[slot] = 1

    def stop(self, *, kill: bool) -> None:
        """Take no more work; with ``kill`` end the processes, whose handlers are then reported as failed."""
        self._stopped = True
        if kill:
            self._lifeline.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
