"""Spans for OpenTelemetry: where its API is installed (``pgtasker[otel]``) and a provider is set up; else nothing.

A task keeps the W3C trace context of the span that created it among its tags. The database takes the trace id for its
correlation id, so log rows and audit rows lead to the trace and back; workers read the tags and go on from there:
``create`` > ``claim`` > the handler, and ``report``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    _propagator = None
else:
    _propagator = TraceContextTextMapPropagator()

if TYPE_CHECKING:
    from ._rows import StepOutcome
    from ._statements import RawClaim
    from ._steps import Report, StepContext

    Handler = Callable[[StepContext], Any]

Carrier = dict[str, str]
"""A trace context as text: ``traceparent`` and, where there is one, ``tracestate``."""


def is_on() -> bool:
    """Whether anybody looks at spans: the API is here and a provider was set."""
    return _propagator is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider
    )


def _tracer() -> trace.Tracer:
    from . import __version__

    return trace.get_tracer("pgtasker", __version__)


def _inject(span: trace.Span) -> Carrier:
    carrier: Carrier = {}
    if _propagator is not None:
        _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier


def _extract(carrier: Carrier) -> Context:
    return Context() if _propagator is None else _propagator.extract(carrier, Context())


def current_ids() -> dict[str, str]:
    """The trace and span ids of the span that is current here, as the log wants them; empty without one."""
    if _propagator is None:
        return {}
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(span.trace_id), "span_id": trace.format_span_id(span.span_id)}


# -- creating ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Creation:
    """A call that creates tasks, and its span if there is one."""

    span: trace.Span | None = None

    def tags(self, given: Any) -> Any:
        """A task's tags with the trace context among them; one that was given stays."""
        if self.span is None or not isinstance(given, Mapping | None):
            return given
        return {**_inject(self.span), **(given or {})}

    def request(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same for a request of ``create_tasks``."""
        return given if self.span is None else {**given, "tags": self.tags(given.get("tags"))}

    def created(self, *task_uuids: UUID) -> None:
        """Take note of what was created."""
        if self.span is not None:
            self.span.set_attribute("pgtasker.task.uuids", [str(uuid) for uuid in task_uuids])


@contextlib.contextmanager
def creating(name: str, namespace: str | None) -> Iterator[Creation]:
    """A span around a call that creates tasks; what fails is recorded in it."""
    if not is_on():
        yield Creation()
        return
    attributes = {"pgtasker.task.name": name, "pgtasker.namespace": namespace or "default"}
    with _tracer().start_as_current_span(f"create {name}", kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        yield Creation(span)


# -- working -----------------------------------------------------------------------------------------------------------


def _attributes(claim: RawClaim) -> dict[str, str | int]:
    return {
        "pgtasker.namespace": claim.namespace,
        "pgtasker.task.name": claim.task_name,
        "pgtasker.task.uuid": str(claim.task_uuid),
        "pgtasker.step.name": claim.name,
        "pgtasker.step.uuid": str(claim.workflow_step_uuid),
        "pgtasker.step.attempt": claim.attempt,
    }


def claimed(claim: RawClaim, parent: Carrier, began: int) -> Carrier:
    """Make the span of a claim and return its context, from which what becomes of the step goes on.

    Args:
        claim: the step.
        parent: the trace context of its task; empty for a task that was created without one.
        began: when the claim was asked for, in nanoseconds since 1970.
    """
    span = _tracer().start_span(
        f"claim {claim.handler}", _extract(parent), trace.SpanKind.CLIENT, _attributes(claim), start_time=began
    )
    span.end()
    return _inject(span)


@contextlib.contextmanager
def handling(claim: RawClaim, carrier: Carrier) -> Iterator[None]:
    """A span around a handler, current while it runs, so that what the handler calls belongs to it."""
    with _tracer().start_as_current_span(claim.handler, _extract(carrier), trace.SpanKind.CONSUMER, _attributes(claim)):
        yield


@dataclass(frozen=True, slots=True)
class Traced:
    """A sync handler with its span; made in the thread or the process that runs the handler."""

    handler: Handler
    claim: RawClaim
    carrier: Carrier

    def __call__(self, context: StepContext) -> Any:
        """Run the handler."""
        with handling(self.claim, self.carrier):
            return self.handler(context)


def reported(reports: Sequence[Report], outcomes: Sequence[StepOutcome], began: int) -> None:
    """Make the spans of reports that were answered."""
    for report, outcome in zip(reports, outcomes, strict=True):
        if report.trace is None:
            continue
        span = _tracer().start_span("report", _extract(report.trace), trace.SpanKind.CLIENT, start_time=began)
        span.set_attributes({"pgtasker.step.uuid": str(report.key[0]), "pgtasker.success": report.success})
        if outcome.code is not None:
            span.set_attribute("pgtasker.code", outcome.code)
            span.set_status(trace.StatusCode.ERROR, outcome.message)
        elif outcome.state is not None:
            span.set_attribute("pgtasker.state", outcome.state)
        span.end()
