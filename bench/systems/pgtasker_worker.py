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
        create_seconds = create(client, workload)
        workers = [_start(database, workload) for _ in range(workload.workers)]
        try:
            _wait_while(database, "exists (select from tasker.tasks where completed_at is null)")
            ended = [_stop(worker) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    seconds = max(e["last"] for e in ended) - min(e["first"] for e in ended if e["handled"])
    assert sum(e["handled"] for e in ended) == workload.steps
    return Sample(create_seconds, seconds, worker_cpu=sum(e["cpu"] for e in ended) / seconds)


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
    """The worker process: says at the end when its first handler began and its last one ended."""
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
    handled, first, last, began_cpu = 0, float("inf"), 0.0, 0.0

    @worker.step("noop")
    async def noop(ctx: StepContext) -> None:
        nonlocal handled, first, last, began_cpu
        last = time.time()
        if not handled:
            first, began_cpu = last, time.process_time()
        handled += 1
        if shape == "latency":
            print(last, flush=True)

    gc.freeze()  # as `pgtasker worker run` does
    worker.run()
    print(json.dumps({"handled": handled, "first": first, "last": last, "cpu": time.process_time() - began_cpu}))


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
