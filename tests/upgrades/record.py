"""Record a database of this version with work of every kind in flight, for tests of later versions to upgrade.

    python tests/upgrades/record.py DSN > VERSION.sql && gzip -9n VERSION.sql

DSN is an empty database on PostgreSQL 15, the oldest that is supported, so that its dump can be restored everywhere.
Run it with the package of the version that is released; the file is never made again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from uuid import UUID

import psycopg

from pgtasker import migrate

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]
ORDERS = {
    "vocabulary": "recorded",
    "description": "Orders.",
    "lifecycles": [
        {
            "lifecycle": "recorded.order",
            "kind": "custom",
            "initial_state": "placed",
            "states": [
                {"state": "placed", "phase": "pending"},
                {"state": "paid", "phase": "succeeded", "flags": ["is_terminal"]},
            ],
            "events": [{"event": "pay"}],
            "transitions": [{"from": "placed", "event": "pay", "to": "paid", "fired_by": "command"}],
        }
    ],
}
BY = "p_reason => 'recorded', p_requested_by => 'ada'"


class Recorder:
    """One connection and the calls that leave something to upgrade."""

    def __init__(self, dsn: str) -> None:
        self.conn = psycopg.connect(dsn, autocommit=True)

    def one(self, query: str, *arguments: Any) -> Any:
        cursor = self.conn.execute(query.encode(), arguments or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def flow(self, vocabulary: str, *, start: bool = True, **fields: Any) -> UUID:
        steps = [
            {"name": "a", "retry": {"base_delay": 60, "jitter": 0}, "max_attempts": 2, **fields},
            {"name": "b", "depends_on": ["a"]},
        ]
        graph = {"name": "recorded", "vocabulary": vocabulary, "steps": steps, "timeout_seconds": 864000}
        if vocabulary == "supervision":
            graph["worker_count"] = 1
            self.one("select tasker.register_worker('supervised ' || gen_random_uuid(), p_vocabulary => 'supervision')")
        return self.one(  # type: ignore[no-any-return]
            "select tasker.create_task_from_graph(%s, '{\"n\": 1}', p_start => %s)", json.dumps(graph), start
        )

    def claim(self) -> list[tuple[Any, ...]]:
        """All that can be claimed, by the plain worker or by supervised ones that have not ended."""
        found = []
        workers = self.conn.execute(
            "select w.worker_uuid from tasker.workers w"
            " join tasker.worker_transitions t on t.worker_uuid = w.worker_uuid and t.most_recent"
            " join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state"
            " where s.phase in ('idle', 'busy')"
        ).fetchall()
        for (worker,) in workers:
            found += self.conn.execute(
                "select workflow_step_uuid, claim_uuid, task_uuid"
                " from tasker.claim_steps(%s, p_limit => 50, p_lease => '1 day')",
                [worker],
            ).fetchall()
        return found

    def report(self, claims: list[tuple[Any, ...]], **outcome: Any) -> None:
        reports = [{"step_uuid": str(step), "claim_uuid": str(claim), **outcome} for step, claim, _ in claims]
        self.one("select count(*) from tasker.complete_steps(%s)", json.dumps(reports))

    def record(self) -> None:
        """Tasks of every vocabulary, left wherever a task can be left."""
        self.one("select tasker.register_worker('plain', p_max_concurrent => 1000)")
        for vocabulary in VOCABULARIES:
            for outcome in (
                {"result": {"rows": 3}},
                {"success": False, "category": "transient"},
                {"success": False, "category": "permanent"},
            ):
                self.flow(vocabulary)
                self.report(self.claim(), **outcome)  # settled below
            self.one("select messages from tasker.orchestrate(null, 1000)")
            finished = self.flow(vocabulary)
            for _ in range(3):
                self.report([row for row in self.claim() if row[2] == finished], result=1)
                self.one("select messages from tasker.orchestrate(null, 1000)")
            cancelled = self.flow(vocabulary)
            self.one(f"select tasker.cancel_task(%s, {BY})", cancelled)
            self.flow(vocabulary, start=False)
            self.flow(vocabulary)
            self.claim()  # running
            self.flow(vocabulary)
            self.report(self.claim(), result=2)  # reported and not settled
            self.flow(vocabulary)  # queued
        self.flow("tasker", arguments={"key": "k"}, sensitive=["key"])
        self.flow("tasker", requires=["gpu"])
        self.one("select tasker.configure_breaker('press', 1, '1 hour')")
        self.one("select tasker.record_breaker_result('press', false)")
        self.flow("tasker", tool="press")
        self.claim()  # held back by the breaker
        template = {"name": "kept", "steps": [{"name": "a"}]}
        self.one("select tasker.register_template(%s)", json.dumps(template))
        self.one("select tasker.create_task('kept', p_request_id => 'recorded', p_idempotency_key => 'recorded')")
        self.one("create schema shop")
        self.one("create table shop.orders (order_id int primary key, item text)")
        self.one("select tasker.define_vocabulary(%s)", json.dumps(ORDERS))
        self.one("select tasker.attach_lifecycle('shop.orders', 'order_id', 'recorded.order')")
        self.one("insert into shop.orders values (1, 'tea'), (2, 'cup')")
        self.one("select tasker.fire('shop.orders', '2', 'pay', p_requested_by => 'ada')")
        self.one("select seal_number from tasker.seal_audit()")


def main(dsn: str) -> None:
    """Install, record, print the dump."""
    migrate.upgrade(dsn)
    Recorder(dsn).record()
    subprocess.run(["/usr/lib/postgresql/15/bin/pg_dump", "--no-sync", dsn], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
