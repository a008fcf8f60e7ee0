"""Programs as steps: a handler for any ``Worker``, and the one way in which this package runs a program.

    from pgtasker.shell import shell
    worker.step("shell")(shell)

Never through a shell, always as a process group of its own that is ended as a whole: when its time is over, when its
step is taken away, when the worker is forced to stop, and also when the worker is killed without a good-bye.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psycopg

from ._steps import PermanentError, StepContext, TransientError
from .errors import PgtaskerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["DEFAULT_MAX_OUTPUT_BYTES", "PASSED_ENVIRONMENT", "Ran", "UnexpectedExit", "run", "shell"]

PASSED_ENVIRONMENT = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER")
"""The worker's variables a program inherits, besides ``LC_*``. No others: a DSN may hold a password."""

DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024
_MARK = "PGTASKER_LIFELINE"
_KILL_GRACE_SECONDS = 1.5
_ERROR_OUTPUT_CHARACTERS = 2_000


class Ran:
    """A program's run, readable at any time: what it wrote so far, and how it ended if it has.

    Attributes:
        argv: program and arguments.
        exit_code: None while it runs; negative for a signal.
        stdout_bytes, stderr_bytes: what was written, also beyond the cap.
    """

    def __init__(self, argv: Sequence[str], max_output_bytes: int) -> None:
        self.argv = tuple(argv)
        self.exit_code: int | None = None
        self.stdout_bytes = 0
        self.stderr_bytes = 0
        self._cap = max_output_bytes
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._began = time.monotonic()
        self._ended: float | None = None

    @property
    def stdout(self) -> str:
        """The first bytes of standard output, as text."""
        return _text(self._kept["stdout"])

    @property
    def stderr(self) -> str:
        """The first bytes of standard error, as text."""
        return _text(self._kept["stderr"])

    def as_json(self) -> dict[str, Any]:
        """Return what a step stores of a run; sizes and durations as seed 002 names them."""
        return {
            "exit_code": self.exit_code,
            "duration_ms": round(((self._ended or time.monotonic()) - self._began) * 1000),
            "output_size_bytes": self.stdout_bytes + self.stderr_bytes,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "stdout_truncated": self.stdout_bytes > self._cap,
            "stderr_truncated": self.stderr_bytes > self._cap,
        }

    async def _read(self, name: str, stream: asyncio.StreamReader | None) -> None:
        kept = self._kept[name]
        # Reading on beyond the cap: a full pipe would block the program for ever.
        while stream is not None and (chunk := await stream.read(65536)):
            setattr(self, f"{name}_bytes", getattr(self, f"{name}_bytes") + len(chunk))
            kept += chunk[: max(0, self._cap - len(kept))]

    def _end(self, exit_code: int | None) -> None:
        self.exit_code = exit_code
        self._ended = time.monotonic()


def _text(kept: bytearray) -> str:
    # U+0000 cannot be stored in jsonb.
    return kept.decode("utf-8", errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


async def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float | None = None,
    stdin: bytes | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
    before_kill: Callable[[Ran], object] | None = None,
) -> Ran:
    """Run ``argv`` to its end and return what it did, whatever its exit code.

    Args:
        argv: program and arguments.
        timeout_seconds: how long it may take.
        stdin: what it reads; None: nothing.
        cwd: where it runs.
        env: added to the passed environment.
        max_output_bytes: how much is kept of each of its two outputs.
        before_kill: called with what it did so far, right before it is ended because time is over or the call was
            cancelled.

    Raises:
        TimeoutError: it took too long; the process group was ended.
        OSError: it cannot be started (FileNotFoundError, PermissionError).

    Cancelling the call ends the process group too.
    """
    ran = Ran(argv, max_output_bytes)
    mark = _lifeline.open()
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=passed_environment() | dict(env or {}) | mark,
            start_new_session=True,
        )
    )
    cancelled = False
    while not starting.done():
        # Cancelled in the middle of it, asyncio would end the program and leave behind what that has started.
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            cancelled = True
        except OSError:
            break
    process = starting.result()
    _lifeline.add(process.pid)
    try:
        if cancelled:
            raise asyncio.CancelledError
        async with asyncio.timeout(timeout_seconds):
            await asyncio.gather(
                ran._read("stdout", process.stdout),
                ran._read("stderr", process.stderr),
                _write(process.stdin, stdin),
                process.wait(),
            )
    except (TimeoutError, asyncio.CancelledError):
        if before_kill is not None:
            before_kill(ran)
        raise
    finally:
        try:
            await _end_group(process)
        finally:
            ran._end(process.returncode)
            _lifeline.remove(process.pid)
    return ran


def passed_environment() -> dict[str, str]:
    """The part of this process's environment that programs inherit."""
    return {name: value for name, value in os.environ.items() if name in PASSED_ENVIRONMENT or name.startswith("LC_")}


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
    try:
        # The group's number is the leader's, since it was started in a session of its own.
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _KILL_GRACE_SECONDS)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        # Also when the waiting was cancelled: nothing may be left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


