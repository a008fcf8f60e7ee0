"""pgmq alone: two sessions, batches of 500, what follows sent and what is done deleted in one transaction.

A queue keeps no state of a workflow: a chain is a message that sends the next one, a fan-in a counter table.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from common import arguments, install_pgmq
from psycopg.types.json import Jsonb

task = arguments()


def send(conn: psycopg.Connection[Any], messages: list[dict[str, Any]]) -> None:
    conn.execute("select pgmq.send_batch('bench', %s)", [[Jsonb(message) for message in messages]])


def follow(conn: psycopg.Connection[Any], messages: list[dict[str, Any]]) -> None:
    """Send what comes after these messages."""
    if task.shape == "chain":
        after = [m | {"place": m["place"] + 1} for m in messages if m["place"] + 1 < task.size]
    elif task.shape == "fan":
        after = [m | {"place": 1} for m in messages if m["place"] == 0 for _ in range(task.size)]
        rows = conn.execute(
            "with done as (select i, count(*) as n from unnest(%s::int[]) i group by i)"
            " update fans f set missing = f.missing - d.n from done d where f.id = d.i returning f.id, f.missing",
            [[m["instance"] for m in messages if m["place"] == 1]],
        ).fetchall()
        after += [{"instance": instance, "place": 2} for instance, missing in rows if missing == 0]
    else:
        return
    if after:
        send(conn, after)


def work(conn: psycopg.Connection[Any]) -> None:
    """Take a batch and handle it.

    Not by `read_with_poll`: while it waits it may keep locks on messages that the other session took, whose delete then
    waits too, for seconds.
    """
    rows = conn.execute("select msg_id, message from pgmq.read('bench', 60, 500)").fetchall()
    if not rows:
        time.sleep(0.01)
        return
    for _, message in rows:
        task.handle()
        if task.shape == "latency":
            task.delays.append(time.time() - message["at"])
    with conn.transaction():
        follow(conn, [message for _, message in rows])
        conn.execute("select count(*) from pgmq.delete('bench', %s::bigint[])", [[msg_id for msg_id, _ in rows]])


with psycopg.connect(task.dsn, autocommit=True, prepare_threshold=1) as conn:
    if task.leads:
        install_pgmq(conn)
        conn.execute("select pgmq.create('bench')")
        conn.execute("create table fans (id int primary key, missing int not null)")
        conn.execute("insert into fans select n, %s from generate_series(0, %s) n", [task.size, task.instances - 1])
    begun = time.perf_counter()
    for first in range(0, task.starts, 1000):
        send(conn, [{"instance": n, "place": 0} for n in range(first, min(first + 1000, task.starts))])
    task.create_seconds = time.perf_counter() - begun
    if task.shape == "latency":
        task.one_by_one(lambda other: send(other, [{"at": time.time()}]))
    task.begin()
task.work(work)
task.finish()
