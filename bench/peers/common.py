"""What every peer script does: read its arguments, time its handlers, and print one line of JSON at the end.

Two workers that share the work are two processes of one script (`BENCH_WORKER`): the first installs and creates, both
wait for each other, and each tells all the time how far it is, until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    """The arguments: connection string, shape, instances, size, and how many handler calls that makes."""

    dsn: str
    shape: str
    instances: int
    size: int
    steps: int
    first: float = 0.0
    last: float = 0.0
    handled: int = 0
    create_seconds: float = 0.0
    delays: list[float] = field(default_factory=list)

    worker: str = os.environ.get("BENCH_WORKER", "")
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def leads(self) -> bool:
        """Whether this process installs the peer and makes the instances."""
        return self.worker != "second"

    @property
    def starts(self) -> int:
        """How many jobs are made before the work; chains and fans make the rest as they go."""
        if self.shape == "latency" or not self.leads:
            return 0
        return self.instances * (self.size if self.shape == "wide" else 1)

    def begin(self) -> None:
        """Before the work: of two workers each says that it is ready, and waits for the other."""
        if self.worker:
            print(json.dumps({"create_seconds": self.create_seconds}), flush=True)
            sys.stdin.readline()
            threading.Thread(target=self._tell, daemon=True).start()

    def _tell(self) -> None:
        while True:
            print(json.dumps({"handled": self.handled, "first": self.first, "last": self.last}), flush=True)
            time.sleep(0.02)

    def handle(self) -> None:
        """Called by every handler, which does nothing else."""
        with self.guard:
            self.last = time.time()
            if not self.handled:
                self.first = self.last
            self.handled += 1

    @property
    def done(self) -> bool:
        return not self.worker and self.handled >= self.steps

    def work(self, one_batch: Callable[[Any], None]) -> None:
        """Call a thin worker's function again and again until all is done, in two sessions of a thread each.

        For latency it is one, as others would look for nothing beside it.
        """
        import psycopg

        def run() -> None:
            with psycopg.connect(self.dsn, autocommit=True, prepare_threshold=1) as conn:
                while not self.done:
                    one_batch(conn)

        sessions = [threading.Thread(target=run, daemon=True) for _ in range(1 if self.shape == "latency" else 2)]
        for session in sessions:
            session.start()
        while not self.done and all(session.is_alive() for session in sessions):
            time.sleep(0.01)

    def one_by_one(self, make: Callable[[Any], object]) -> None:
        """For latency: make an instance with a session of its own whenever the one before was handled, beside the
        worker."""
        import psycopg

        def run() -> None:
            with psycopg.connect(self.dsn, autocommit=True, prepare_threshold=1) as conn:
                while not self.done:
                    time.sleep(0.15)
                    before = self.handled
                    make(conn)
                    while self.handled == before:
                        time.sleep(0.001)

        threading.Thread(target=run, daemon=True).start()

    def finish(self) -> None:
        """Print what was measured and end, whatever threads are left."""
        told = {
            "create_seconds": self.create_seconds,
            "seconds": self.last - self.first,
            "handled": self.handled,
            "delays": self.delays,
        }
        print(json.dumps(told), flush=True)
        os._exit(0)


def arguments() -> Task:
    dsn, shape, instances, size, steps = sys.argv[1:6]
    return Task(dsn, shape, int(instances), int(size), int(steps))


def install_pgmq(conn: Any) -> None:
    """Install pgmq from the SQL that its Python package carries: no extension is needed."""
    from pgmq.install import get_embedded_install_sql

    conn.execute("create schema if not exists pgmq")
    conn.execute(get_embedded_install_sql().encode())
