"""Running one program for a step: no shell, its own process group, a time limit, captured and capped output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PASSED_ENVIRONMENT = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER")
"""The worker's variables a program inherits, besides ``LC_*``. No others: a DSN may hold a password."""

DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024
_KILL_GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Completed:
    """How a program ended.

    ``exit_code`` is negative for a signal; output is text, cut after the cap; ``*_bytes`` count all that was written.
    """

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool
    seconds: float


async def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float | None = None,
    stdin: bytes | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
) -> Completed:
    """Run ``argv`` to its end and return what it did, whatever its exit code.

    ``env`` is added to the passed environment. Raises TimeoutError after ``timeout_seconds`` (the whole process group
    is ended first) and OSError (FileNotFoundError, PermissionError) for a program that cannot be started. Cancelling
    the call ends the process group too.
    """
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=passed_environment() | dict(env or {}),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            (stdout, stdout_bytes), (stderr, stderr_bytes), _, exit_code = await asyncio.gather(
                _read_capped(process.stdout, max_output_bytes),
                _read_capped(process.stderr, max_output_bytes),
                _write(process.stdin, stdin),
                process.wait(),
            )
    finally:
        await _end_group(process)
    truncated = max(stdout_bytes, stderr_bytes) > max_output_bytes
    return Completed(
        tuple(argv), exit_code, stdout, stderr, stdout_bytes, stderr_bytes, truncated, time.monotonic() - began
    )


def passed_environment() -> dict[str, str]:
    """The part of this process's environment that programs inherit."""
    return {name: value for name, value in os.environ.items() if name in PASSED_ENVIRONMENT or name.startswith("LC_")}


async def _read_capped(stream: asyncio.StreamReader | None, cap: int) -> tuple[str, int]:
    kept = bytearray()
    total = 0
    # Reading on beyond the cap: a full pipe would block the program for ever.
    while stream is not None and (chunk := await stream.read(65536)):
        total += len(chunk)
        kept += chunk[: max(0, cap - len(kept))]
    # U+0000 cannot be stored in jsonb.
    return kept.decode("utf-8", errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}"), total


async def _write(stream: asyncio.StreamWriter | None, data: bytes | None) -> None:
    if stream is None:
        return
    # A program that does not read its input to the end (head, for one) closes the pipe: not an error of ours.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data or b"")
        await stream.drain()
    stream.close()


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End what is left of the program's process group: asked first, forced after a grace period."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            # The group's number is the leader's, since it was started in a session of its own.
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _KILL_GRACE_SECONDS)
