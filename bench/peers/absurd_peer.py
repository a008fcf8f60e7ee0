"""Absurd: one task an instance; its steps are checkpoints, one after the other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from common import arguments

task = arguments()
PER_INSTANCE = {"jobs": 1, "latency": 1, "chain": task.size, "wide": task.size, "fan": task.size + 2}[task.shape]


async def main() -> None:
    absurdctl = Path(sys.executable).with_name("absurdctl")
    if task.leads:
        subprocess.run([absurdctl, "init", "-d", task.dsn], check=True, stdout=subprocess.DEVNULL)
    app = AsyncAbsurd(task.dsn, queue_name="bench")
    if task.leads:
        await app.create_queue("bench")

    @app.register_task(name="flow")
    async def flow(params: dict[str, float], ctx: AsyncTaskContext) -> None:
        async def noop() -> None:
            task.handle()

        if task.shape == "latency":
            task.delays.append(time.time() - params["at"])
        if PER_INSTANCE == 1:  # the task is the step
            task.handle()
            return
        for n in range(PER_INSTANCE):
            await ctx.step(f"s{n}", noop)

    begun = time.perf_counter()
    if task.shape != "latency" and task.leads:
        for _ in range(task.instances):
            await app.spawn("flow", {})
    task.create_seconds = time.perf_counter() - begun
    task.begin()
    worker = asyncio.create_task(app.start_worker(concurrency=500, poll_interval=0.1))
    if task.shape == "latency":
        other = AsyncAbsurd(task.dsn, queue_name="bench")
        while not task.done:
            before = task.handled
            await other.spawn("flow", {"at": time.time()}, queue="bench")
            while task.handled == before:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.15)
    while not task.done:
        await asyncio.sleep(0.05)
    worker.cancel()
    task.finish()


asyncio.run(main())
