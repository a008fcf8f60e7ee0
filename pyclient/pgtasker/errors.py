"""Everything pgtasker raises, as one tree.

    PgtaskerError
    ├── InvalidDefinition    TK400  a template, graph, vocabulary or argument is wrong (all problems at once)
    │   └── InvalidValue            the same, found before the call was sent (also a ValueError)
    ├── NotOwner             TK403  another live processor owns the task
    ├── NotFound             TK404  no such task, step, template, namespace, ...
    ├── InvalidTransition    TK409  the lifecycle has no such way out of the current state
    ├── StaleClaim           TK412  the claim was lost: lease over, step cancelled or taken over
    ├── PayloadTooLarge      TK413  bigger than its namespace allows
    ├── GuardFailed          TK422  the way exists, its condition does not hold
    ├── IdempotencyConflict  TK423  same key, other request
    ├── LimitExceeded        TK429  a limit or capacity is used up
    ├── CircuitOpen          TK503  the circuit breaker refuses calls for now
    ├── SchemaMissing               the database has no (current) schema ``tasker``
    └── WaitTimeout                 ``wait`` gave up (also a TimeoutError)

The classes follow the SQLSTATE exactly and never psycopg's own exception classes: those group by the first two
characters only, and would make a lost connection of what is none. Errors that are not pgtasker's (lost connection,
syntax, permission) stay what psycopg raised. Source: the error catalogue ``tasker.error_catalogue``; a test compares
both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "CircuitOpen",
    "GuardFailed",
    "IdempotencyConflict",
    "InvalidDefinition",
    "InvalidTransition",
    "InvalidValue",
    "LimitExceeded",
    "NotFound",
    "NotOwner",
    "PayloadTooLarge",
    "PgtaskerError",
    "SchemaMissing",
    "StaleClaim",
    "WaitTimeout",
    "error_from_code",
    "error_from_psycopg",
]


class PgtaskerError(Exception):
    """Base of all pgtasker errors.

    Attributes:
        message: what is wrong, in the caller's words.
        sqlstate: the five-character code (``TK409``), or None for errors that were found on this side.
        detail: the error's facts as a dict (for example ``{"from_state": ..., "event": ...}``), empty when there are
            none.
        hint: what would be right, or None.
    """

    default_sqlstate: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate or self.default_sqlstate
        self.detail: dict[str, Any] = dict(detail or {})
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.message}  [{self.sqlstate}]" if self.sqlstate else self.message
        return f"{text}\n{self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders in process pools.
        return _rebuild, (type(self), self.message, self.sqlstate, self.detail, self.hint)


def _rebuild(
    cls: type[PgtaskerError], message: str, sqlstate: str | None, detail: dict[str, Any], hint: str | None
) -> PgtaskerError:
    return cls(message, sqlstate=sqlstate, detail=detail, hint=hint)


class InvalidDefinition(PgtaskerError):
    """A definition or argument is wrong. ``detail["problems"]`` lists every problem as ``{"path", "message"}``."""

    default_sqlstate = "TK400"

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Every problem found, each with ``path`` and ``message``."""
        problems = self.detail.get("problems", [])
        return list(problems) if isinstance(problems, list) else []

    def __str__(self) -> str:
        listed = "".join(f"\n  {p.get('path') or '(top)'}: {p.get('message')}" for p in self.problems)
        return super().__str__() + listed


class InvalidValue(InvalidDefinition, ValueError):
    """A value that PostgreSQL or JSON cannot hold faithfully, refused before it is sent: NaN, U+0000, a naive
    datetime.
    """

    @classmethod
    def of(cls, message: str, problems: Iterable[tuple[str, str]], hint: str | None = None) -> InvalidValue:
        """Return the error for problems given as (path, message)."""
        return cls(message, detail={"problems": [{"path": p, "message": m} for p, m in problems]}, hint=hint)


class NotOwner(PgtaskerError):
    """The task belongs to another processor whose lease lives (seed 004, processor ownership)."""

    default_sqlstate = "TK403"


class NotFound(PgtaskerError):
    """There is no such thing."""

    default_sqlstate = "TK404"


class InvalidTransition(PgtaskerError):
    """The lifecycle does not allow this event in the current state; the hint names the events allowed now."""

    default_sqlstate = "TK409"


class StaleClaim(PgtaskerError):
    """The claim is no longer the step's current one; nothing was changed."""

    default_sqlstate = "TK412"


class PayloadTooLarge(PgtaskerError):
    """A result, checkpoint, context, arguments or tags have more bytes than their namespace allows; nothing was
    stored.
    """

    default_sqlstate = "TK413"


class GuardFailed(PgtaskerError):
    """The transition exists but its guard does not hold; the detail says which guard and what is missing."""

    default_sqlstate = "TK422"


class IdempotencyConflict(PgtaskerError):
    """The idempotency key was used before with another request."""

    default_sqlstate = "TK423"


class LimitExceeded(PgtaskerError):
    """A limit or a capacity is used up."""

    default_sqlstate = "TK429"


class CircuitOpen(PgtaskerError):
    """The circuit breaker is open."""

    default_sqlstate = "TK503"


class SchemaMissing(PgtaskerError):
    """The database has no schema ``tasker``, or one too old for this client."""


class WaitTimeout(PgtaskerError, TimeoutError):
    """``wait`` ran out of time; the task goes on."""


BY_SQLSTATE: dict[str, type[PgtaskerError]] = {
    cls.default_sqlstate: cls
    for cls in (
        InvalidDefinition,
        NotOwner,
        NotFound,
        InvalidTransition,
        StaleClaim,
        PayloadTooLarge,
        GuardFailed,
        IdempotencyConflict,
        LimitExceeded,
        CircuitOpen,
    )
    if cls.default_sqlstate is not None
}

# invalid_schema_name and undefined_function: the door is not there at all.
_SCHEMA_ABSENT = frozenset({"3F000", "42883"})


def error_from_code(
    code: str, message: str, detail: Mapping[str, Any] | None = None, hint: str | None = None
) -> PgtaskerError:
    """Return the error object of a TK code; unknown TK codes of a newer schema give the base class."""
    return BY_SQLSTATE.get(code, PgtaskerError)(message, sqlstate=code, detail=detail, hint=hint)


def error_from_refusal(
    code: str, message: str, detail: Mapping[str, Any] | None = None, hint: str | None = None
) -> PgtaskerError | psycopg.Error:
    """Return the error that a refused command raises when it is not attempted but called: ours, or psycopg's."""
    if code.startswith("TK"):
        return error_from_code(code, message, detail, hint)
    return psycopg.errors.lookup(code)(message)


def error_from_psycopg(error: psycopg.Error) -> PgtaskerError | None:
    """Return the pgtasker error that a psycopg error stands for, or None when it is not one of ours."""
    sqlstate = error.sqlstate
    if sqlstate is None:
        return None
    diag = error.diag
    message = diag.message_primary or str(error)
    if sqlstate.startswith("TK"):
        return error_from_code(sqlstate, message, json_object(diag.message_detail), diag.message_hint)
    if sqlstate in _SCHEMA_ABSENT and "tasker" in message:
        return SchemaMissing(
            f"this database has no usable schema tasker: {message}",
            sqlstate=sqlstate,
            hint="Run: pgtasker migrate",
        )
    return None


def json_object(text: str | None) -> dict[str, Any]:
    """Return the DETAIL of a message as a dict; empty without one."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
