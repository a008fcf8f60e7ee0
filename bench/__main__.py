"""`python -m bench`: measure every workload with every system in turn, and print one table.

A name of a workload or system (or a part of it) as argument keeps only what it fits. `--quick` takes a tenth of the
instances, once, `--repeat` says how often everything is measured (the median counts), `--write` renews
docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from functools import cache
from types import ModuleType
from typing import TypeVar

import psycopg

from bench import edges, history, report, server, workloads
from bench.systems import NotMeasured, Sample, bare_loop, peers, pgtasker_sql, pgtasker_worker

T = TypeVar("T")

SYSTEMS: dict[str, ModuleType | peers.Peer] = {
    "pgtasker": pgtasker_worker,
    "pgtasker, SQL alone": pgtasker_sql,
    "bare loop": bare_loop,
    "DBOS": peers.Peer("DBOS 3.4.0", "dbos_peer.py"),
    "Absurd": peers.Peer("Absurd 0.5.1", "absurd_peer.py"),
    "Procrastinate": peers.Peer("Procrastinate 3.10.0", "procrastinate_peer.py"),
    "PgQueuer": peers.Peer("PgQueuer 1.6.0", "pgqueuer_peer.py"),
    "graphile-worker": peers.Peer("graphile-worker 0.17.3", "graphile_peer.mjs"),
    "pg-boss": peers.Peer("pg-boss 10.4.2", "pgboss_peer.mjs"),
}


def main() -> int:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("only", nargs="*", help="workloads and systems, by a part of their names")
    parser.add_argument("--quick", action="store_true", help="a tenth of the instances, once")
    parser.add_argument("--repeat", type=int, help="measurements of each (3, or 1 with --quick)")
    parser.add_argument("--write", action="store_true", help="renew the tables of docs/performance.md")
    arguments = parser.parse_args()
    chosen_workloads = _chosen(
        {w.name: w for w in workloads.ALL if not (arguments.quick and (w.size > 1000 or w.history))}, arguments.only
    )
    chosen_systems = _chosen(SYSTEMS, arguments.only)
    repeats = arguments.repeat or (1 if arguments.quick else 3)
    table = report.Table(repeats=repeats)
    with server.running() as running:
        table.server_version = running.version()
        if "pgtasker" in chosen_systems:
            with running.database() as database:
                pgtasker_worker.prepare(database)
                table.edges = edges.count(database)
        for workload in chosen_workloads.values():
            sized = workload.smaller(10) if arguments.quick else workload
            for number in range(repeats):
                for name, system in chosen_systems.items():  # in turn, so that a busy moment hits all alike
                    try:
                        result = measure(running, sized, system)
                    except NotMeasured as reason:
                        table.missing(sized, name, str(reason))
                        continue
                    table.add(sized, name, result)
                    print(f"{sized.name}, {name}, {number + 1}: {result}", file=sys.stderr, flush=True)
    print(table.markdown())
    if arguments.write:
        report.write(table)
    return 0


def measure(running: server.Server, workload: workloads.Workload, system: ModuleType | peers.Peer) -> report.Result:
    """Run one workload once in a database of its own."""
    ours = system in (pgtasker_worker, pgtasker_sql)
    if (workload.history or workload.snapshot) and not ours:
        raise NotMeasured("")
    if workload.workers > 2 and system is pgtasker_worker:
        raise NotMeasured("")
    with (
        running.database(template=_with_history(running, workload.history)) as database,
        contextlib.ExitStack() as stack,
    ):
        system.prepare(database)
        if workload.snapshot:
            other = stack.enter_context(psycopg.connect(database.dsn))
            other.execute("set transaction isolation level repeatable read")
            other.execute("select count(*) from tasker.tasks")
        before = database.counted()
        sample: Sample = system.run(workload, database)
        counted = database.counted() - before
    if sample.delays:
        cuts = statistics.quantiles(sample.delays, n=100, method="inclusive")
        return report.Result(latency=(cuts[49], cuts[94], cuts[98]))
    return report.Result(
        created_per_second=workload.instances / max(sample.create_seconds, 1e-6),
        steps_per_second=workload.steps / max(sample.seconds, 1e-6),
        wal_bytes_per_step=counted.wal_bytes / workload.steps,
        commits_per_step=counted.commits / workload.steps,
        rows_per_step=counted.rows / workload.steps,
        server_cpu_per_step=counted.cpu_seconds / workload.steps,
        worker_cpu=sample.worker_cpu,
    )


@cache
def _with_history(running: server.Server, steps: int) -> str | None:
    """Make a database with so many finished steps, once, to be copied from."""
    if not steps:
        return None
    database = running.keep("bench_history")
    pgtasker_worker.prepare(database)
    history.fill(database, steps)
    return database.name


def _chosen(all_: dict[str, T], only: list[str]) -> dict[str, T]:
    found = {name: value for name, value in all_.items() if any(part.lower() in name.lower() for part in only)}
    return found or all_


if __name__ == "__main__":
    raise SystemExit(main())
