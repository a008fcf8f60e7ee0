"""Procrastinate: asynchronous worker, 100 jobs at once, bulk defer."""

from __future__ import annotations

import asyncio
import time

import procrastinate
from common import arguments

task = arguments()
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=task.dsn, min_size=4, max_size=20))


@app.task(name="noop")
async def noop(instance: int = 0, place: int = 0, at: float = 0.0) -> None:
    task.handle()
    if task.shape == "latency":
        task.delays.append(time.time() - at)
    elif task.shape == "chain" and place + 1 < task.size:
        await noop.defer_async(instance=instance, place=place + 1)
    elif task.shape == "fan" and place == 0:
        await noop.batch_defer_async(*[{"instance": instance, "place": 1}] * task.size)
    elif task.shape == "fan" and place == 1:
        row = await app.connector.execute_query_one_async(
            "update fans set missing = missing - 1 where id = %(id)s returning missing", id=instance
        )
        if row["missing"] == 0:
            await noop.defer_async(instance=instance, place=2)


async def idle() -> None:
    await asyncio.sleep(1)
    while not task.done:
        before = task.handled
        await noop.defer_async(at=time.time())
        while task.handled == before:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.15)


async def main() -> None:
    async with app.open_async():
        if task.leads:
            await app.schema_manager.apply_schema_async()
            await app.connector.execute_query_async("create table fans (id int primary key, missing int not null)")
        begun = time.perf_counter()
        if task.shape == "fan":
            await app.connector.execute_query_async(
                "insert into fans select n, %(size)s from generate_series(0, %(last)s) n",
                size=task.size,
                last=task.instances - 1,
            )
        for first in range(0, task.starts, 1000):
            await noop.batch_defer_async(*({"instance": n} for n in range(first, min(first + 1000, task.starts))))
        task.create_seconds = time.perf_counter() - begun
        task.begin()
        worker = asyncio.create_task(app.run_worker_async(concurrency=100, install_signal_handlers=False))
        if task.shape == "latency":
            await idle()
        while not task.done:
            await asyncio.sleep(0.05)
        worker.cancel()
        task.finish()


asyncio.run(main())
