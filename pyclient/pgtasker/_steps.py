"""What a step handler sees, how it says what went wrong, and how one handler call becomes a report."""

from __future__ import annotations

import contextlib
import contextvars
import datetime as dt
import json
import threading
import time
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID

from ._errands import in_thread
from ._json import dumps, printable
from .errors import InvalidValue, PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ._errands import Errands
    from ._statements import RawClaim
    from ._tracing import Carrier

__all__ = ["CancelSignal", "PermanentError", "RetryAfter", "StepContext", "TransientError"]

_TRACEBACK_LIMIT = 8_000
_MESSAGE_LIMIT = 4_000

current_step: contextvars.ContextVar[RawClaim | None] = contextvars.ContextVar("current_step", default=None)
"""The step whose handler runs here; the log says so."""

# A handler's own database trouble that passes by itself: conflicts, locks not to be had, a server that goes or comes.
_PASSING = frozenset({"40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "53300", "25006"})


class PermanentError(Exception):
    """Raise it from a handler when another attempt cannot help: the step fails for good.

    An exception with an attribute ``details``, JSON data, has it stored with its message; so has any other.
    """


class TransientError(Exception):
    """Raise it from a handler when another attempt may well help."""


class RetryAfter(TransientError):
    """Raise it from a handler to be tried again after a time of the handler's choice.

    Args:
        seconds: not before this many seconds; replaces the step's own backoff.
        message: why.
    """

    def __init__(self, seconds: float | dt.timedelta, message: str = "") -> None:
        self.seconds = seconds.total_seconds() if isinstance(seconds, dt.timedelta) else float(seconds)
        super().__init__(message or f"try again after {self.seconds:g} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds, str(self))


class CancelSignal(Protocol):
    """Tells a running handler that its step was taken away; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether the step was taken away."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Pause up to ``timeout`` seconds, less if the step is taken away; returns ``is_set()``."""
        ...


class Cancelled:
    """The signal of one step. Few handlers wait on it: the event for that is made for the first one who does."""

    __slots__ = ("_event", "_is_set")
    _guard: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._guard:
            self._is_set = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        with self._guard:
            if self._is_set:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)


@dataclass(frozen=True, slots=True)
class StepContext:
    """All that a handler gets.

    Attributes:
        step_uuid: the step.
        task_uuid: the task it belongs to.
        namespace: where the task lives.
        task_name: name of the task's template.
        name: name of the step in the task.
        handler: the handler name the step asked for.
        attempt: which attempt this is, from 1.
        max_attempts: how many there may be.
        context: the task's JSON data.
        arguments: the step's JSON data.
        inputs: results of the steps this one depends on, by their names. A big one is loaded when it is first read,
            which blocks; async handlers await ``input_async`` for those.
        correlation_id: carry it into what the handler calls.
        cancelled: set when the step was cancelled, timed out or lost its lease; the result will not be wanted any more.
            Long sync handlers should look at it; async handlers are cancelled besides.
        deadline: when the step's time is over (aware, by this machine's clock), or None. It is a moment before the
            server's, so that partial output can still be saved.
        tool: the tool the step uses, whose circuit breaker may hold it back.
        checkpoint: what an earlier attempt saved, or None.
    """

    step_uuid: UUID
    task_uuid: UUID
    namespace: str
    task_name: str
    name: str
    handler: str
    attempt: int
    max_attempts: int
    context: Any
    arguments: Any
    inputs: dict[str, Any]
    correlation_id: UUID | None
    cancelled: CancelSignal
    deadline: dt.datetime | None
    tool: str = ""
    checkpoint: Any = None
    _keep: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    def save_checkpoint(self, value: Any) -> None:
        """Save partial output: the next attempt finds it in ``checkpoint``, whatever ends this one (seed 002).

        Blocks until it is stored; async handlers await ``save_checkpoint_async``. A context that was made by hand, in
        a test, saves nowhere.

        Args:
            value: JSON data other than None; replaces what was saved before.

        Raises:
            StaleClaim: the step was taken away; stop working on it.
            InvalidValue: not JSON, or None.
        """
        if value is None:
            raise InvalidValue.of("a checkpoint must not be None", [("checkpoint", "None")])
        text = dumps(value, "checkpoint")
        if self._keep is not None:
            self._keep(text)

    async def save_checkpoint_async(self, value: Any) -> None:
        """Do the same as ``save_checkpoint`` without holding up the event loop."""
        await in_thread(self.save_checkpoint, value)

    async def input_async(self, name: str) -> Any:
        """Return one of ``inputs`` without holding up the event loop while a big one is loaded."""
        return await in_thread(self.inputs.__getitem__, name)

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline (negative afterwards), or None without one."""
        if self.deadline is None:
            return None
        return (self.deadline - dt.datetime.now(dt.UTC)).total_seconds()


@dataclass(frozen=True, slots=True)
class Report:
    """One result on its way to ``complete_steps``.

    ``key`` is (step, claim), ``text`` the JSON object, ready to be joined with others, ``result`` the JSON text of a
    success, ``trace`` the trace context of its claim, if there is one.
    """

    key: tuple[UUID, UUID]
    success: bool
    text: str
    seconds: float
    result: str = "null"
    trace: Carrier | None = None


def seconds_allowed(claim: RawClaim) -> float | None:
    """Return how long the handler of a step claimed just now may run.

    The server's timeout counts from the claim and decides. Here time is over a little earlier, a twentieth and at most
    a second, so that what was done so far can still be saved under the claim.
    """
    if claim.timeout is None:
        return None
    seconds = claim.timeout.total_seconds()
    return seconds - min(1.0, seconds / 20)


def context_of(claim: RawClaim, cancelled: CancelSignal, deadline: dt.datetime | None, errands: Errands) -> StepContext:
    """Return the handler's view of a claim. Raises ValueError when its JSON cannot be decoded."""
    key = claim.key
    return StepContext(
        step_uuid=claim.workflow_step_uuid,
        task_uuid=claim.task_uuid,
        namespace=claim.namespace,
        task_name=claim.task_name,
        name=claim.name,
        handler=claim.handler,
        attempt=claim.attempt,
        max_attempts=claim.max_attempts,
        context=_decoded(claim.context),
        arguments=_decoded(claim.arguments),
        inputs=_inputs_of(claim, errands),
        correlation_id=claim.correlation_id,
        cancelled=cancelled,
        deadline=deadline,
        tool=claim.tool,
        checkpoint=None if claim.checkpoint is None else json.loads(claim.checkpoint),
        _keep=lambda text: errands.save_checkpoint(key, text),
    )


def _decoded(text: str | None) -> Any:
    # most have none: the decoder is not even asked
    return {} if text is None or text == "{}" else json.loads(text)


class LoadedInputs(dict[str, Any]):
    """A step's inputs, of which some are loaded when they are first read; otherwise a dict.

    Args:
        values: all inputs, with a reference in place of each big one.
        missing: which are still to be loaded.
        load: returns the result that a reference stands for.
    """

    def __init__(self, values: dict[str, Any], missing: Iterable[str], load: Callable[[Any], Any]) -> None:
        super().__init__(values)
        self._missing = set(missing)
        self._load = load
        self._guard = threading.Lock()

    def __getitem__(self, name: str) -> Any:
        with self._guard:
            if name in self._missing:
                self[name] = self._load(super().__getitem__(name))
                self._missing.discard(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an input, or the default if there is none of that name."""
        try:
            return self[name]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # what copies a dict whose __iter__ is its own asks for its items one by one

    def whole(self) -> dict[str, Any]:
        """Return all of them as a plain dict."""
        return {name: self[name] for name in self}

    def values(self) -> Any:
        """Return all values."""
        return self.whole().values()

    def items(self) -> Any:
        """Return all names and values."""
        return self.whole().items()

    def pop(self, name: str, *default: Any) -> Any:
        """Take one out."""
        if name in self:
            self[name]
        return super().pop(name, *default)

    def copy(self) -> dict[str, Any]:
        """Return all of them as a plain dict."""
        return self.whole()

    def __or__(self, other: Any) -> Any:
        return self.whole() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.whole()

    def __eq__(self, other: object) -> bool:
        return self.whole() == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.whole(),)


def _inputs_of(claim: RawClaim, errands: Errands) -> dict[str, Any]:
    inputs: dict[str, Any] = _decoded(claim.inputs)
    if not claim.payloads:
        return inputs
    return LoadedInputs(
        inputs, claim.payloads, lambda told: errands.load_result(told["payload_uuid"], claim.claim_uuid)
    )


def too_large(report: Report, message: str) -> Report:
    """Return the failure to report in place of what the server refuses for its size."""
    return failure(
        report.key,
        type_name="PayloadTooLarge",
        message=f"{message}. Keep it elsewhere, a file or an object store, and return where it is.",
        category="permanent" if report.success else "unknown",
        seconds=report.seconds,
    )


def run_handler(
    handler: Callable[[StepContext], Any],
    claim: RawClaim,
    cancelled: CancelSignal,
    deadline: dt.datetime | None,
    errands: Errands,
) -> Report:
    """Run a sync handler and return its report, whatever happens in it."""
    if cancelled.is_set():
        return failure(claim.key, type_name="NotStarted", message="its time was over first", category="transient")
    started = time.perf_counter()
    try:
        context = context_of(claim, cancelled, deadline, errands)
    except (ValueError, RecursionError) as error:
        return undecodable(claim, error)
    token = current_step.set(claim)
    try:
        result = handler(context)
    except BaseException as error:
        # SystemExit and the like included: a handler's sys.exit() must not take the worker along.
        return failure_of(claim, error, time.perf_counter() - started)
    finally:
        current_step.reset(token)
    return success_of(claim, result, time.perf_counter() - started)


def success_of(claim: RawClaim, result: Any, seconds: float) -> Report:
    """Return the report of a result; one that is not JSON makes the step fail for good."""
    try:
        text = "null" if result is None else dumps(result, "result")
    except InvalidValue as error:
        return failure(claim.key, type_name=_name_of(error), message=str(error), category="permanent", seconds=seconds)
    except BaseException as error:
        return failure_of(claim, error, seconds)
    return Report(claim.key, True, _object(claim.key, seconds, f'"result":{text}'), seconds, text)


def validated(report: Report, details: dict[str, Any]) -> Report:
    """Return the report with what the acceptance checks said, for lifecycles without a phase for them."""
    return replace(report, text=f'{report.text[:-1]},"validation":{dumps(details, "validation")}}}')


def failure_of(claim: RawClaim, error: BaseException, seconds: float) -> Report:
    """Return the report of an exception that came out of a handler."""
    category, retry_after = _category_of(error)
    # The first frame is this package's own call of the handler.
    first = error.__traceback__.tb_next if error.__traceback__ is not None else None
    trace = "".join(traceback.format_exception(type(error), error, first))
    return failure(
        claim.key,
        type_name=_name_of(error),
        message=str(error) or type(error).__name__,
        category=category,
        retry_after=retry_after,
        trace=trace,
        details=getattr(error, "details", None),
        seconds=seconds,
    )


def undecodable(claim: RawClaim, error: Exception) -> Report:
    """Return the report of a step whose stored JSON Python cannot read."""
    return failure(
        claim.key,
        type_name="UndecodableArguments",
        message=f"the step's stored JSON cannot be decoded by this worker: {error}",
        category="permanent",
    )


def failure(
    key: tuple[UUID, UUID],
    *,
    type_name: str,
    message: str,
    category: str,
    retry_after: float | None = None,
    trace: str | None = None,
    details: Any = None,
    seconds: float = 0.0,
) -> Report:
    """Return the report of a failure; its texts are made storable, so that this never fails itself."""
    error = {"type": printable(type_name, 500), "message": printable(message, _MESSAGE_LIMIT)}
    if trace is not None:
        error["traceback"] = printable(trace, _TRACEBACK_LIMIT)
    told = json.dumps(error)
    if details is not None:
        # An attribute of that name may be anything.
        with contextlib.suppress(Exception):
            told = f'{told[:-1]},"details":{dumps(details, "details")}}}'
    body = f'"success":false,"category":"{category}","error":{told}'
    if retry_after is not None:
        body += f',"retry_after":{min(retry_after, 999_999_999.0):.6f}'
    return Report(key, False, _object(key, seconds, body), seconds)


def _object(key: tuple[UUID, UUID], seconds: float, body: str) -> str:
    return f'{{"step_uuid":"{key[0]}","claim_uuid":"{key[1]}","execution_time_ms":{round(seconds * 1000)},{body}}}'


def _name_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _category_of(error: BaseException) -> tuple[str, float | None]:
    if isinstance(error, RetryAfter):
        return "transient", max(0.0, error.seconds)
    if isinstance(error, TransientError):
        return "transient", None
    if isinstance(error, PermanentError | PayloadTooLarge):
        return "permanent", None
    # Wrapping hides the SQLSTATE (SQLAlchemy does it, application code too): look at what the error was raised from.
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            break
        sqlstate = getattr(cause, "sqlstate", None)
        if isinstance(sqlstate, str) and (sqlstate in _PASSING or sqlstate.startswith("08")):
            return "transient", None
        cause = cause.__cause__
    return "unknown", None
