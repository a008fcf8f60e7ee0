"""The handlers that ``pgtasker run`` brings along, and the worker that serves them.

``noop``   does nothing, returns null
``echo``   returns ``{"arguments", "inputs", "attempt"}``: what the step was given
``sleep``  sleeps ``arguments.seconds`` divided by the task context's ``speedup`` (default 1; 0 or "inf": not at all)
``shell``  runs ``arguments.argv`` (a list, no shell) and returns its exit code and output: ``pgtasker.shell``
"""

from __future__ import annotations

import asyncio
import math
import os
from typing import Any

from pgtasker import PermanentError, StepContext, Worker
from pgtasker.shell import shell

BUILT_IN = ("noop", "echo", "sleep", "shell")
USER_WORKER_VARIABLE = "PGTASKER_RUN_HANDLERS"
"""Environment variable naming the ``module:worker`` whose handlers ``run --handlers`` adds."""


async def noop(ctx: StepContext) -> None:
    """Do nothing."""


async def echo(ctx: StepContext) -> dict[str, Any]:
    """Return what the step was given."""
    return {"arguments": ctx.arguments, "inputs": ctx.inputs, "attempt": ctx.attempt}


async def sleep(ctx: StepContext) -> dict[str, float]:
    """Sleep ``arguments.seconds / context.speedup`` seconds and return both numbers.

    Raises PermanentError for numbers that are none, negative or not finite.
    """
    seconds = _number(ctx.arguments, "seconds", 0.0)
    speedup = _number(ctx.context or {}, "speedup", 1.0)
    if not math.isfinite(seconds):
        raise PermanentError("arguments.seconds must be finite")
    slept = 0.0 if speedup == 0 or math.isinf(speedup) else seconds / speedup
    if slept > 0:
        await asyncio.sleep(slept)
    return {"seconds": seconds, "slept": slept}


def _number(holder: Any, name: str, default: float) -> float:
    value = holder.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PermanentError(f"{name} must be a number, not {value!r}") from None
    if number < 0 or math.isnan(number):
        raise PermanentError(f"{name} must not be negative, got {value!r}")
    return number


def add_built_in(worker: Worker) -> Worker:
    """Add the built-in handlers to a worker that has none of those names."""
    for function in (noop, echo, sleep, shell):
        if function.__name__ not in worker.handlers:
            worker.step(function.__name__)(function)
    return worker


def _worker() -> Worker:
    target = os.environ.get(USER_WORKER_VARIABLE)
    if not target:
        return add_built_in(Worker())
    from pgtasker.worker import load_worker

    return add_built_in(load_worker(target))


worker = _worker()
