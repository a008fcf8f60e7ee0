"""Worker processes that a command starts for itself (`run`, `demo`) and ends with itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self

from pgtasker.cli._database import Database
from pgtasker.cli._errors import CommandError

START_SECONDS = 30.0
DRAIN_SECONDS = 10.0
_LOG_LINES = 15


class WorkerProcesses:
    """``pgtasker worker run TARGET -n PROCESSES`` as a child of this process; leaving the block drains and ends it."""

    def __init__(
        self,
        target: str,
        processes: int,
        *,
        dsn: str,
        namespace: str,
        concurrency: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{namespace}-{os.getpid()}"
        self.processes = processes
        self.command = [
            *("worker", "run", target),
            *("--processes", str(processes), "--namespace", namespace, "--name", self.name),
            *("--drain-timeout", f"{DRAIN_SECONDS:g}", "--stop-with-parent"),
        ]
        if concurrency is not None:
            self.command += ["--concurrency", str(concurrency)]
        # The DSN may hold a password: it goes through the environment, not through the list of processes.
        self._environment = {**os.environ, **(environment or {}), "PGTASKER_DSN": dsn}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile(prefix="pgtasker-workers-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pgtasker.cli", *self.command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            # Ctrl-C is for this process: it cancels the task first and ends the workers then.
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(DRAIN_SECONDS + 5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self._log is not None:
            self._log.close()

    def require_alive(self) -> None:
        """Raise CommandError with the end of the workers' log if they have ended."""
        if self._process is not None and self._process.poll() is not None:
            raise CommandError(f"the workers ended (exit code {self._process.returncode}):\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines that the workers wrote."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-_LOG_LINES:])

    def wait_until_registered(self, db: Database) -> None:
        """Wait until all processes have registered, so that what is measured afterwards is work and not start-up.

        Raises CommandError if they end, or are not there within START_SECONDS.
        """
        deadline = time.monotonic() + START_SECONDS
        names = (self.name, self.name.replace("_", r"\_") + "-%")
        while True:
            self.require_alive()
            count = db.value("select count(*) from tasker.workers where name = %s or name like %s", names)
            if int(count) >= self.processes:
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{count} of {self.processes} workers registered within {START_SECONDS:g} s:\n{self.log_tail()}"
                )
            time.sleep(0.05)
