"""`python -m bench.profile`: where the server's time goes, by size of the calls and by function.

One session makes one-step jobs and chains of ten, claims and reports them, in calls of 1, 10, 100 and 1,000. What a
call takes is the median of its time on the clock, without waiting for the disk. A function's own time is what
`track_functions` says, which itself costs a tenth; triggers are functions too. Prints tables in Markdown.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench import server
from bench.edges import CLAIM, GO_ON
from bench.systems.pgtasker_worker import graph_of
from bench.workloads import Workload
from pgtasker import Client, migrate

SIZES = (1, 10, 100, 1_000)
STEPS = 4_000
"""About so many steps with each size."""
CHAIN = 10
HEAD = """| steps a call | create, µs a job | claim | report | report and claim, µs a step of a chain |
|---|---|---|---|---|"""
FUNCTIONS = 16
"""So many functions are shown."""


class Session:
    """One session of a fresh database, which works through jobs and chains and notes what each call takes for each of
    its steps."""

    def __init__(self, dsn: str) -> None:
        migrate.upgrade(dsn)
        with Client(dsn) as client:
            for name, size in (("one", 1), ("chain", CHAIN)):
                client.register_template({**graph_of(Workload(name, "chain", 1, size)), "name": name})
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=1, row_factory=psycopg.rows.dict_row)
        self.connection.execute("set synchronous_commit = off")
        self.taken: dict[str, list[float]] = defaultdict(list)
        self._worker = self._rows("select tasker.register_worker('w', p_max_concurrent => 10000) as key")[0]["key"]

    def jobs(self, size: int) -> None:
        self.call("create", size, "select tasker.create_tasks(%s)", Jsonb([{"name": "one"}] * size))
        held = self.call("claim", size, CLAIM, self._worker, size)
        self.call("report", size, GO_ON, self._worker, Jsonb(held), size)

    def chains(self, size: int) -> None:
        self._rows("select tasker.create_tasks(%s)", Jsonb([{"name": "chain"}] * size))
        held = self._rows(CLAIM, self._worker, size)
        while held:
            held = self.call("report and claim", size, GO_ON, self._worker, Jsonb(held), size)

    def call(self, name: str, size: int, query: str, *parameters: Any) -> list[dict[str, Any]]:
        began = time.perf_counter()
        rows = self._rows(query, *parameters)
        self.taken[name].append((time.perf_counter() - began) / size)
        return rows

    def _rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return self.connection.execute(query.encode(), parameters).fetchall()

    def own_time(self, name: str, size: int) -> dict[str, float]:
        """Seconds that each function itself takes for a step of jobs or chains."""
        work, each = (self.jobs, 1) if name == "jobs" else (self.chains, CHAIN)
        work(size)
        self.connection.execute("set track_functions = 'all'")
        self.connection.execute("select pg_stat_reset()")
        rounds = max(1, STEPS // size // each)
        for _ in range(rounds):
            work(size)
        self.connection.execute("select pg_stat_force_next_flush()")
        self.connection.execute("reset track_functions")
        rows = self._rows("select funcname, self_time / 1000 as seconds from pg_stat_user_functions")
        return {row["funcname"]: row["seconds"] / (rounds * size * each) for row in rows}


def main() -> int:
    with server.running() as running, running.database() as database:
        session = Session(database.dsn)
        session.jobs(100)
        session.chains(100)
        session.connection.execute("vacuum analyze")
        print(HEAD)
        for size in SIZES:
            session.taken.clear()
            for _ in range(max(3, STEPS // size // 2)):
                session.jobs(size)
            for _ in range(max(1, STEPS // size // CHAIN)):
                session.chains(size)
            told = (f"{1e6 * statistics.median(times):,.0f}" for times in session.taken.values())
            print(f"| {size:,} | {' | '.join(told)} |", flush=True)
        for name in ("jobs", "chains"):
            own = session.own_time(name, 100)
            print(f"\n| {name}, 100 steps a call | µs a step | share |\n|---|---|---|")
            for function in sorted(own, key=lambda function: -own[function])[:FUNCTIONS]:
                share = own[function] / sum(own.values())
                print(f"| `{function}` | {1e6 * own[function]:.0f} | {share:.0%} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
