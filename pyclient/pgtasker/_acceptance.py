"""Acceptance checks of a step (seed 002, "Acceptance Test Types"): how each is carried out, and what is told of it.

Whether a step has checks, and what follows when one fails, is the engine's business.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from . import shell
from ._errands import in_thread
from ._json import printable
from ._steps import PermanentError, StepContext

Check = Callable[[StepContext, Any], Any] | Callable[[StepContext, Any], Awaitable[Any]]

DEFAULT_TIMEOUT_SECONDS = 30.0
_OUTPUT_BYTES = 4_096
_MESSAGE_LIMIT = 2_000

_IMPORT_PYTHON = "import importlib, sys; importlib.import_module(sys.argv[1])"
_IMPORT_JS = (
    "import(process.argv[1]).then(() => process.exit(0), (error) => { console.error(String(error)); process.exit(1); })"
)


class CheckFailed(Exception):
    """A check that did not pass; ``facts`` go into what is stored of it."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


async def run_checks(
    acceptance: str, ctx: StepContext, result: Any, functions: Mapping[str, Check]
) -> tuple[bool, dict[str, Any]]:
    """Run all checks of a step one after the other, also when one fails, so that everything is known at once.

    Args:
        acceptance: the step's checks as JSON.
        ctx: what its handler saw.
        result: what its handler returned.
        functions: the worker's own checks by name.

    Returns:
        whether all passed, and ``{"checks": [{"type", "passed", "duration_ms", "message"?, "exit_code"?,
        "output_size_bytes"?, "output"?}], "validation_duration_ms"}``.
    """
    began = time.perf_counter()
    told = [await _run_check(check, ctx, result, functions) for check in json.loads(acceptance)]
    return all(check["passed"] for check in told), {"checks": told, "validation_duration_ms": _milliseconds(began)}


def failed_summary(details: Mapping[str, Any]) -> str:
    """Return one line that names what failed."""
    failed = [f"{check['type']}: {check['message']}" for check in details["checks"] if not check["passed"]]
    return "; ".join(failed)


async def _run_check(
    check: Mapping[str, Any], ctx: StepContext, result: Any, functions: Mapping[str, Check]
) -> dict[str, Any]:
    kind = str(check.get("type"))
    began = time.perf_counter()
    facts: dict[str, Any] = {}
    message = None
    try:
        limit = float(check.get("timeout", DEFAULT_TIMEOUT_SECONDS))
        if kind == "custom":
            facts = await _custom(check, ctx, result, functions, limit)
        elif kind == "file_exists":
            _file_exists(check, ctx)
        else:
            facts = await _program(kind, check, ctx, limit)
    except CheckFailed as error:
        facts, message = error.facts, str(error)
    except TimeoutError:
        message = f"took longer than {limit:g} s"
    except Exception as error:
        # A check that is written wrongly has not passed; it must not take the worker along.
        message = f"{type(error).__name__}: {error}"
    told = {"type": kind, "passed": message is None, "duration_ms": _milliseconds(began), **facts}
    if message is not None:
        told["message"] = printable(message, _MESSAGE_LIMIT)
    return told


def _milliseconds(since: float) -> int:
    return round((time.perf_counter() - since) * 1000)


def _text(check: Mapping[str, Any], name: str) -> str:
    value = check.get(name)
    if not isinstance(value, str) or not value:
        raise CheckFailed(f"the check needs {name!r}, a text")
    return value


def _folder(check: Mapping[str, Any], ctx: StepContext) -> str | None:
    """Where a check runs: its own ``cwd``, else that of the step, else the worker's."""
    arguments = ctx.arguments if isinstance(ctx.arguments, dict) else {}
    folder = check.get("cwd", arguments.get("cwd"))
    return folder if isinstance(folder, str) else None


def _file_exists(check: Mapping[str, Any], ctx: StepContext) -> None:
    path = _text(check, "path")
    if not Path(_folder(check, ctx) or ".", path).exists():
        raise CheckFailed(f"there is no {path}")


async def _program(kind: str, check: Mapping[str, Any], ctx: StepContext, limit: float) -> dict[str, Any]:
    if kind == "python_import":
        argv = [sys.executable, "-c", _IMPORT_PYTHON, _text(check, "module")]
    elif kind == "js_import":
        module = _text(check, "module")
        node = shutil.which("node")
        if node is None:
            raise CheckFailed(f"{module} cannot be imported: there is no node on this worker")
        argv = [node, "-e", _IMPORT_JS, "--", module]
    else:
        argv = check.get("argv", [])
        if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
            raise CheckFailed("the check needs 'argv', a list of text with the program first")
    try:
        expected = shell.expected_exit_codes(check)
        ran = await shell.run(
            argv,
            timeout_seconds=limit,
            cwd=_folder(check, ctx),
            env=check.get("env"),
            max_output_bytes=_OUTPUT_BYTES,
        )
    except TimeoutError:
        raise  # is an OSError too
    except OSError as error:
        raise CheckFailed(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    except PermanentError as error:
        raise CheckFailed(str(error)) from None
    facts = {"exit_code": ran.exit_code, "output_size_bytes": ran.stdout_bytes + ran.stderr_bytes}
    if ran.exit_code not in expected:
        output = (ran.stderr or ran.stdout).strip()
        last = output.splitlines()[-1] if output else "no output"
        raise CheckFailed(f"{' '.join(argv[:3])} exited with {ran.exit_code}: {last}", **facts, output=output)
    return facts


async def _custom(
    check: Mapping[str, Any], ctx: StepContext, result: Any, functions: Mapping[str, Check], limit: float
) -> dict[str, Any]:
    name = _text(check, "handler")
    function = functions.get(name)
    if function is None:
        known = ", ".join(sorted(functions)) or "none"
        raise CheckFailed(f"this worker has no check named {name!r}; it has: {known}")
    async with asyncio.timeout(limit):
        # A sync check that does not end is left behind in its thread.
        verdict = await in_thread(function, ctx, result)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    if verdict is False:
        raise CheckFailed(f"{name} said no", handler=name)
    return {"handler": name}
