"""When and in what order work starts: start times, delays, priorities, paused namespaces."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, step, wait_until
from tests.workflow.fixtures import OpenEngine

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


def soon(engine: Engine, seconds: int = 60) -> dt.datetime:
    return engine.one("select tasker.clock() + make_interval(secs => %s)", seconds)  # type: ignore[no-any-return]


def refusal(engine: Engine, function: str, **arguments: Any) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as caught:
        engine.call(function, **arguments)
    assert json.loads(caught.value.diag.message_detail or "")
    return caught.value.sqlstate, caught.value.diag.message_primary or ""


# -- start_at


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_task_starts_when_its_time_has_come(engine: Engine, vocabulary: str) -> None:
    at = soon(engine)
    task = engine.create(graph(step("a"), vocabulary=vocabulary), p_start_at=at)
    assert engine.task(task)["phase"] == "pending" and engine.task(task)["started_at"] is None
    assert "starts at" in engine.call("explain_task", p_task_uuid=task)["summary"]
    assert engine.tick()["next_due_at"] == at
    assert engine.claim() == []
    engine.shift_clock("61 s")
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
    assert engine.tick()["next_due_at"] is None
    engine.check()


def test_by_template_in_bulk_and_in_the_past(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    late, now = soon(engine), soon(engine, -60)
    tasks = engine.column(
        "select tasker.create_tasks(%s)",
        json.dumps([{"name": "flow", "start_at": at.isoformat()} for at in (late, now)]),
    )
    tasks.append(engine.call("create_task", p_name="flow", p_start_at=late))
    assert [engine.task(task)["started_at"] is None for task in tasks] == [True, False, True]
    engine.shift_clock("2 minutes")
    assert engine.drain() == 3
    assert {engine.state(task) for task in tasks} == {"complete"}


def test_it_can_be_started_before_or_cancelled_and_is_not_started_twice(engine: Engine) -> None:
    first, second = (engine.create(graph(step("a")), p_start_at=soon(engine)) for _ in range(2))
    engine.call("transition_task", p_task_uuid=first, p_event="start")
    engine.call("cancel_task", p_task_uuid=second, **BY)
    engine.drain()
    engine.shift_clock("2 minutes")
    engine.settle()
    assert (engine.state(first), engine.state(second)) == ("complete", "cancelled")
    assert engine.walk(first).count("initializing") == 1
    engine.check()


def test_the_time_of_a_task_counts_from_its_start(engine: Engine) -> None:
    task = engine.create(graph(step("a"), timeout_seconds=30), p_start_at=soon(engine))
    engine.shift_clock("61 s")
    engine.settle()
    assert not engine.task(task)["is_terminal"]
    engine.shift_clock("2 minutes")
    engine.settle()
    assert engine.state(task) == "error"


def test_a_start_whose_timer_was_lost_is_found(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_start_at=soon(engine))
    engine.rows("delete from tasker.timers")
    assert engine.table("recover") == []
    engine.shift_clock("2 minutes")
    (found,) = engine.table("recover", p_dry_run=False, **BY)
    assert (found["entity_uuid"], found["done"]) == (task, True)
    assert engine.drain() == 1


def test_the_same_key_with_another_start_is_another_request(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    at = soon(engine)
    task = engine.call("create_task", p_name="flow", p_idempotency_key="k", p_start_at=at)
    assert engine.call("create_task", p_name="flow", p_idempotency_key="k", p_start_at=at) == task
    assert refusal(engine, "create_task", p_name="flow", p_idempotency_key="k")[0] == "TK423"


@pytest.mark.parametrize(
    "start_at", ["soon", "2026-02-30T10:00:00Z", "2026-03-01T10:00:00", "2026-03-01", "", 5, "2926-03-01T10:00:00Z"]
)
def test_a_start_that_is_no_time_is_refused(engine: Engine, start_at: Any) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    with pytest.raises(psycopg.Error) as caught:
        engine.rows("select tasker.create_tasks(%s)", json.dumps([{"name": "flow", "start_at": start_at}]))
    assert caught.value.sqlstate == "TK400" and "start_at" in (caught.value.diag.message_primary or "")
    assert refusal(engine, "create_task", p_name="flow", p_start_at=soon(engine), p_start=False)[0] == "TK400"


# -- delay


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "execution"])
def test_a_step_waits_its_delay_once_what_it_depends_on_is_done(engine: Engine, vocabulary: str) -> None:
    task = engine.create(graph(step("a", delay_seconds=30), step("b", "a", delay_seconds=3600), vocabulary=vocabulary))
    assert engine.claim() == []
    (reason,) = [why for why in engine.call("explain_task", p_task_uuid=task)["reasons"] if why["step"] == "a"]
    assert "waits until" in reason["why"]
    engine.check()
    engine.shift_clock("31 s")
    assert engine.drain() == 1
    assert engine.table("recover") == []
    engine.shift_clock("40 minutes")
    assert engine.drain() == 0
    engine.shift_clock("62 minutes")
    assert engine.drain() == 1
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_delay_is_waited_for_once_and_not_before_each_attempt(engine: Engine) -> None:
    engine.create(graph(step("a", delay_seconds=60, max_attempts=3)))
    engine.shift_clock("61 s")
    engine.settle()
    engine.fail(engine.claim())
    engine.settle()
    (again,) = engine.claim()
    assert again["attempt"] == 2


def test_what_is_cancelled_while_it_waits_is_not_queued(engine: Engine) -> None:
    task = engine.create(graph(step("a", delay_seconds=60), step("b")))
    engine.call("cancel_task", p_task_uuid=task, **BY)
    engine.shift_clock("2 minutes")
    assert engine.drain() == 0
    engine.check()


@pytest.mark.parametrize("delay", [-1, "soon", 31536001])
def test_a_delay_that_is_none_is_refused(engine: Engine, delay: Any) -> None:
    assert refusal(engine, "create_task_from_graph", p_graph=graph(step("a", delay_seconds=delay)))[0] == "TK400"


# -- priority


def waiting(engine: Engine, **priorities: int) -> dict[UUID, str]:
    """One task of one step for each name, created in this order."""
    return {engine.create(graph(step("a")), p_priority=priority): name for name, priority in priorities.items()}


def test_the_urgent_ones_are_claimed_first(engine: Engine) -> None:
    """Nine claims in ten go by priority; the tenth looks at none."""
    order: Counter[str] = Counter()
    for _ in range(40):
        tasks = waiting(engine, low=-5, normal=0, high=3, highest=9)
        order["".join(tasks[claimed["task_uuid"]][:4] for _ in range(4) for claimed in engine.claim(1))] += 1
    assert order.most_common(1)[0][0] == "highhighnormlow"
    # by chance alone the usual order would come twice in forty rounds
    assert order.most_common(1)[0][1] >= 15
    assert engine.one("select count(*) from tasker.work_queues") == 3


def test_nothing_starves_behind_what_is_urgent(engine: Engine) -> None:
    """There is always something urgent, and what is not gets its share."""
    (low,) = waiting(engine, low=-9)
    claimed: list[UUID] = []

    def served() -> bool:
        waiting(engine, high=9)
        claimed.extend(row["task_uuid"] for row in engine.claim(1))
        return low in claimed

    wait_until(served, "a turn for the step of low priority")


def test_priorities_beyond_the_limits_count_as_the_limits(engine: Engine) -> None:
    waiting(engine, a=2_000_000_000, b=9, c=-2_000_000_000, d=-9)
    assert sorted(engine.column("select priority from tasker.work_queues")) == [-9, 9]
    assert engine.drain() == 4
    engine.check()


def test_priority_and_capabilities_go_together(engine: Engine) -> None:
    tasks = {engine.create(graph(step("a", requires=["gpu"])), p_priority=priority): priority for priority in (0, 5)}
    assert engine.claim() == [], "no worker without it"
    worker = engine.worker("able", p_capabilities=["gpu"])
    assert {tasks[claimed["task_uuid"]] for claimed in engine.claim(worker=worker)} == {0, 5}
    (queue,) = engine.rows("select * from tasker.metrics_queues where priority = 5")
    assert (queue["requires"], queue["depth"]) == (["gpu"], 0)


# -- pausing a namespace


def test_a_paused_namespace_hands_out_nothing_and_goes_on_with_what_runs(
    engine: Engine, open_engine: OpenEngine
) -> None:
    running = engine.create(graph(step("a"), step("b", "a")))
    claims = engine.claim()
    for _ in range(2):
        engine.call("pause_namespace", p_namespace="default", **BY)
    other = engine.create(graph(step("a")), p_priority=2)
    engine.complete(claims)
    engine.settle()
    assert engine.claim() == []
    assert "paused" in engine.call("explain_task", p_task_uuid=running)["reasons"][0]["why"]
    listener = open_engine()
    listener.rows("listen tasker_work")
    engine.call("resume_namespace", p_namespace="default", **BY)
    assert [note.payload for note in listener.connection.notifies(timeout=10, stop_after=1)] == ["default"]
    engine.drain()
    assert {engine.state(task) for task in (running, other)} == {"complete"}
    events = engine.rows(
        "select event, requested_by, reason from tasker.audit_events where event in ('namespace_paused', 'namespace_resumed')"
        " order by created_at"
    )
    assert [tuple(event.values()) for event in events] == [
        ("namespace_paused", "ada", "a test"), ("namespace_paused", "ada", "a test"), ("namespace_resumed", "ada", "a test"),
    ]  # fmt: skip
    engine.check()


def test_only_what_is_there_is_paused_with_a_reason(engine: Engine) -> None:
    for command in ("pause_namespace", "resume_namespace"):
        assert refusal(engine, command, p_namespace="none", **BY)[0] == "TK404"
        assert refusal(engine, command, p_namespace="default", p_reason="", p_requested_by="ada")[0] == "TK400"
        for _ in range(2):
            engine.call("ensure_namespace", p_namespace="default")
            engine.call(command, p_namespace="default", p_request_id=command, **BY)
    assert (
        engine.one("select count(*) from tasker.audit_events where event in ('namespace_paused', 'namespace_resumed')")
        == 2
    )


def test_a_critical_step_that_failed_before_the_start_blocks_the_task(engine: Engine) -> None:
    task = engine.create(graph(step("a", on_failure="stop"), step("b")), p_start=False)
    engine.call("transition_step", p_step_uuid=engine.steps(task)["a"]["workflow_step_uuid"], p_event="fail")
    engine.call("transition_task", p_task_uuid=task, p_event="start")
    engine.settle()
    assert engine.state(task) == "blocked_by_failures"
    engine.check()
