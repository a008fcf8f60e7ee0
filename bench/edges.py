"""What each call on the way of a step writes: rows, WAL and commits, counted and not timed, so that a busy machine
changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.server import Database
from pgtasker import Client

STEPS = 100
"""Steps in each call."""

CLAIM = "select workflow_step_uuid::text as step_uuid, claim_uuid::text from tasker.claim_steps(%s, null, %s)"
GO_ON = (
    "select (r.claim).workflow_step_uuid::text as step_uuid, (r.claim).claim_uuid::text"
    "  from tasker.report_and_claim(%s, %s, null, %s) r where r.outcome is null"
)


@dataclass(frozen=True)
class Edge:
    """One call, and what it wrote for each of its steps."""

    call: str
    walked: str
    rows: float
    wal_bytes: float


def count(database: Database) -> list[Edge]:
    """Walk 100 one-step tasks, chains and failures through every call, twice; the second time counts."""
    with Client(database.dsn) as client:
        client.register_template({"name": "one", "version": "1", "steps": [{"name": "a", "handler": "noop"}]})
        steps = [{"name": "a", "handler": "noop"}, {"name": "b", "handler": "noop", "depends_on": ["a"]}]
        client.register_template({"name": "two", "version": "1", "steps": steps})
    with psycopg.connect(database.dsn, autocommit=True, row_factory=psycopg.rows.dict_row) as conn:
        list(_walk(conn))  # plans are made, and pages are written whole for the first time after a checkpoint
        return list(_walk(conn))


def _walk(conn: psycopg.Connection[dict[str, Any]]) -> Iterator[Edge]:
    (worker,) = conn.execute("select tasker.register_worker('edges', p_max_concurrent => 10000)").fetchall()
    key = worker["register_worker"]

    def create(name: str) -> Callable[[], Any]:
        return lambda: conn.execute("select tasker.create_tasks(%s)", [Jsonb([{"name": name}] * STEPS)])

    def claim() -> list[dict[str, Any]]:
        return conn.execute(CLAIM, [key, STEPS]).fetchall()

    def go_on(held: list[dict[str, Any]], limit: int = STEPS) -> list[dict[str, Any]]:
        return conn.execute(GO_ON, [key, Jsonb(held), limit]).fetchall()

    held: list[dict[str, Any]] = []
    yield _counted(conn, "create_tasks", "a task of one step: pending, enqueued", create("one"))
    yield _counted(conn, "claim_steps", "in_progress", lambda: held.extend(claim()))
    yield _counted(
        conn, "report_and_claim", "enqueued_for_orchestration, complete; its task: complete", lambda: go_on(held)
    )
    create("two")()
    held = claim()
    yield _counted(
        conn,
        "report_and_claim",
        "the same, and the next step: enqueued, in_progress; their task: once around",
        lambda: held.__setitem__(slice(None), go_on(held)),
    )
    go_on(held)
    create("one")()
    held = claim()
    yield _counted(
        conn,
        "complete_steps",
        "enqueued_for_orchestration",
        lambda: conn.execute("select tasker.complete_steps(%s)", [Jsonb(held)]),
    )
    yield _counted(
        conn, "orchestrate", "complete; its task: complete", lambda: conn.execute("select tasker.orchestrate()")
    )
    create("one")()
    held = [{**step, "success": False, "retry_after": 86400} for step in claim()]
    yield _counted(
        conn,
        "complete_steps",
        "enqueued_as_error_for_orchestration",
        lambda: conn.execute("select tasker.complete_steps(%s)", [Jsonb(held)]),
    )
    yield _counted(
        conn,
        "orchestrate",
        "waiting_for_retry; its task: waiting_for_retry",
        lambda: conn.execute("select tasker.orchestrate()"),
    )


def _counted(conn: psycopg.Connection[dict[str, Any]], call: str, walked: str, carry_out: Callable[[], object]) -> Edge:
    before = _counters(conn)
    carry_out()
    after = _counters(conn)
    return Edge(call, walked, *((after[name] - before[name]) / STEPS for name in ("rows", "wal_bytes")))


def _counters(conn: psycopg.Connection[dict[str, Any]]) -> dict[str, int]:
    conn.execute("select pg_stat_force_next_flush()")
    (row,) = conn.execute(
        "select (pg_current_wal_insert_lsn() - '0/0')::bigint as wal_bytes,"
        " (select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables)::bigint as rows"
    ).fetchall()
    return row
