"""pgtasker with claimants that speak SQL alone: each claims ten steps, reports them, and takes what is ready then."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.server import Database
from bench.systems import NotMeasured, Sample
from bench.systems.pgtasker_worker import create, prepare
from bench.workloads import Workload
from pgtasker import Client

__all__ = ["prepare", "run"]

_CLAIM = "select workflow_step_uuid::text, claim_uuid::text from tasker.claim_steps(%s, null, 10)"
_REPORT = (
    "select (claim).workflow_step_uuid::text, (claim).claim_uuid::text, awaits_orchestration"
    "  from tasker.report_and_claim(%s, %s, null, 10)"
)


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
        pooled = database.pooled_dsn is not None
        dsn = database.pooled_dsn or database.dsn
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None if pooled else 1) as conn:
            (worker,) = conn.execute("select tasker.register_worker(%s)", [f"claimant {number}"]).fetchone() or (None,)
            ready.wait()
            begun = last = time.perf_counter()
            held: list[Any] = []
            while left > 0:
                held = held or conn.execute(_CLAIM, [worker]).fetchall()
                awaiting = not held
                if held:
                    reports = [{"step_uuid": step, "claim_uuid": claim} for step, claim in held]
                    rows = conn.execute(_REPORT, [worker, Jsonb(reports)]).fetchall()
                    with guard:
                        left -= len(held)
                    last = time.perf_counter()
                    held = [(step, claim) for step, claim, _ in rows if step]
                    awaiting = any(awaits for _, _, awaits in rows)
                if awaiting:
                    conn.execute("select from tasker.orchestrate()")
            times.append((begun, last))

    threads = [threading.Thread(target=claimant, args=(n,), daemon=True) for n in range(workload.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Sample(create_seconds, max(last for _, last in times) - min(begun for begun, _ in times))
