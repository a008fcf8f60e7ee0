"""PgQueuer: asyncpg driver, batches of 500, bulk enqueue.

Later jobs are enqueued by earlier ones; a fan-in is a counter.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg
from common import arguments
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job

task = arguments()


async def main() -> None:
    pool = await asyncpg.create_pool(task.dsn, min_size=4, max_size=8)
    queries = Queries(AsyncpgPoolDriver(pool))
    if task.leads:
        await queries.install()
        await pool.execute("create table fans (id int primary key, missing int not null)")
    queuer = PgQueuer(AsyncpgPoolDriver(pool))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        task.handle()
        if task.shape == "latency":
            task.delays.append(time.time() - float(job.payload or b"0"))
            return
        instance, place = map(int, (job.payload or b"0:0").split(b":"))
        if task.shape == "chain" and place + 1 < task.size:
            await queries.enqueue("noop", f"{instance}:{place + 1}".encode())
        elif task.shape == "fan" and place == 0:
            await queries.enqueue(["noop"] * task.size, [f"{instance}:1".encode()] * task.size, [0] * task.size)
        elif task.shape == "fan" and place == 1:
            missing = await pool.fetchval(
                "update fans set missing = missing - 1 where id = $1 returning missing", instance
            )
            if missing == 0:
                await queries.enqueue("noop", f"{instance}:2".encode())
        if task.done:
            queuer.shutdown.set()

    async def idle() -> None:
        await asyncio.sleep(1)
        while not task.done:
            before = task.handled
            await queries.enqueue("noop", str(time.time()).encode())
            while task.handled == before:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.15)
        queuer.shutdown.set()

    begun = time.perf_counter()
    if task.shape == "fan":
        await pool.executemany("insert into fans values ($1, $2)", [(n, task.size) for n in range(task.instances)])
    for first in range(0, task.starts, 1000):
        some = range(first, min(first + 1000, task.starts))
        await queries.enqueue(["noop"] * len(some), [f"{n}:0".encode() for n in some], [0] * len(some))
    task.create_seconds = time.perf_counter() - begun
    task.begin()
    running = [queuer.run(batch_size=500, max_concurrent_tasks=1000)]
    await asyncio.gather(*running, *([idle()] if task.shape == "latency" else []))
    task.finish()


asyncio.run(main())
