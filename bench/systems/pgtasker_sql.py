"""pgtasker with claimants that speak SQL alone: each claims ten steps, reports them, and settles what is reported."""

from __future__ import annotations

import threading
import time

import psycopg
from psycopg.types.json import Jsonb

from bench.server import Database
from bench.systems import NotMeasured, Sample
from bench.systems.pgtasker_worker import create, prepare
from bench.workloads import Workload
from pgtasker import Client

__all__ = ["prepare", "run"]

_CLAIM = "select workflow_step_uuid::text, claim_uuid::text from tasker.claim_steps(%s, null, 10)"


def run(workload: Workload, database: Database) -> Sample:
    if workload.shape == "latency":
        raise NotMeasured("")
    with Client(database.dsn) as client:
        create_seconds = create(client, workload)
    times: list[tuple[float, float]] = []
    ready = threading.Barrier(workload.workers)
    left = workload.steps
    guard = threading.Lock()

    def claimant(number: int) -> None:
        nonlocal left
        with psycopg.connect(database.dsn, autocommit=True, prepare_threshold=1) as conn:
            (worker,) = conn.execute("select tasker.register_worker(%s)", [f"claimant {number}"]).fetchone() or (None,)
            ready.wait()
            begun = last = time.perf_counter()
            while left > 0:
                held = conn.execute(_CLAIM, [worker]).fetchall()
                if held:
                    reports = [{"step_uuid": step, "claim_uuid": claim} for step, claim in held]
                    conn.execute("select from tasker.complete_steps(%s)", [Jsonb(reports)])
                    with guard:
                        left -= len(held)
                    last = time.perf_counter()
                conn.execute("select from tasker.orchestrate()")
            times.append((begun, last))

    threads = [threading.Thread(target=claimant, args=(n,)) for n in range(workload.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Sample(create_seconds, max(last for _, last in times) - min(begun for begun, _ in times))
