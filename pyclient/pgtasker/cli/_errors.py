"""Errors as a person or a program reads them: message, detail, hint, code, and the exit code that goes with them."""

from __future__ import annotations

import json
import sys
from typing import Any

from pgtasker.cli._output import json_default, talk
from pgtasker.cli._settings import settings

OK = 0
REFUSED = 1
USAGE = 2
NO_CONNECTION = 3
INTERRUPTED = 130


class CommandError(Exception):
    """A command that ends with a message of its own."""

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def usage_error(message: str, hint: str | None = None) -> CommandError:
    """A command called in a way that cannot be right."""
    return CommandError(message, hint=hint, exit_code=USAGE)


def report(error: BaseException) -> int | None:
    """Print an error that was foreseen and return its exit code; None for one that was not."""
    import psycopg

    from pgtasker.errors import PgtaskerError
    from pgtasker.graphs import GraphFileError
    from pgtasker.migrate import MigrationError
    from pgtasker.server import ServerError

    if isinstance(error, CommandError):
        return _print(error.exit_code, error.message, hint=error.hint)
    if isinstance(error, GraphFileError):
        return _print(USAGE, str(error))
    if isinstance(error, ServerError):
        return _print(NO_CONNECTION, str(error))
    if isinstance(error, MigrationError):
        return _print(REFUSED, str(error))
    if isinstance(error, PgtaskerError):
        return _print(REFUSED, error.message, code=error.sqlstate, detail=error.detail, hint=error.hint)
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return _print(USAGE, f"not a connection string: {error}", hint="postgresql://user@host:5432/database")
    if isinstance(error, psycopg.Error):
        # Without a SQLSTATE the server never answered (psycopg_pool's timeouts are of this kind too).
        lost = isinstance(error, psycopg.OperationalError) and (
            error.sqlstate is None or error.sqlstate[:2] in ("08", "28", "3D", "57")
        )
        diagnosis = error.diag
        return _print(
            NO_CONNECTION if lost else REFUSED,
            diagnosis.message_primary or f"cannot connect: {error}"
            if lost
            else diagnosis.message_primary or str(error),
            code=error.sqlstate,
            detail=_detail(diagnosis.message_detail),
            hint=diagnosis.message_hint,
        )
    return None


def _detail(text: str | None) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _print(
    exit_code: int, message: str, *, code: str | None = None, detail: Any = None, hint: str | None = None
) -> int:
    if settings.json:
        error = {"message": message, "detail": detail or None, "hint": hint, "code": code, "exit_code": exit_code}
        sys.stderr.write(json.dumps({"error": error}, default=json_default, ensure_ascii=False) + "\n")
        return exit_code
    talk(f"error: {message.strip()}" + (f"  [{code}]" if code else ""), style="red")
    problems = detail.get("problems") if isinstance(detail, dict) else None
    if isinstance(problems, list):
        for problem in problems:
            talk(f"  {problem.get('path') or '(whole)'}: {problem.get('message')}")
    elif detail:
        talk(
            "detail: "
            + (detail if isinstance(detail, str) else json.dumps(detail, default=json_default, ensure_ascii=False))
        )
    if hint:
        talk(f"hint: {hint}", style="yellow")
    return exit_code
