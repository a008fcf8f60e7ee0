"""Seed 002: a CANCELLED task can resume from its checkpoints. The old one stays as it ended; a new one does the rest."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, step
from tests.workflow.fixtures import OpenEngine

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution"]


def half_done(engine: Engine, vocabulary: str = "tasker") -> UUID:
    """a is done, b saved a checkpoint and was running when the task was cancelled, c and d wait."""
    task = engine.create(
        graph(step("a"), step("b", "a"), step("c", "a", "b"), step("d", "c"), vocabulary=vocabulary),
        p_context={"n": 1},
    )
    engine.complete(engine.claim(), {"rows": 7})
    engine.settle()
    (b,) = engine.claim()
    engine.call(
        "save_checkpoint", p_step_uuid=b["workflow_step_uuid"], p_claim_uuid=b["claim_uuid"], p_checkpoint={"at": 3}
    )
    engine.call("cancel_task", p_task_uuid=task, **BY)
    return task


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_rest_is_done_from_results_and_checkpoints(engine: Engine, vocabulary: str) -> None:
    task = half_done(engine, vocabulary)
    before = engine.rows("select * from tasker.workflow_step_transitions where task_uuid = %s order by 1", task)
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    seen: dict[str, Any] = {}

    def handler(claimed: dict[str, Any]) -> dict[str, Any]:
        seen[claimed["name"]] = (claimed["inputs"], claimed["checkpoint"], claimed["context"], claimed["attempt"])
        return {"result": claimed["name"]}

    engine.drain(handler)
    assert seen == {
        "b": ({"a": {"rows": 7}}, {"at": 3}, {"n": 1}, 1),
        "c": ({"a": {"rows": 7}, "b": "b"}, None, {"n": 1}, 1),
        "d": ({"c": "c"}, None, {"n": 1}, 1),
    }
    assert engine.task(resumed)["phase"] == "succeeded"
    assert engine.rows("select * from tasker.workflow_step_transitions where task_uuid = %s order by 1", task) == before
    old, new = (engine.row("select * from tasker.tasks where task_uuid = %s", t) for t in (task, resumed))
    assert new["resumes_task_uuid"] == task and new["correlation_id"] == old["correlation_id"]
    log = engine.rows("select metadata from tasker.task_transitions where task_uuid = %s order by sort_key", resumed)
    assert log[0]["metadata"] == {"requested_by": "ada", "resumes": str(task)}
    assert log[1]["metadata"].items() >= {"reason": "a test", "requested_by": "ada", "manual": True}.items()
    engine.check()


def test_a_resumed_task_that_was_cancelled_is_resumed_from_where_that_stopped(engine: Engine) -> None:
    second = engine.call("resume_task", p_task_uuid=half_done(engine), **BY)
    engine.complete(engine.claim(), "b2")
    engine.settle()
    engine.call("cancel_task", p_task_uuid=second, **BY)
    third = engine.call("resume_task", p_task_uuid=second, **BY)
    seen: dict[str, Any] = {}
    engine.drain(lambda claimed: {"result": seen.setdefault(claimed["name"], claimed["inputs"])})
    assert seen == {"c": {"a": {"rows": 7}, "b": "b2"}, "d": {"c": {"a": {"rows": 7}, "b": "b2"}}}
    assert engine.state(third) == "complete"
    engine.check()


def test_a_task_is_resumed_once(engine: Engine, open_engine: OpenEngine) -> None:
    """Two operators at once: one resumes it, the other is told as what."""
    task = half_done(engine)
    answers: list[Any] = []

    def resume(who: Engine) -> None:
        try:
            answers.append(who.call("resume_task", p_task_uuid=task, **BY))
        except psycopg.Error as error:
            answers.append(error.sqlstate)

    both = [threading.Thread(target=resume, args=(open_engine(),)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len([a for a in answers if isinstance(a, UUID)]) == 1
    assert "TK409" in answers


def test_a_repeated_request_gets_the_same_task(engine: Engine) -> None:
    task = half_done(engine)
    first = engine.call("resume_task", p_task_uuid=task, p_request_id="go on", **BY)
    assert engine.call("resume_task", p_task_uuid=task, p_request_id="go on", **BY) == first


@pytest.mark.parametrize("end", ["running", "complete"])
def test_only_what_ended_without_success_is_resumed(engine: Engine, end: str) -> None:
    task = engine.create(graph(step("a")))
    if end == "complete":
        engine.drain()
    with pytest.raises(psycopg.Error, match="only a task that ended without success") as refused:
        engine.call("resume_task", p_task_uuid=task, **BY)
    assert refused.value.sqlstate == "TK409" and refused.value.diag.message_hint


def test_a_timed_out_task_whose_steps_were_cancelled_is_resumed_and_not_reset(engine: Engine) -> None:
    """Its running step was cancelled, which is for good: started again, the task could only block."""
    task = engine.create(graph(step("a"), step("b", "a"), timeout_seconds=10))
    engine.claim()
    engine.shift_clock("11 seconds")
    engine.settle()
    assert engine.state(task) == "error"
    with pytest.raises(psycopg.Error, match="ended for good") as refused:
        engine.call("reset_task", p_task_uuid=task, **BY)
    assert refused.value.sqlstate == "TK409" and "resume_task" in (refused.value.diag.message_hint or "")
    assert engine.state(task) == "error", "nothing was done"
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    engine.drain()
    assert engine.state(resumed) == "complete"
    engine.check()


def test_a_task_that_was_resumed_is_not_reset(engine: Engine) -> None:
    """Or its steps would run twice."""
    task = engine.create(graph(step("a", max_attempts=1)))
    engine.fail(engine.claim())
    engine.settle()
    engine.call("give_up_task", p_task_uuid=task, **BY)
    engine.call("resume_task", p_task_uuid=task, **BY)
    with pytest.raises(psycopg.Error, match="was resumed as") as refused:
        engine.call("reset_task", p_task_uuid=task, **BY)
    assert refused.value.sqlstate == "TK409"


def test_conditions_of_first_steps_see_the_results_of_the_task_before(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("a"),
            step("yes", "a", condition="$.inputs.a == 1"),
            step("no", "a", condition="$.inputs.a == 2"),
            step("end", "yes", "no"),
        )
    )
    engine.complete(engine.claim(), 1)  # reported, not orchestrated: neither was judged yet
    engine.orchestrate()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    engine.drain()
    assert engine.states(resumed) == {"yes": "complete", "end": "complete"}, "no was left out in the first one"
    assert engine.state(resumed) == "complete"
    engine.check()
