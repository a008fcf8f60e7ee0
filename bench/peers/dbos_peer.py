"""DBOS: workflows started through a queue; the steps of a workflow are its own, called one after the other."""

from __future__ import annotations

import asyncio
import time

from common import arguments
from dbos import DBOS, DBOSConfig

task = arguments()
config: DBOSConfig = {"name": "bench", "system_database_url": task.dsn, "log_level": "ERROR", "run_admin_server": False}
if task.worker:  # or one would take the workflows of the other for its own, left over from before
    config["executor_id"] = task.worker
DBOS(config=config)


@DBOS.step()
async def noop() -> None:
    task.handle()


@DBOS.workflow()
async def flow(steps: int, at: float) -> None:
    if task.shape in ("jobs", "latency"):  # the workflow is the step
        task.handle()
        task.delays.append(time.time() - at)
        return
    for _ in range(steps):
        await noop()


async def main() -> None:
    queue = await DBOS.register_queue_async("bench", polling_interval_sec=0.1)
    per_instance = {"jobs": 1, "latency": 1, "chain": task.size, "wide": task.size, "fan": task.size + 2}[task.shape]
    task.begin()
    begun = time.perf_counter()
    if task.shape == "latency":
        while not task.done:
            before = task.handled
            await queue.enqueue_async(flow, 1, time.time())
            while task.handled == before:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.15)
    else:
        task.delays = []
        for _ in range(task.instances if task.leads else 0):
            await queue.enqueue_async(flow, per_instance, 0.0)
        task.create_seconds = time.perf_counter() - begun
        while not task.done:
            await asyncio.sleep(0.05)
        task.delays = []
    task.finish()


DBOS.launch()
asyncio.run(main())
