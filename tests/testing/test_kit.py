"""pgtasker.testing: what our own tests stand on, and what users' tests get."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine, text

from pgtasker import PermanentError, RetryAfter, StepContext, Worker
from pgtasker.testing import Databases, Workbench, template_name
from tests.conftest import ROOT, TestServer
from tests.docs.documents import fences
from tests.workflow.engine import graph, step

DOCUMENT = ROOT / "docs" / "testing.md"
EXAMPLE = ROOT / "examples" / "testing"


@pytest.fixture
def bench(database: str) -> Iterator[Workbench]:
    made = Workbench(database)
    yield made
    made.close()


def test_the_example_runs_and_is_the_one_in_the_document(bare_server: TestServer) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE],
        env={**os.environ, "PGTASKER_TEST_DSN": bare_server.server.uri()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.search(r"^2 passed", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr
    files = "".join(path.read_text("utf-8") for path in sorted(EXAMPLE.glob("*.py")))
    shown = [fence.body for fence in fences(DOCUMENT) if fence.language == "python"]
    assert shown
    assert all(body in files for body in shown)


def test_the_template_is_made_once_by_one_of_several(bare_server: TestServer) -> None:
    databases = Databases(bare_server.server.uri())
    bare_server.admin.execute(f"drop database if exists {template_name()} with (force)".encode())
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: databases.template(), range(4))) == {template_name()}
    count = "select count(*) from pg_database where datname like 'pgtasker_template%'"
    assert bare_server.admin.execute(count).fetchone() == (1,)


def test_what_a_killed_run_left_half_made_is_made_anew(bare_server: TestServer) -> None:
    name = template_name()
    bare_server.admin.execute(f"drop database if exists {name} with (force)".encode())
    bare_server.admin.execute(f"create database {name}_making".encode())
    with Databases(bare_server.server.uri()).fresh() as dsn, psycopg.connect(dsn) as conn:
        assert conn.execute("select count(*) from tasker.tasks").fetchone() == (0,)


def test_databases_are_apart_and_gone_afterwards(server: TestServer) -> None:
    databases = Databases(server.server.uri())
    with databases.fresh() as one, databases.fresh() as other:
        with psycopg.connect(one, autocommit=True) as conn:
            conn.execute("select tasker.ensure_namespace('mine')")
        left_open = psycopg.connect(other)
        assert left_open.execute("select from tasker.task_namespaces where namespace = 'mine'").fetchone() is None
    for dsn in (one, other):
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(dsn)
    left_open.close()


@pytest.mark.parametrize("spelled", [lambda uri: uri, lambda uri: make_conninfo(uri)])
def test_a_database_is_named_by_a_uri_however_the_server_is(server: TestServer, spelled: Callable[[str], str]) -> None:
    """SQLAlchemy reads nothing else."""
    with Databases(spelled(server.server.uri())).fresh() as dsn:
        engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            assert connection.execute(text("select count(*) from tasker.tasks")).scalar_one() == 0
        engine.dispose()


def test_drain_stands_in_for_workers(bench: Workbench) -> None:
    seen: list[Any] = []

    def add(claimed: Any) -> int:
        seen.append(claimed.inputs)
        return sum(claimed.inputs.values())

    def again(claimed: Any) -> str:
        if claimed.attempt == 1:
            raise RetryAfter(0, "not yet")
        return "now"

    flow = graph(
        step("one", handler="number"), step("two", handler="number"), step("sum", "one", "two", handler="add"),
        step("late", handler="again"), step("other", "sum", requires=["press"]),
    )  # fmt: skip
    task = bench.client.create_task_from_graph(flow)
    assert bench.drain({"number": 1, "two": 2, "add": add, "again": again}) == 5
    assert (seen, bench.states(task)["other"]) == ([{"one": 1, "two": 2}], "enqueued")
    assert {one.name: one.result for one in bench.client.steps(task)}["late"] == "now"
    assert bench.drain(capabilities=["press"]) == 1
    assert bench.client.task(task).phase == "succeeded"
    bench.assert_consistent()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (PermanentError("no"), "error"),
        (ValueError("maybe later"), "waiting_for_retry"),
        (RetryAfter(3600, "in an hour"), "waiting_for_retry"),
    ],
)
def test_drain_fails_as_told(bench: Workbench, outcome: Exception, state: str) -> None:
    task = bench.client.create_task_from_graph(graph({"name": "a", "retry": {"base_delay": 60, "jitter": 0}}))
    bench.drain({"a": outcome})
    (failed,) = bench.client.steps(task)
    assert (failed.state, failed.last_error) == (state, {"type": type(outcome).__name__, "message": str(outcome)})


def test_the_clock_is_moved_and_evidence_is_not(bench: Workbench) -> None:
    task = bench.client.create_task_from_graph(
        graph({"name": "a", "retry": {"base_delay": 1000, "max_delay": 1000, "jitter": 0}})
    )
    bench.drain({"a": ValueError("it broke")})
    assert bench.drain() == 0
    assert bench.advance(999).timers_fired == 0
    assert bench.advance(dt.timedelta(seconds=2)).timers_fired == 1, "each goes on from where the clock stands"
    assert bench.drain() == 1
    assert bench.client.task(task).phase == "succeeded"
    assert bench.connection.execute(
        "select max(created_at) < clock_timestamp() from tasker.workflow_step_transitions"
    ).fetchone() == (True,)


def test_a_real_worker_on_the_bench(bench: Workbench) -> None:
    worker = Worker()

    @worker.step("work")
    def work(context: StepContext) -> str:
        return context.name

    task = bench.client.create_task_from_graph(graph(step("a", handler="work"), step("b", "a", handler="work")))
    assert bench.run_until_idle(worker).succeeded == 2
    assert bench.client.task(task).phase == "succeeded"


@pytest.fixture
def failed_once(bench: Workbench) -> tuple[UUID, UUID]:
    task = bench.client.create_task_from_graph(graph(step("a")))
    attempts = iter([ValueError("it broke"), None])
    bench.drain({"a": lambda _: _raise(next(attempts))})
    return task, bench.client.steps(task)[0].workflow_step_uuid


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def test_transitions_that_were_made(bench: Workbench, failed_once: tuple[UUID, UUID]) -> None:
    task, step_uuid = failed_once
    bench.assert_transition(task, None, "pending", event="create")
    bench.assert_transition(step_uuid, "enqueued", "in_progress", times=2)
    bench.assert_transition(step_uuid, "in_progress", "error", times=0)
    bench.assert_transition(str(step_uuid), "enqueued_for_orchestration", "complete", event="complete")


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (lambda bench, uuid: bench.assert_transition(uuid, "enqueued", "in_progress"), r"--\*--> in_progress was made 2 times, not 1"),
        (lambda bench, uuid: bench.assert_transition(uuid, "in_progress", "cancelled"), "was made 0 times, not 1"),
        (lambda bench, uuid: bench.assert_transition(uuid, "pending", "enqueued", event="start"), "--start--> enqueued was made 0"),
        (lambda bench, uuid: bench.assert_transition(UUID(int=0), "pending", "enqueued"), "nowhere"),
    ],
)  # fmt: skip
def test_transitions_that_were_not(
    bench: Workbench, failed_once: tuple[UUID, UUID], claim: Callable[[Workbench, UUID], None], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        claim(bench, failed_once[1])


def test_damage_is_told(bench: Workbench) -> None:
    bench.client.create_task_from_graph(graph(step("a")))
    bench.assert_consistent()
    bench.connection.execute("update tasker.tasks set pending_steps = 1, total_steps = 2")
    with pytest.raises(AssertionError, match="progress_counters_differ"):
        bench.assert_consistent()
