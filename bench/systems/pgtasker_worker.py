"""pgtasker with its Python worker: every transition logged, every result audited."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import time
from typing import Any, LiteralString

import psycopg

from bench.server import Database
from bench.systems import Sample
from bench.workloads import Workload, traces
from pgtasker import Client, StepContext, Worker, migrate

VERSION = "this tree"


def graph_of(workload: Workload) -> dict[str, Any]:
    """The workflow of one instance."""
    size = workload.size
    if workload.shape == "chain":
        steps = [{"name": f"s{n}", "handler": "noop", "depends_on": [f"s{n - 1}"] if n else []} for n in range(size)]
    elif workload.shape == "fan":
        middle = [f"m{n}" for n in range(size)]
        steps = [
            {"name": "first", "handler": "noop"},
            *({"name": name, "handler": "noop", "depends_on": ["first"]} for name in middle),
            {"name": "last", "handler": "noop", "depends_on": middle},
        ]
    else:
        steps = [{"name": f"s{n}", "handler": "noop"} for n in range(size)]
    return {"name": "bench", "version": "1", "steps": steps}


def create(client: Client, workload: Workload) -> float:
    """Register the workflow and make all instances, 1,000 a call; returns the seconds of making them."""
    if workload.shape == "traces":
        begun = time.perf_counter()
        for graph in traces(workload.instances):
            client.create_task_from_graph(graph)
        return time.perf_counter() - begun
    client.register_template(graph_of(workload))
    begun = time.perf_counter()
    for first in range(0, workload.instances, 1000):
        client.create_tasks([{"name": "bench"}] * min(1000, workload.instances - first))
    return time.perf_counter() - begun


def prepare(database: Database) -> None:
    """Install the schema."""
    migrate.upgrade(database.dsn)


def run(workload: Workload, database: Database) -> Sample:
    with Client(database.dsn) as client:
        if workload.shape == "latency":
            return _latency(client, workload, database)
        begun = time.time()
        create_seconds = create(client, workload)
        workers = [_start(database, workload) for _ in range(workload.workers)]
        try:
            _wait_while(database, "exists (select from tasker.tasks where completed_at is null)")
            ended = [_stop(worker) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    seconds = _seconds(database, begun)
    assert sum(e["handled"] for e in ended) == workload.steps
    return Sample(create_seconds, seconds, worker_cpu=sum(e["cpu"] for e in ended) / seconds)


def _seconds(database: Database, since: float) -> float:
    """From the first claim to the last end of a task made since then, by the log.

    Longer than from the first handler to the last, by which peers are measured: with hundreds of steps in a call much
    of a small workload would stand before and behind that.
    """
    with psycopg.connect(database.dsn) as conn:
        row = conn.execute(
            "select extract(epoch from (select max(completed_at) from tasker.tasks where created_at >= s.since)"
            "  - (select min(created_at) from tasker.workflow_step_transitions"
            "       where created_at >= s.since and to_state = 'in_progress'))::float"
            "  from to_timestamp(%s) as s(since)",
            [since],
        ).fetchone()
    assert row is not None
    return float(row[0])


def _wait_while(database: Database, condition: LiteralString) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        while conn.execute(f"select 1 where {condition}").fetchone():
            time.sleep(0.05)


def _latency(client: Client, workload: Workload, database: Database) -> Sample:
    client.register_template(graph_of(workload))
    worker = _start(database, workload)
    assert worker.stdout is not None
    delays = []
    try:
        _wait_while(database, "not exists (select from tasker.workers)")  # its start is no latency
        for _ in range(workload.instances):
            time.sleep(0.15)  # idle again
            begun = time.time()
            client.create_task("bench")
            delays.append(float(worker.stdout.readline()) - begun)
        _stop(worker)
    finally:
        worker.kill()
    return Sample(0, 0, delays)


def _start(database: Database, workload: Workload) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __name__, database.dsn, str(workload.batch), workload.shape]
    command += [database.pooled_dsn] if database.pooled_dsn else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _stop(worker: subprocess.Popen[str]) -> dict[str, Any]:
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=60)
    ended: dict[str, Any] = json.loads(out.splitlines()[-1])
    return ended


def work(dsn: str, batch: int, shape: str, pooled_dsn: str | None = None) -> None:
    """The worker process: says at the end how many handlers it ran and what processor time it took from the first."""
    # Two sessions keep both cores of a small server busy, as the pools of other workers do; where work comes one by one
    # a second one would only look twice.
    sessions = 1 if shape == "latency" else 2
    worker = Worker(
        pooled_dsn or dsn,
        listen_dsn=dsn,
        pgbouncer=pooled_dsn is not None,
        concurrency=sessions * batch,
        batch_size=batch,
        sessions=sessions,
    )
    handled, began_cpu = 0, 0.0

    @worker.step("noop")
    async def noop(ctx: StepContext) -> None:
        nonlocal handled, began_cpu
        if not handled:
            began_cpu = time.process_time()
        handled += 1
        if shape == "latency":
            print(time.time(), flush=True)

    gc.freeze()  # as `pgtasker worker run` does
    worker.run()
    print(json.dumps({"handled": handled, "cpu": time.process_time() - began_cpu}))


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
