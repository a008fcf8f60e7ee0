"""`python -m bench`: measure every workload with every system in turn, and print one table.

A name of a workload or system (or a part of it) as argument keeps only what it fits. `--quick` takes a tenth of the
instances. Everything is measured again and again until `--repeat` or `--minutes` is reached (three times and 40
minutes, once and 5 with `--quick`; the median counts). A measurement that fails or takes longer than `--limit` seconds
costs its cell and nothing else. Each result goes to `build/bench.jsonl` at once, and `--resume` goes on from there.
`--write` renews docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from functools import cache
from types import FrameType, ModuleType
from typing import TypeVar

import psycopg

from bench import edges, history, pooler, report, server, workloads
from bench.systems import NotMeasured, Sample, bare_loop, peers, pgtasker_sql, pgtasker_worker

T = TypeVar("T")

SYSTEMS: dict[str, ModuleType | peers.Peer] = {
    "pgtasker": pgtasker_worker,
    "pgtasker, SQL alone": pgtasker_sql,
    "bare loop": bare_loop,
    "DBOS": peers.Peer("DBOS 3.4.0", "dbos_peer.py"),
    "Absurd": peers.Peer("Absurd 0.5.1", "absurd_peer.py"),
    "pgflow": peers.Peer("pgflow 0.8.1, its SQL core", "pgflow_peer.py"),
    "Procrastinate": peers.Peer("Procrastinate 3.10.0", "procrastinate_peer.py"),
    "PgQueuer": peers.Peer("PgQueuer 1.6.0", "pgqueuer_peer.py"),
    "graphile-worker": peers.Peer("graphile-worker 0.17.3", "graphile_peer.mjs"),
    "pg-boss": peers.Peer("pg-boss 10.4.2", "pgboss_peer.mjs"),
    "pgmq": peers.Peer("pgmq 1.13.0", "pgmq_peer.py"),
}


def main() -> int:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("only", nargs="*", help="workloads and systems, by a part of their names")
    parser.add_argument("--quick", action="store_true", help="a tenth of the instances")
    parser.add_argument("--repeat", type=int, help="measurements of each (3, or 1 with --quick)")
    parser.add_argument(
        "--minutes", type=float, help="begin nothing after that long (40, or 5 with --quick; none with --repeat)"
    )
    parser.add_argument("--limit", type=float, help="seconds that one measurement may take (120, or 30 with --quick)")
    parser.add_argument("--resume", action="store_true", help="keep what stands in build/bench.jsonl, measure the rest")
    parser.add_argument("--write", action="store_true", help="renew the tables of docs/performance.md")
    arguments = parser.parse_args()
    quick = arguments.quick
    repeats = arguments.repeat or (1 if quick else 3)
    minutes = arguments.minutes or (float("inf") if arguments.repeat else 5 if quick else 40)
    limit = arguments.limit or (30.0 if quick else 120.0)
    chosen_workloads = _chosen({w.name: w for w in (workloads.QUICK if quick else workloads.ALL)}, arguments.only)
    chosen_systems = _chosen(SYSTEMS, arguments.only)
    table = report.Table(chosen_workloads, chosen_systems, resume=arguments.resume)
    for name, system in chosen_systems.items():
        if isinstance(system, peers.Peer):
            table.peers.append(system.name)
            try:
                system.install()
            except NotMeasured as reason:
                for left_out in chosen_workloads:
                    table.missing(left_out, name, str(reason))
    until = time.monotonic() + 60 * minutes
    try:
        with server.running() as running:
            table.server_version = running.version()
            if "pgtasker" in chosen_systems:
                with running.database() as database:
                    pgtasker_worker.prepare(database)
                    table.edges = edges.count(database)
            for number in range(repeats):  # in turn, so that a busy moment of the machine hits all alike
                for workload in chosen_workloads.values():
                    for name, system in chosen_systems.items():
                        if table.count(workload.name, name) > number or time.monotonic() > until:
                            continue
                        try:
                            result = measure(running, workload, system, limit)
                        except NotMeasured as reason:
                            table.missing(workload.name, name, str(reason))
                        else:
                            table.add(workload.name, name, result)
                            print(f"{workload.name}, {name}, {number + 1}: {result}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: what was measured until now", file=sys.stderr)
    print(table.markdown())
    if arguments.write:
        report.write(table)
    return 0


def measure(
    running: server.Server, workload: workloads.Workload, system: ModuleType | peers.Peer, limit: float
) -> report.Result:
    """Run one workload once in a database of its own. Whatever goes wrong costs this cell only."""
    if workload.is_ours and system not in (pgtasker_worker, pgtasker_sql):
        raise NotMeasured("")
    if (workload.workers > 2 and system is pgtasker_worker) or (workload.history and system is pgtasker_sql):
        raise NotMeasured("")
    if workload.shape == "traces" and not workload.steps:
        raise NotMeasured(f"no traces in ../{workloads.TRACES.relative_to(workloads.TRACES.parents[2])}")
    if workload.pooled and not pooler.is_here():
        raise NotMeasured("no PgBouncer here")
    template = _with_history(running, workload.history)
    try:
        with _at_most(limit):
            return _measure(running, workload, system, template)
    except NotMeasured:
        raise
    except Exception as error:
        print(f"{workload.name}, {system}: {error!r}", file=sys.stderr, flush=True)
        raise NotMeasured("failed") from error


def _measure(
    running: server.Server, workload: workloads.Workload, system: ModuleType | peers.Peer, template: str | None
) -> report.Result:
    with running.database(template=template) as database, contextlib.ExitStack() as stack:
        system.prepare(database)
        if workload.snapshot:
            other = stack.enter_context(psycopg.connect(database.dsn))
            other.execute("set transaction isolation level repeatable read")
            other.execute("select count(*) from tasker.tasks")
        if workload.pooled:
            database = stack.enter_context(running.pooled(database))
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


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End the block after that long."""

    def over(number: int, frame: FrameType | None) -> None:
        raise NotMeasured(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
