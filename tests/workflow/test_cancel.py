"""Cancelling: nothing runs on, nobody is told a success that did not happen, and races have exactly one winner."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server


def test_cancel_ends_everything_that_is_open(engine: Engine) -> None:
    """Pending, queued, running, reported and waiting steps; what is done stays done."""
    task = engine.create(
        graph(
            step("done"),
            step("waits", retry={"base_delay": 60}),
            step("reported"),
            step("reported badly"),
            step("runs"),
            step("queued"),
            step("pending", "runs"),
        )
    )
    claims = engine.claim_by_name(limit=5)
    engine.complete([claims["done"]])
    engine.fail([claims["waits"]])
    engine.orchestrate()
    engine.complete([claims["reported"]])
    engine.fail([claims["reported badly"]])
    assert engine.states(task) == {
        "done": "complete",
        "waits": "waiting_for_retry",
        "reported": "enqueued_for_orchestration",
        "reported badly": "enqueued_as_error_for_orchestration",
        "runs": "in_progress",
        "queued": "enqueued",
        "pending": "pending",
    }
    assert engine.call("cancel_task", p_task_uuid=task, **BY) == "cancelled"
    states = engine.states(task)
    assert states.pop("done") == "complete"
    assert set(states.values()) == {"cancelled"}
    row = engine.task(task)
    assert (row["state"], row["satisfied_steps"], row["failed_steps"]) == ("cancelled", 1, 6)
    assert row["completed_at"] is not None

    assert engine.complete([claims["runs"]])[0]["code"] == "TK412"
    engine.shift_clock("1 hour")
    engine.settle()
    assert engine.claim() == []
    assert engine.queued() == [], "what stood in the queue is gone with the first look"
    assert engine.walk(task)[-1] == "cancelled"
    engine.check()


@pytest.mark.parametrize("after", ["cancel", "complete"])
def test_cancelling_what_has_ended_is_refused(engine: Engine, after: str) -> None:
    """B55: never a normal answer without effect."""
    task = engine.create(graph(step("a")))
    if after == "cancel":
        engine.call("cancel_task", p_task_uuid=task, **BY)
    else:
        engine.drain()
    walk = engine.walk(task)
    with pytest.raises(psycopg.Error) as caught:
        engine.call("cancel_task", p_task_uuid=task, **BY)
    assert caught.value.sqlstate == "TK409"
    assert engine.walk(task) == walk


def test_steps_in_three_queues_are_cancelled_and_all_queues_run_empty(engine: Engine) -> None:
    """B15: no queue keeps messages of work that is over, whichever is looked at first."""
    tasks = [engine.create(graph(*(step(f"s{n}") for n in range(5))), p_namespace=ns) for ns in ("a", "b", "c")]
    held = engine.claim(1, namespaces=["b"])
    for task in tasks:
        engine.call("cancel_task", p_task_uuid=task, **BY)
    assert engine.claim() == []
    assert [engine.queued(namespace) for namespace in ("a", "b", "c")] == [[], [], []]
    assert engine.complete(held)[0]["code"] == "TK412"
    assert engine.column("select count(*) from tasker.step_claims") == [0]
    engine.check()


def test_a_cancelled_task_that_was_not_started(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_start=False)
    assert engine.call("cancel_task", p_task_uuid=task, **BY) == "cancelled"
    assert engine.states(task) == {"a": "cancelled"}
    engine.check()


def cancel(session: Engine, task: UUID) -> str:
    """The new state, or the code of the refusal."""
    try:
        state: str = session.call("cancel_task", p_task_uuid=task, **BY)
    except psycopg.Error as error:
        return error.sqlstate or ""
    return state


def report(session: Engine, claims: list[Row], orchestrate: bool) -> str | None:
    """The code of the refusal, if it was refused."""
    (outcome,) = session.complete(claims)
    if orchestrate:
        session.orchestrate()
    code: str | None = outcome["code"]
    return code


@on_one_server
def test_cancel_against_the_last_report(engine: Engine, open_engine: OpenEngine) -> None:
    """300 rounds from a barrier: the final state and both answers tell the same story.

    The result was accepted and orchestrated before the cancel: complete, and the cancel was refused. Otherwise the task is
    cancelled, the cancel said so, and the report either came before it or was refused.
    """
    canceller, worker = open_engine(), open_engine()
    ends: dict[str, int] = {}

    for round_ in range(300):
        task = engine.create(graph(step("a")))
        claims = engine.claim()

        cancelled, refused = in_parallel(
            [partial(cancel, canceller, task), partial(report, worker, claims, orchestrate=round_ % 2 == 1)]
        )
        engine.orchestrate()
        end = engine.state(task)
        step_end = engine.states(task)["a"]
        ends[end] = ends.get(end, 0) + 1
        if end == "complete":
            assert (cancelled, refused, step_end) == ("TK409", None, "complete"), round_
        else:
            assert (end, cancelled, step_end) == ("cancelled", "cancelled", "cancelled"), round_
            assert refused in (None, "TK412"), round_
    assert sum(ends.values()) == 300
    engine.check()


@pytest.mark.parametrize("first", ["cancel", "orchestrate"])
def test_cancel_and_orchestrate_one_behind_the_other(engine: Engine, open_engine: OpenEngine, first: str) -> None:
    """Both orders, held open: the second one sees what the first one did."""
    task = engine.create(graph(step("a"), step("b", "a")))
    engine.complete(engine.claim())
    one, two = open_engine(), open_engine()

    one.begin()
    if first == "cancel":
        assert cancel(one, task) == "cancelled"
        settling = Background(two.orchestrate)
        engine.wait_until_blocked(two)
        one.commit()
        assert settling.result()["steps_settled"] == 0
    else:
        assert one.orchestrate()["steps_settled"] == 1
        cancelling = Background(lambda: cancel(two, task))
        engine.wait_until_blocked(two)
        one.commit()
        assert cancelling.result() == "cancelled"
    assert engine.state(task) == "cancelled"
    assert engine.states(task) == {"a": "complete" if first == "orchestrate" else "cancelled", "b": "cancelled"}
    assert engine.claim() == []
    engine.check()


def test_cancel_and_claim_one_behind_the_other(engine: Engine, open_engine: OpenEngine) -> None:
    """A worker that waits for a step while it is cancelled gets nothing; one that was faster is fenced off."""
    worker = engine.worker()
    one, two = open_engine(), open_engine()
    task = engine.create(graph(step("a")))
    one.begin()
    one.call("cancel_task", p_task_uuid=task, **BY)
    claiming = Background(lambda: two.claim(worker=worker))
    engine.wait_until_blocked(two)
    one.commit()
    assert claiming.result() == []

    task = engine.create(graph(step("a")))
    one.begin()
    claims = one.claim(worker=worker)
    cancelling = Background(lambda: two.call("cancel_task", p_task_uuid=task, **BY))
    engine.wait_until_blocked(two)
    one.commit()
    assert cancelling.result() == "cancelled"
    assert one.complete(claims)[0]["code"] == "TK412"
    engine.check()
