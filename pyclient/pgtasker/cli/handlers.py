"""The handlers that ``pgtasker run`` brings along, and the worker that serves them.

``noop``   does nothing, returns null
``echo``   returns ``{"arguments", "inputs", "attempt"}``: what the step was given
``sleep``  sleeps ``arguments.seconds`` divided by the task context's ``speedup`` (default 1; 0 or "inf": not at all)
``shell``  runs ``arguments.argv`` (a list, no shell) and returns its exit code and output
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from typing import Any

from pgtasker import PermanentError, StepContext, TransientError, Worker
from pgtasker.cli import shell as programs

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


async def shell(ctx: StepContext) -> dict[str, Any]:
    """Run a program without a shell, in a process group of its own.

    Arguments: ``argv`` (list of text), ``timeout_seconds`` (default: what is left of the step's own limit), ``cwd``,
    ``env`` (added to a small allow-list of the worker's variables), ``stdin`` (text), ``inputs_on_stdin`` (true: the
    results of the dependencies as JSON instead), ``max_output_bytes`` (64 KiB a stream), ``expect_exit_codes``
    (default [0]).

    Returns ``{"exit_code", "stdout", "stderr", "stdout_bytes", "stderr_bytes", "truncated", "seconds"}``. Raises
    PermanentError for a program that cannot be started or arguments of the wrong kind, TransientError for one that
    ran out of time, and RuntimeError (retried by the step's own limits) for an unexpected exit code.
    """
    arguments = ctx.arguments
    argv = arguments.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise PermanentError("arguments.argv must be a list of text with the program first")
    expected = arguments.get("expect_exit_codes", [0])
    if not isinstance(expected, list) or not all(isinstance(code, int) for code in expected):
        raise PermanentError("arguments.expect_exit_codes must be a list of whole numbers")
    left = ctx.seconds_left()
    limits = [limit for limit in (left, arguments.get("timeout_seconds")) if limit is not None]
    try:
        done = await programs.run(
            argv,
            timeout_seconds=min(map(float, limits), default=None),
            stdin=_stdin(ctx),
            cwd=arguments.get("cwd"),
            env=arguments.get("env"),
            max_output_bytes=int(arguments.get("max_output_bytes", programs.DEFAULT_MAX_OUTPUT_BYTES)),
        )
    except TimeoutError:
        raise TransientError(f"{argv[0]} ran longer than {min(map(float, limits)):g} s and was ended") from None
    except OSError as error:
        raise PermanentError(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    if done.exit_code not in expected:
        raise RuntimeError(
            f"{argv[0]} exited with {done.exit_code}, expected {expected}: {_last_line(done.stderr or done.stdout)}"
        )
    return {
        "exit_code": done.exit_code,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "stdout_bytes": done.stdout_bytes,
        "stderr_bytes": done.stderr_bytes,
        "truncated": done.truncated,
        "seconds": round(done.seconds, 3),
    }


def _stdin(ctx: StepContext) -> bytes | None:
    if ctx.arguments.get("inputs_on_stdin"):
        return json.dumps(ctx.inputs, ensure_ascii=False).encode()
    text = ctx.arguments.get("stdin")
    return None if text is None else str(text).encode()


def _number(holder: Any, name: str, default: float) -> float:
    value = holder.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PermanentError(f"{name} must be a number, not {value!r}") from None
    if number < 0 or math.isnan(number):
        raise PermanentError(f"{name} must not be negative, got {value!r}")
    return number


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else "no output"


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
