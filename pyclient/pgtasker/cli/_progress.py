"""Following one task to its end with a bar on a terminal, or plain lines without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from pgtasker.cli import _output as output
from pgtasker.cli._database import Database
from pgtasker.cli._errors import CommandError
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from rich.progress import Progress

_LOOK_SECONDS = 0.1
_LINE_SECONDS = 1.0


class _Screen(Protocol):
    def update(self, row: dict[str, Any]) -> None: ...


def follow(
    db: Database,
    task_uuid: UUID,
    *,
    look_after: Callable[[], None],
    timeout: float | None = None,
) -> dict[str, Any]:
    """Show a task's progress on stderr until it is terminal or blocked (or ``timeout`` seconds are over); return its
    overview.

    ``look_after`` is called at every look; what it raises ends the wait.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    row = _overview(db, task_uuid)
    with _screen(row) as screen:
        while True:
            screen.update(row)
            if is_over(row) or (deadline is not None and time.monotonic() > deadline):
                return row
            look_after()
            time.sleep(_LOOK_SECONDS)
            row = _overview(db, task_uuid)


def is_over(row: dict[str, Any]) -> bool:
    """True for a task that only a person could move on."""
    return bool(row["is_terminal"]) or row["phase"] == "blocked"


def _overview(db: Database, task_uuid: UUID) -> dict[str, Any]:
    row = db.row("select * from tasker.task_overview where task_uuid = %s", (task_uuid,))
    if row is None:
        raise CommandError(f"task {task_uuid} is gone")
    return row


def _screen(row: dict[str, Any]) -> AbstractContextManager[_Screen]:
    if output.is_interactive():
        return _Bar(row)
    return nullcontext(_Lines())


def _counts(row: dict[str, Any]) -> str:
    parts = [f"{row['in_flight_steps']} in flight"]
    if row["waiting_retry_steps"]:
        parts.append(f"{row['waiting_retry_steps']} waiting for a retry")
    if row["failed_steps"]:
        parts.append(f"{row['failed_steps']} failed")
    return ", ".join(parts)


class _Bar:
    """A rich progress bar."""

    def __init__(self, row: dict[str, Any]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=output.console(stderr=True),
        )
        self._task = self._progress.add_task(str(row["name"]), total=row["total_steps"], counts="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, row: dict[str, Any]) -> None:
        counts = f"{row['state']}: {_counts(row)}"
        self._progress.update(self._task, completed=row["satisfied_steps"], total=row["total_steps"], counts=counts)


class _Lines:
    """A line when the state is over and every few seconds in between; silent with --json."""

    def __init__(self) -> None:
        self._next_line = time.monotonic() + _LINE_SECONDS

    def update(self, row: dict[str, Any]) -> None:
        if settings.json or (time.monotonic() < self._next_line and not is_over(row)):
            return
        self._next_line = time.monotonic() + _LINE_SECONDS
        output.talk(
            f"{row['name']}: {row['state']}, {row['satisfied_steps']} of {row['total_steps']} steps, {_counts(row)}"
        )
