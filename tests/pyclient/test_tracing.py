"""Spans of client and worker, kept by the SDK's own exporter, and the trace in log and audit rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from pgtasker import AsyncClient, Client, PermanentError, StepContext, Worker
from tests.pyclient.conftest import graph

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = UUID("4bf92f3577b34da6a3ce929d0e0e4736")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """A provider for one test; the API means it to be set once a process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def finished(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def work(database: str, **handlers: Any) -> Worker:
    worker = Worker(database)
    for name, handler in handlers.items():
        worker.step(name)(handler)
    return worker


async def in_the_loop(step: StepContext) -> str:
    return step.name


def in_a_thread(step: StepContext) -> str:
    return step.name


@pytest.mark.parametrize("handler", [in_a_thread, in_the_loop])
def test_one_trace_from_the_caller_to_the_audit_row(
    database: str, conn: psycopg.Connection[Any], spans: InMemorySpanExporter, handler: Any
) -> None:
    with Client(database) as client, trace.get_tracer("caller").start_as_current_span("caller"):
        task = client.create_task_from_graph(graph("a", "b<a", name="flow"))
    work(database, work=handler).run_until_idle(timeout=60)

    found = finished(spans)
    assert {name: len(of) for name, of in found.items()} == {
        "caller": 1, "create flow": 1, "claim work": 2, "work": 2, "report": 2,
    }  # fmt: skip
    (caller,), (create,) = found["caller"], found["create flow"]
    assert parent_of(create) == ids(caller)
    assert create.kind is trace.SpanKind.PRODUCER
    assert attributes(create)["pgtasker.task.uuids"] == (str(task),)
    claims = {ids(span): span for span in found["claim work"]}
    assert {parent_of(span) for span in claims.values()} == {ids(create)}
    for name in ("work", "report"):
        assert {parent_of(span) for span in found[name]} == set(claims), "each goes on from its claim"
    for span in found["work"]:
        claim = claims[parent_of(span)]  # type: ignore[index]
        assert attributes(span) == attributes(claim)
        assert attributes(span)["pgtasker.task.uuid"] == str(task)
        assert claim.start_time is not None and span.end_time is not None and claim.start_time < span.end_time
    assert {attributes(span)["pgtasker.step.name"] for span in found["work"]} == {"a", "b"}
    assert {attributes(span)["pgtasker.success"] for span in found["report"]} == {True}

    # the trace id is the correlation id, so evidence leads to the trace
    trace_uuid = UUID(int=ids(caller)[0])
    rows = conn.execute("select distinct correlation_id from tasker.workflow_step_result_audit").fetchall()
    assert rows == [(trace_uuid,)]
    with Client(database) as client:
        assert len(client.get_audit_by_correlation_id(f"{trace_uuid.int:032x}")) == 2


def test_what_a_handler_creates_belongs_to_its_span(database: str, spans: InMemorySpanExporter) -> None:
    def make(step: StepContext) -> str:
        with Client(database) as inner:
            return str(inner.create_task_from_graph(graph("c", name="child")))

    with Client(database) as client:
        client.create_task_from_graph({"name": "flow", "steps": [{"name": "a", "handler": "make"}]})
    work(database, make=make, work=in_a_thread).run_until_idle(timeout=60)
    found = finished(spans)
    (create,), (handler,) = found["create child"], found["make"]
    assert parent_of(create) == ids(handler)
    assert len({ids(span)[0] for span in spans.get_finished_spans()}) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_failures_are_recorded(database: str, spans: InMemorySpanExporter, is_async: bool) -> None:
    def fails(step: StepContext) -> None:
        raise PermanentError("no such file")

    async def fails_too(step: StepContext) -> None:
        raise PermanentError("no such file")

    with Client(database) as client:
        client.create_task_from_graph(graph("a"))
    work(database, work=fails_too if is_async else fails).run_until_idle(timeout=60)
    (handler,) = finished(spans)["work"]
    assert handler.status.status_code is trace.StatusCode.ERROR
    assert "no such file" in attributes(handler.events[0])["exception.message"]  # type: ignore[arg-type]
    (report,) = finished(spans)["report"]
    assert attributes(report)["pgtasker.success"] is False


def test_a_call_that_is_refused_is_recorded(database: str, spans: InMemorySpanExporter) -> None:
    with Client(database) as client, pytest.raises(Exception, match="no template"):
        client.create_task("nothing")
    (create,) = finished(spans)["create nothing"]
    assert create.status.status_code is trace.StatusCode.ERROR


async def test_many_at_once_and_by_the_async_client(
    database: str, conn: psycopg.Connection[Any], spans: InMemorySpanExporter
) -> None:
    async with AsyncClient(database) as client:
        await client.register_template({"name": "flow", "version": "1", "steps": [{"name": "a", "handler": "work"}]})
        tasks = await client.create_tasks([{"name": "flow"}, {"name": "flow", "tags": {"order": "7"}}])
        await client.create_task("flow", tags={"order": "8"})
    (create,) = finished(spans)["create tasks"]
    assert attributes(create)["pgtasker.task.uuids"] == tuple(str(task) for task in tasks)
    tags = [row[0] for row in conn.execute("select tags from tasker.tasks order by task_uuid")]
    assert [sorted(one) for one in tags] == [["traceparent"], ["order", "traceparent"], ["order", "traceparent"]]
    assert len({one["traceparent"].split("-")[1] for one in tags}) == 2


def test_what_the_caller_says_stays(database: str, conn: psycopg.Connection[Any], spans: InMemorySpanExporter) -> None:
    """A correlation id of one's own, a trace context of one's own."""
    mine = UUID("01890000-0000-7000-8000-0000000000c0")
    with Client(database) as client:
        client.create_task_from_graph(graph("a"), correlation_id=mine)
        client.create_task_from_graph(graph("a"), tags={"traceparent": PARENT})
    assert [row[0] for row in conn.execute("select correlation_id from tasker.tasks order by task_uuid")] == [
        mine,
        TRACE,
    ]
    work(database, work=in_a_thread).run_until_idle(timeout=60)
    assert (TRACE.int, int("00f067aa0ba902b7", 16)) in {parent_of(span) for span in finished(spans)["claim work"]}


def test_the_same_request_in_another_trace_is_the_same(database: str, spans: InMemorySpanExporter) -> None:
    with Client(database) as client:
        client.register_template({"name": "flow", "version": "1", "steps": [{"name": "a", "handler": "work"}]})
        keys = [client.create_task("flow", idempotency_key="k") for _ in range(2)]
        keys += [client.create_task("flow", request_id="r") for _ in range(2)]
        keys += [client.create_task_from_graph(graph("a"), request_id="g", idempotency_key="g") for _ in range(2)]
        keys += [client.create_tasks([{"name": "flow", "idempotency_key": "m"}])[0] for _ in range(2)]
    assert [keys[n] == keys[n + 1] for n in range(0, 8, 2)] == [True] * 4
    assert len(set(keys)) == 4


def test_handlers_in_processes_of_their_own_are_claimed_and_reported(
    database: str, spans: InMemorySpanExporter
) -> None:
    """Their own spans are made by the provider of that process, where there is none here."""
    with Client(database) as client:
        task = client.create_task_from_graph(graph("a"))
        worker = Worker(database, executor="process", concurrency=1)
        worker.step("work")(in_a_thread)
        worker.run_until_idle(timeout=60)
        assert client.task(task).phase == "succeeded"
    assert {name: len(of) for name, of in finished(spans).items()} == {"create graph": 1, "claim work": 1, "report": 1}


def test_without_a_provider_nothing_is_made(database: str, conn: psycopg.Connection[Any]) -> None:
    with Client(database) as client:
        client.create_task_from_graph(graph("a"))
    assert conn.execute("select tags from tasker.tasks").fetchone() == ({},)


def test_the_package_does_not_need_it(tmp_path: Path) -> None:
    """As in an environment without the API."""
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('not here')\n")
    program = "import pgtasker.worker, pgtasker._tracing as t; print(t.is_on(), t.current_ids())"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "False {}\n"


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"traceparent": PARENT}, TRACE),
        ({"traceparent": PARENT + "-what-later-versions-add"}, TRACE),
        ({"traceparent": PARENT.upper()}, None),
        ({"traceparent": PARENT.replace(TRACE.hex, "0" * 32)}, None),
        ({"traceparent": PARENT[:-4]}, None),
        ({"traceparent": 7}, None),
        ({"traceparent": {"x": 1}}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_trace_id_is_read_by_the_database(conn: psycopg.Connection[Any], tags: Any, found: UUID | None) -> None:
    """So that a caller in any language only has to hand the header on."""
    from psycopg.types.json import Jsonb

    assert conn.execute("select tasker.trace_uuid(%s)", (Jsonb(tags),)).fetchone() == (found,)