class _Lifeline:
    """Tells a small process beside this one which groups to end when this one is killed."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._groups: set[int] = set()
        self._reaper: subprocess.Popen[str] | None = None
        self._mark = secrets.token_hex(16)

    def open(self) -> dict[str, str]:
        """Have the process beside this one, and return what marks a program as ours in its environment."""
        with self._guard:
            if self._reaper is None or self._reaper.poll() is not None:
                self._start()
        return {_MARK: self._mark}

    def add(self, group: int) -> None:
        """Have a group ended with this process."""
        with self._guard:
            self._groups.add(group)
            self._say(f"+{group}")

    def remove(self, group: int) -> None:
        """Forget a group that has ended."""
        with self._guard:
            self._groups.discard(group)
            self._say(f"-{group}")

    def _start(self) -> None:
        program = str(Path(__file__).with_name("_reaper.py"))
        # A session of its own: signals for the worker's whole group are not for it. Its input closes with this
        # process, since no other inherits the pipe.
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", program, f"{_MARK}={self._mark}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        for group in self._groups:
            self._say(f"+{group}")

    def _say(self, line: str) -> None:
        pipe: IO[str] | None = None if self._reaper is None else self._reaper.stdin
        if pipe is not None:
            # Where it was killed, the next program starts it anew.
            with contextlib.suppress(OSError, ValueError):
                pipe.write(line + "\n")
                pipe.flush()


_lifeline = _Lifeline()


# ---------------------------------------------------------------------------------------------------------- as a step


class UnexpectedExit(RuntimeError):
    """A program ended with an exit code that its step did not expect; retried within the step's limits.

    Attributes:
        details: ``exit_code``, ``duration_ms``, ``output_size_bytes`` and the ends of both outputs; stored with the
            error.
    """

    def __init__(self, ran: Ran, expected: Sequence[int]) -> None:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        last = said[-1][:500] if said else "no output"
        super().__init__(f"{ran.argv[0]} exited with {ran.exit_code}, expected {list(expected)}: {last}")
        stored = ran.as_json()
        self.details = {
            **{name: stored[name] for name in ("exit_code", "duration_ms", "output_size_bytes")},
            **{name: stored[name][-_ERROR_OUTPUT_CHARACTERS:] for name in ("stdout", "stderr")},
        }


async def shell(ctx: StepContext) -> dict[str, Any]:
    """Run a program without a shell, in a process group of its own (handler ``shell``).

    Arguments: ``argv`` (list of text), ``timeout_seconds`` (besides the step's own limit), ``cwd``, ``env`` (added to a
    small allow-list of the worker's variables), ``stdin`` (text), ``inputs_on_stdin`` (true: the results of the
    dependencies as JSON instead), ``max_output_bytes`` (64 KiB a stream), ``expected_exit_codes`` (default [0]).

    Returns ``{"exit_code", "duration_ms", "output_size_bytes", "stdout", "stderr", "stdout_truncated",
    "stderr_truncated"}``. When time is over or the step is interrupted, what the program wrote so far is saved as the
    step's checkpoint, in the same shape.

    Raises:
        PermanentError: a program that cannot be started, or arguments of the wrong kind.
        TransientError: ``timeout_seconds`` were over.
        UnexpectedExit: the exit code is none of the expected ones.
    """
    arguments = ctx.arguments
    argv = arguments.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise PermanentError("arguments.argv must be a list of text with the program first")
    expected = expected_exit_codes(arguments)
    limit = arguments.get("timeout_seconds")
    saving: list[asyncio.Task[None]] = []

    def save(ran: Ran) -> None:
        saving.append(asyncio.ensure_future(ctx.save_checkpoint_async(ran.as_json())))

    try:
        ran = await run(
            argv,
            timeout_seconds=None if limit is None else float(limit),
            stdin=_stdin(ctx),
            cwd=arguments.get("cwd"),
            env=arguments.get("env"),
            max_output_bytes=int(arguments.get("max_output_bytes", DEFAULT_MAX_OUTPUT_BYTES)),
            before_kill=save,
        )
    except TimeoutError:
        raise TransientError(f"{argv[0]} ran longer than {float(limit):g} s and was ended") from None
    except OSError as error:
        raise PermanentError(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    finally:
        for task in saving:
            # Whoever lost the step has nothing to save any more, and a database that is away must not hold up the end.
            with contextlib.suppress(PgtaskerError, psycopg.Error, TimeoutError):
                await asyncio.wait_for(task, 5.0)
    if ran.exit_code not in expected:
        raise UnexpectedExit(ran, expected)
    return ran.as_json()


def expected_exit_codes(options: Mapping[str, Any]) -> list[int]:
    """Return ``options["expected_exit_codes"]``, by default [0]; raises PermanentError for anything but numbers."""
    expected = options.get("expected_exit_codes", [0])
    if not isinstance(expected, list) or not all(isinstance(code, int) for code in expected):
        raise PermanentError("expected_exit_codes must be a list of whole numbers")
    return expected


def _stdin(ctx: StepContext) -> bytes | None:
    if ctx.arguments.get("inputs_on_stdin"):
        return json.dumps(ctx.inputs, ensure_ascii=False).encode()
    text = ctx.arguments.get("stdin")
    return None if text is None else str(text).encode()
