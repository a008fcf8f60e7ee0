"""What a failure means for the rest: stop, block or continue; and what cancelling does to children and running work."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, step
from tests.workflow.fixtures import OpenEngine

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


def fails(**fields: Any) -> dict[str, Any]:
    return step("fails", max_attempts=1, **fields)


@pytest.mark.parametrize(
    ("vocabulary", "ended"), [("tasker", "blocked_by_failures"), ("orchestration", "failed"), ("supervision", "FAILED")]
)
def test_a_critical_failure_stops_the_whole(engine: Engine, vocabulary: str, ended: str) -> None:
    """Seed 000: critical task failure causes workstream failure. Nothing new starts."""
    task = engine.create(graph(fails(on_failure="stop"), step("other"), step("after", "other"), vocabulary=vocabulary))
    held = engine.claim_by_name()
    engine.fail([held["fails"]])
    engine.settle()
    engine.complete([held["other"]])
    engine.settle()
    assert engine.claim() == [], "nothing new starts"
    assert engine.state(task) == ended
    engine.check()


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "supervision"])
def test_an_optional_failure_lets_its_dependents_go_on(engine: Engine, vocabulary: str) -> None:
    task = engine.create(graph(fails(on_failure="continue"), step("after", "fails"), vocabulary=vocabulary))
    engine.fail(engine.claim())
    engine.settle()
    (after,) = engine.claim()
    assert after["name"] == "after"
    engine.complete([after])
    engine.settle()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_failure_blocks_what_depends_on_it_and_nothing_else(engine: Engine) -> None:
    task = engine.create(graph(fails(), step("after", "fails"), step("other"), step("later", "other")))
    engine.drain(lambda claimed: {"success": False} if claimed["name"] == "fails" else {"result": 1})
    assert engine.states(task) == {"fails": "error", "after": "pending", "other": "complete", "later": "complete"}
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_an_optional_step_that_is_retried_holds_its_dependents_until_then(engine: Engine, vocabulary: str) -> None:
    """It failed, but not for good: its dependents wait, and are counted once."""
    engine.worker(p_heartbeat_interval="1 hour")
    flow = graph(
        step("optional", on_failure="continue", max_attempts=2, retry={"base_delay": 10, "jitter": 0}),
        step("after", "optional"),
        vocabulary=vocabulary,
    )
    task = engine.create(flow)
    engine.fail(engine.claim())
    engine.settle()
    assert engine.claim() == []
    engine.check()
    engine.shift_clock("11 s")
    engine.settle()
    again = engine.claim()
    assert [claimed["name"] for claimed in again] == ["optional"]
    engine.complete(again)
    engine.settle()
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_an_optional_failure_may_be_retried_later(engine: Engine) -> None:
    """By hand, before its dependents ran: they wait for it again."""
    task = engine.create(graph(fails(on_failure="continue"), step("after", "fails"), step("hold")))
    held = engine.claim_by_name()
    engine.fail([held["fails"]])
    engine.settle()
    engine.call("retry_step", p_step_uuid=held["fails"]["workflow_step_uuid"], **BY)
    engine.settle()
    engine.check()
    engine.complete([held["hold"]])
    engine.settle()
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_a_failed_dependency_skips_what_follows(engine: Engine) -> None:
    """Seed 002: PENDING -> SKIPPED, dependency failed; and so on down the line."""
    task = engine.create(graph(fails(), step("b", "fails"), step("c", "b"), step("other"), vocabulary="execution"))
    engine.drain(
        lambda claimed: {"success": False, "category": "permanent"} if claimed["name"] == "fails" else {"result": 1}
    )
    states = engine.states(task)
    assert (states["b"], states["c"]) == ("SKIPPED", "SKIPPED")
    engine.check()


# -- cancelling ------------------------------------------------------------------------------------------------------


def taken_away(listener: Engine) -> set[UUID]:
    """The steps that the notices so far say are taken away."""
    told = [json.loads(notice.payload) for notice in listener.connection.notifies(timeout=1)]
    events = [event for batch in told if isinstance(batch, list) for event in batch]
    return {UUID(event["uuid"]) for event in events if event["kind"] == "step_taken_away"}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_cancel_reaches_children_and_running_work_is_told(
    engine: Engine, open_engine: OpenEngine, vocabulary: str
) -> None:
    listener = open_engine()
    listener.rows("listen tasker_worker_state")
    parent = engine.create(graph(step("a"), vocabulary=vocabulary))
    child = engine.create(graph(step("b"), vocabulary=vocabulary), p_parent_task_uuid=parent)
    grandchild = engine.create(graph(step("c"), vocabulary=vocabulary), p_parent_task_uuid=child)
    held = engine.claim()
    assert len(held) == 3
    engine.call("cancel_task", p_task_uuid=parent, **BY)
    assert {engine.task(task)["phase"] for task in (parent, child, grandchild)} == {"cancelled"}
    assert engine.table("held_claims", p_worker_uuid=engine.worker()) == [], "a worker that asks is told too"
    assert {row["code"] for row in engine.complete(held)} == {"TK412"}
    assert taken_away(listener) == {claimed["workflow_step_uuid"] for claimed in held}
    reasons = engine.column(
        "select metadata ->> 'reason' from tasker.task_transitions where task_uuid = %s and most_recent", child
    )
    assert str(parent) in reasons[0]
    engine.settle()
    engine.shift_clock("1 hour")
    engine.settle()
    assert engine.claim(worker=engine.call("register_worker", p_name="late")) == [], (
        "nothing of it is worked on any more"
    )
    assert engine.table("recover") == []
    engine.check()


@pytest.mark.parametrize(
    ("function", "vocabulary"),
    [
        ("cancel_step", "tasker"),
        ("resolve_step", "tasker"),
        ("cancel_step", "orchestration"),
    ],
)
def test_whoever_holds_a_step_is_told_at_once_that_it_is_taken_away(
    engine: Engine, open_engine: OpenEngine, function: str, vocabulary: str
) -> None:
    """Not at its next heartbeat. A step that nobody holds is taken from nobody."""
    listener = open_engine()
    listener.rows("listen tasker_worker_state")
    task = engine.create(graph(step("a"), step("b"), vocabulary=vocabulary))
    (held,) = engine.claim(limit=1)
    for name in ("a", "b"):
        engine.call(function, p_step_uuid=engine.steps(task)[name]["workflow_step_uuid"], **BY)
    assert taken_away(listener) == {held["workflow_step_uuid"]}
    assert engine.complete([held])[0]["code"] == "TK412"
    engine.check()


def test_a_finished_child_stays_finished(engine: Engine) -> None:
    parent = engine.create(graph(step("a")))
    child = engine.create(graph(step("b")), p_parent_task_uuid=parent)
    engine.complete([engine.claim_by_name()["b"]])
    engine.settle()
    assert engine.state(child) == "complete"
    engine.call("cancel_task", p_task_uuid=parent, **BY)
    assert engine.state(child) == "complete"


@pytest.mark.parametrize("function", ["retry_step", "reset_step", "resolve_step"])
def test_nothing_of_a_cancelled_task_is_resumed(engine: Engine, function: str) -> None:
    task = engine.create(graph(step("a"), step("b", "a")))
    engine.call("cancel_task", p_task_uuid=task, **BY)
    for row in engine.steps(task).values():
        with pytest.raises(psycopg.Error) as refused:
            engine.call(function, p_step_uuid=row["workflow_step_uuid"], **BY)
        assert refused.value.sqlstate == "TK409"
    for command in ("reset_task", "resolve_task", "give_up_task", "cancel_task"):
        with pytest.raises(psycopg.Error) as refused:
            engine.call(command, p_task_uuid=task, **BY)
        assert refused.value.sqlstate == "TK409"
    assert engine.state(task) == "cancelled"
    engine.check()


def test_what_a_cancelled_step_saved_is_kept(engine: Engine) -> None:
    """Seed 002: partial state saved."""
    task = engine.create(graph(step("a")))
    (held,) = engine.claim()
    engine.call(
        "save_checkpoint",
        p_step_uuid=held["workflow_step_uuid"],
        p_claim_uuid=held["claim_uuid"],
        p_checkpoint={"at": 7},
    )
    engine.call("cancel_task", p_task_uuid=task, **BY)
    assert engine.one("select checkpoint from tasker.step_checkpoints") == {"at": 7}
