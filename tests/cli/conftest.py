"""The real command line, run in a process of its own against a real server."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli import program

# Nothing of the caller's own server or screen may leak into a test.
_NOT_INHERITED = ("DATABASE_URL", "PGTASKER_DSN", "PGTASKER_DATA_DIR", "COLUMNS", "FORCE_COLOR", "NO_COLOR")


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    args: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def error(self) -> Any:
        """The error that --json prints on stderr's last line."""
        return json.loads(self.stderr.splitlines()[-1])["error"]


Cli = Callable[..., Ran]


class Program:
    """Runs ``pgtasker ARGS``, each time in a process of its own."""

    def __init__(self) -> None:
        self._forking: subprocess.Popen[str] | None = None

    def run(self, *args: object, expect: int = 0, stdin: str = "", timeout: float = 120, **environment: str) -> Ran:
        """Run one command; fails the test where the exit code is not ``expect`` or a traceback was printed."""
        words = tuple(str(arg) for arg in args)
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "stdin").write_text(stdin)
            exit_code = self._exit_code(words, {**inherited, **environment}, folder, timeout)
            ran = Ran(words, exit_code, (folder / "stdout").read_text(), (folder / "stderr").read_text())
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.exit_code == expect, f"{words} ended with {ran.exit_code}\n{ran.stdout}\n{ran.stderr}"
        return ran

    def _exit_code(self, words: tuple[str, ...], environment: dict[str, str], folder: Path, timeout: float) -> int:
        if self._forking is None:
            command = [sys.executable, program.__file__]
            self._forking = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        assert self._forking.stdin is not None and self._forking.stdout is not None
        told = {"words": words, "cwd": os.getcwd(), "environment": environment, "folder": str(folder)}
        self._forking.stdin.write(json.dumps(told) + "\n")
        self._forking.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._forking.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                self.end()
                raise subprocess.TimeoutExpired(words, timeout)
        return int(self._forking.stdout.readline())

    def end(self) -> None:
        """End what still runs."""
        if self._forking is not None:
            os.killpg(self._forking.pid, signal.SIGKILL)
            self._forking.communicate()
            self._forking = None


@pytest.fixture(scope="session")
def run_cli() -> Iterator[Cli]:
    """``pgtasker`` with whatever server its arguments and environment name."""
    started = Program()
    yield started.run
    started.end()


@pytest.fixture
def cli(run_cli: Cli, database: str) -> Cli:
    """``pgtasker`` on a fresh, migrated database."""

    def call(*args: object, **options: Any) -> Ran:
        return run_cli(*args, PGTASKER_DSN=database, **options)

    return call
