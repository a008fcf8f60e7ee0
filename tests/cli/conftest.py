"""The real command line, run as a subprocess against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

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


def _run(*args: object, expect: int = 0, stdin: str = "", timeout: float = 120, **environment: str) -> Ran:
    """Run ``pgtasker ARGS``; fails the test where the exit code is not ``expect`` or a traceback was printed."""
    words = tuple(str(arg) for arg in args)
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    done = subprocess.run(
        [sys.executable, "-m", "pgtasker.cli", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**inherited, **environment},
        check=False,
    )
    ran = Ran(words, done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.exit_code == expect, f"{words} ended with {ran.exit_code}\n{ran.stdout}\n{ran.stderr}"
    return ran


@pytest.fixture(scope="session")
def run_cli() -> Cli:
    """``pgtasker`` with whatever server its arguments and environment name."""
    return _run


@pytest.fixture
def cli(database: str) -> Cli:
    """``pgtasker`` on a fresh, migrated database."""

    def call(*args: object, **options: Any) -> Ran:
        return _run(*args, PGTASKER_DSN=database, **options)

    return call
