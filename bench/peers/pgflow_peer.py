"""pgflow's SQL core with a thin worker: two sessions, batches of 100; a fan-out is a map step. With 500 it is slower.

Its migrations come from the npm package (`PGFLOW_MIGRATIONS`). They expect pgmq as an extension, which it need not be,
and Supabase's `realtime.send`, which tells browsers: here it tells nobody.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg
from common import arguments, install_pgmq
from psycopg.types.json import Jsonb

task = arguments()


def install(conn: psycopg.Connection[Any]) -> None:
    install_pgmq(conn)
    conn.execute("create schema realtime")
    conn.execute(
        "create function realtime.send(jsonb, text, text, boolean default true) returns void language sql as 'select'"
    )
    for file in sorted(Path(os.environ["PGFLOW_MIGRATIONS"]).glob("*.sql")):
        text = re.sub(r'(?i)create extension if not exists "pgmq"[^;]*;', "", file.read_text("utf-8"))
        conn.execute(re.sub(r'(?i)create schema if not exists "pgmq";', "", text).encode())


def define(conn: psycopg.Connection[Any]) -> Any:
    """Make the flow; returns the input of its runs."""
    conn.execute("select pgflow.create_flow('bench')")

    def step(slug: str, after: str | None = None, kind: str = "single") -> None:
        conn.execute(
            "select pgflow.add_step('bench', %s, deps_slugs => %s::text[], step_type => %s)",
            [slug, [after] if after else [], kind],
        )

    if task.shape == "chain":
        for n in range(task.size):
            step(f"s{n}", f"s{n - 1}" if n else None)
    elif task.shape == "fan":
        step("first")
        step("middle", "first", "map")
        step("last", "middle")
    elif task.shape == "wide":
        step("each", kind="map")
        return [0] * task.size
    else:
        step("only")
    return {}


def work(conn: psycopg.Connection[Any], worker: uuid.UUID) -> None:
    """Take a batch of tasks and complete them."""
    found = conn.execute("select msg_id from pgmq.read_with_poll('bench', 60, 100, 5, 10)").fetchall()
    rows = conn.execute(
        "select run_id, step_slug, input, task_index from pgflow.start_tasks('bench', %s::bigint[], %s)",
        [[msg_id for (msg_id,) in found], worker],
    ).fetchall()
    for _, _, given, _ in rows:
        task.handle()
        if task.shape == "latency":
            task.delays.append(time.time() - given["run"]["at"])
    outputs = [Jsonb([0] * task.size if slug == "first" else {}) for _, slug, _, _ in rows]
    conn.execute(
        "select count(*) from unnest(%s::uuid[], %s::text[], %s::int[], %s::jsonb[]) as d(run, step, place, output)"
        " cross join lateral pgflow.complete_task(d.run, d.step, d.place, d.output)",
        [[r[0] for r in rows], [r[1] for r in rows], [r[3] for r in rows], outputs],
    )


with psycopg.connect(task.dsn, autocommit=True, prepare_threshold=1) as conn:
    if task.leads:
        install(conn)
    given = define(conn) if task.leads else {}
    worker = uuid.uuid4()
    conn.execute(
        "insert into pgflow.workers (worker_id, queue_name, function_name) values (%s, 'bench', 'bench')", [worker]
    )
    begun = time.perf_counter()
    if task.shape != "latency" and task.leads:
        conn.execute(
            "select pgflow.start_flow('bench', %s) from generate_series(1, %s)", [Jsonb(given), task.instances]
        )
    task.create_seconds = time.perf_counter() - begun
    if task.shape == "latency":
        task.one_by_one(
            lambda other: other.execute("select pgflow.start_flow('bench', %s)", [Jsonb({"at": time.time()})])
        )
    task.begin()
task.work(lambda session: work(session, worker))
task.finish()
