"""What a person is told: why a task is not further, what would move it, and numbers that fit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, step
from tests.workflow.fixtures import OpenEngine

SLOW = {"base_delay": 10, "jitter": 0}


def explain(engine: Engine, task: UUID) -> tuple[str, dict[str, Row]]:
    """The summary, and the reasons by step."""
    told: Row = engine.call("explain_task", p_task_uuid=task)
    assert told["task_uuid"] == str(task)
    assert told["state"] == engine.state(task)
    return told["summary"], {reason["step"]: reason for reason in told["reasons"]}


def do(engine: Engine, call: str) -> None:
    """Carry out what an explanation proposes, with its dots filled in."""
    engine.rows(call.replace("'...'", "'as told'"))


def test_a_queued_step_without_a_worker(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b", "a")))
    summary, reasons = explain(engine, task)
    assert summary == "The task is moving: 1 step(s) are queued, running or reported; 0 of 2 are done."
    assert "no worker for it is registered and alive" in reasons["a"]["why"]
    assert reasons["a"]["call"] == "pgtasker worker run your_module:worker --namespace default"
    assert reasons["b"]["why"] == "waits for 1 of its dependencies: a (enqueued)"
    assert reasons["b"]["call"] is None


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        ({}, "a worker should take it soon"),
        ({"p_namespaces": ["default", "x"]}, "a worker should take it soon"),
        ({"p_namespaces": ["x"]}, "no worker for it"),
        (None, "no worker for it"),
    ],
)
def test_a_queued_step_with_and_without_a_fitting_worker(
    engine: Engine, worker: dict[str, Any] | None, expected: str
) -> None:
    task = engine.create(graph(step("a")))
    if worker is None:
        engine.call("shutdown_worker", p_worker_uuid=engine.worker())
    else:
        engine.worker(**worker)
    assert expected in explain(engine, task)[1]["a"]["why"]


def test_a_running_step_names_its_worker_and_its_lease(engine: Engine) -> None:
    task = engine.create(graph(step("a", max_attempts=2)))
    (claimed,) = engine.claim(lease="5 s")
    why = explain(engine, task)[1]["a"]
    assert str(engine.worker()) in why["why"]
    assert str(claimed["lease_expires_at"].year) in why["why"]
    assert why["call"] is None, "it is in good hands"
    engine.shift_clock("6 s")
    why = explain(engine, task)[1]["a"]
    assert why["call"] == "select tasker.tick()"
    do(engine, why["call"])
    why = explain(engine, task)[1]["a"]
    assert why["why"] == "has reported and waits for orchestration"
    do(engine, why["call"])
    assert engine.states(task)["a"] == "waiting_for_retry"


def test_a_step_that_waits_for_its_retry(engine: Engine) -> None:
    task = engine.create(graph(step("a", retry=SLOW, max_attempts=3)))
    engine.fail(engine.claim())
    engine.orchestrate()
    summary, reasons = explain(engine, task)
    assert summary == "The task waits for the retry of 1 step(s)."
    assert reasons["a"]["why"].startswith("failed at attempt 1 of 3 and is tried again at ")
    assert "retry_step" in reasons["a"]["call"], "not yet due: only an operator can make it sooner"
    engine.shift_clock("11 s")
    call = explain(engine, task)[1]["a"]["call"]
    assert call == "select tasker.tick()"
    do(engine, call)
    assert engine.states(task) == {"a": "enqueued"}


def test_a_blocked_task_and_the_call_that_moves_it(engine: Engine) -> None:
    task = engine.create(graph(step("bad"), step("child", "bad")))
    engine.fail(engine.claim(), category="permanent")
    engine.orchestrate()
    summary, reasons = explain(engine, task)
    assert summary.startswith("The task is blocked: 1 step(s) failed and nothing that is left can start.")
    assert reasons["bad"]["why"] == "failed at attempt 1 of 5: it broke"
    assert reasons["child"]["why"] == "waits for 1 of its dependencies: bad (error)"
    assert list(reasons) == ["bad", "child"], "the cause stands before what it holds up"
    do(engine, reasons["bad"]["call"])
    engine.drain()
    assert engine.state(task) == "complete"


@pytest.mark.parametrize("error", [None, "text", {"code": 5}, {"message": None}, ["x"]])
def test_an_error_of_any_shape_is_told(engine: Engine, error: Any) -> None:
    from tests.workflow.engine import report_of

    task = engine.create(graph(step("bad")))
    engine.report([report_of(c, success=False, category="permanent", error=error) for c in engine.claim()])
    engine.orchestrate()
    assert explain(engine, task)[1]["bad"]["why"].startswith("failed at attempt 1 of 5: ")


def test_a_cancelled_step_blocks_and_says_so(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b", "a")))
    engine.call("cancel_step", p_step_uuid=engine.steps(task)["a"]["workflow_step_uuid"], **BY)
    reasons = explain(engine, task)[1]
    assert reasons["a"]["why"] == "was cancelled, so what depends on it can't start"
    do(engine, reasons["a"]["call"])
    assert engine.state(task) == "error"


def test_a_task_that_was_not_started_and_the_call_that_starts_it(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_start=False)
    summary, reasons = explain(engine, task)
    assert summary.startswith("The task was created and not started.")
    assert reasons["a"]["why"] == "is ready and will be queued when its task moves"
    call = summary.partition("not started. ")[2].partition(" starts it")[0]
    do(engine, call.replace("task_uuid", f"'{task}'"))
    engine.drain()
    assert engine.state(task) == "complete"


@pytest.mark.parametrize("end", ["complete", "cancelled", "error", "resolved_manually"])
def test_an_ended_task(engine: Engine, end: str) -> None:
    task = engine.create(graph(step("a"), step("b")))
    if end == "complete":
        engine.drain()
    elif end == "cancelled":
        engine.call("cancel_task", p_task_uuid=task, **BY)
    else:
        engine.fail(engine.claim(), category="permanent")
        engine.orchestrate()
        engine.call("give_up_task" if end == "error" else "resolve_task", p_task_uuid=task, **BY)
    summary, reasons = explain(engine, task)
    assert summary.startswith(f"The task ended as {end} at ")
    assert ("2 of 2" if end == "complete" else "0 of 2") in summary
    assert bool(reasons) == (end != "complete")


def test_an_owned_task_names_its_owner(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_start=False)
    processor = engine.call("register_processor", p_name="boss", p_lease="60 s")
    engine.call("transition_task", p_task_uuid=task, p_event="start", p_processor_uuid=processor)
    assert "Processor boss owns it until" in explain(engine, task)[0]
    engine.shift_clock("61 s")
    assert "boss" not in explain(engine, task)[0]


def test_a_wide_task_is_explained_in_short(engine: Engine) -> None:
    task = engine.create(
        graph(step("a"), *(step(f"s{n}", "a") for n in range(300)), step("end", *(f"s{n}" for n in range(300))))
    )
    _, reasons = explain(engine, task)
    assert len(reasons) == 50
    assert next(iter(reasons)) == "a"
    engine.drain(lambda claimed: {"success": claimed["name"] != "s250", "category": "permanent"})
    _, reasons = explain(engine, task)
    assert next(iter(reasons)) == "s250", "what failed comes first, however far behind it stands"


@pytest.mark.parametrize("function", ["explain_task", "task_status"])
def test_a_task_that_is_not_there(engine: Engine, function: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        engine.table(function, p_task_uuid=UUID(int=3))
    assert caught.value.sqlstate == "TK404"


def test_find_stuck_lists_what_does_not_move_and_why(engine: Engine, open_engine: OpenEngine) -> None:
    blocked = engine.create(graph(step("bad")))
    engine.fail(engine.claim(), category="permanent")
    engine.orchestrate()
    queued = engine.create(graph(step("a")))
    done = engine.create(graph(step("a")), p_namespace="other")
    engine.complete(engine.claim(namespaces=["other"]))
    engine.orchestrate()
    assert engine.state(done) == "complete"
    assert engine.table("find_stuck") == []
    stuck = engine.rows("select * from tasker.find_stuck(interval '0')")
    assert [row["task_uuid"] for row in stuck] == [blocked, queued]
    assert stuck[0]["state"] == "blocked_by_failures"
    assert stuck[0]["why"].startswith("The task is blocked")
    (told,) = engine.column(stuck[0]["proposed_call"])
    assert told["reasons"][0]["step"] == "bad"


def test_find_stuck_looks_at_the_steps_too(engine: Engine) -> None:
    """A long task whose steps come and go is not stuck, however long it is in its state."""
    engine.create(graph(step("a"), step("b")))
    engine.rows("select pg_sleep(0.05)")
    engine.claim(1)
    assert engine.rows("select * from tasker.find_stuck(interval '0.04 s')") == []


# -- allowed events --------------------------------------------------------------------------------------------------


def events(engine: Engine, kind: str, uuid: UUID) -> dict[tuple[str, str], bool]:
    rows = engine.table("allowed_events", p_kind=kind, p_uuid=uuid)
    return {(row["event"], row["to_state"]): row["guard_holds"] for row in rows}


def test_allowed_events_are_the_rules_from_here_and_their_guards(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b", "a")))
    child = engine.steps(task)["b"]["workflow_step_uuid"]
    assert events(engine, "step", child) == {
        ("enqueue", "enqueued"): False,
        ("start", "in_progress"): False,
        ("fail", "error"): True,
        ("cancel", "cancelled"): True,
        ("resolve_manually", "resolved_manually"): True,
    }
    parent = engine.steps(task)["a"]["workflow_step_uuid"]
    engine.claim()
    held = events(engine, "step", parent)
    assert held[("enqueue_for_orchestration", "enqueued_for_orchestration")]
    assert held[("enqueue_for_orchestration", "enqueued_as_error_for_orchestration")]
    assert not events(engine, "task", task)[("all_steps_completed", "evaluating_results")]
    assert events(engine, "task", task)[("cancel", "cancelled")]


def test_allowed_events_of_what_has_ended_are_none(engine: Engine) -> None:
    task = engine.create(graph(step("a")))
    engine.drain()
    assert events(engine, "task", task) == {}
    assert events(engine, "step", engine.steps(task)["a"]["workflow_step_uuid"]) == {}


def test_every_event_whose_guard_holds_is_taken_and_no_other(engine: Engine) -> None:
    """For each row of a step in many situations: what is called allowed goes through, what is not is refused."""
    task = engine.create(graph(step("a"), step("b", "a"), step("c")))
    engine.fail([c for c in engine.claim() if c["name"] == "a"], category="permanent")
    engine.orchestrate()
    for row in engine.steps(task).values():
        for (event, to_state), holds in events(engine, "step", row["workflow_step_uuid"]).items():
            engine.begin()
            metadata = {"reason": "x", "requested_by": "ada", "success": "error" not in to_state}
            try:
                reached = engine.call(
                    "transition_step", p_step_uuid=row["workflow_step_uuid"], p_event=event, p_metadata=metadata
                )
                assert holds and reached == to_state, (row["name"], event)
            except psycopg.Error as error:
                assert not holds and error.sqlstate == "TK422", (row["name"], event, error)
            engine.rollback()


def test_what_is_no_kind_is_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as caught:
        engine.table("allowed_events", p_kind="worker", p_uuid=UUID(int=1))
    assert caught.value.sqlstate == "TK400"


# -- readiness and context -------------------------------------------------------------------------------------------


def test_readiness_of_every_kind_of_step(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("done"),
            step("waits", retry=SLOW),
            step("bad"),
            step("runs"),
            step("queued"),
            step("child", "done", "runs"),
        )
    )
    claims = engine.claim_by_name(limit=4)
    engine.complete([claims["done"]])
    engine.fail([claims["waits"]])
    engine.fail([claims["bad"]], category="permanent")
    engine.orchestrate()
    rows = {row["name"]: row for row in engine.table("get_step_readiness_status", p_task_uuid=task)}
    assert {name for name, row in rows.items() if row["ready_for_execution"]} == {"queued"}
    assert (rows["child"]["total_parents"], rows["child"]["completed_parents"]) == (2, 1)
    assert not rows["child"]["dependencies_satisfied"]
    assert rows["waits"]["next_retry_at"] is not None
    assert rows["waits"]["retry_eligible"]
    engine.shift_clock("11 s")
    asked = [rows["waits"]["workflow_step_uuid"]]
    (row,) = engine.table("get_step_readiness_status", p_task_uuid=task, p_step_uuids=asked)
    assert row["ready_for_execution"], "its backoff is over"
    engine.complete([claims["runs"]])
    engine.orchestrate()
    assert engine.table("get_step_readiness_status", p_task_uuid=task)[5]["dependencies_satisfied"]


def context(engine: Engine, task: UUID) -> Row:
    (row,) = engine.table("get_task_execution_context", p_task_uuid=task)
    return row


def test_the_execution_context_in_every_situation(engine: Engine) -> None:
    def told(task: UUID) -> tuple[str, str, str, float]:
        row = context(engine, task)
        return (
            row["execution_status"],
            row["recommended_action"],
            row["health_status"],
            float(row["completion_percentage"]),
        )

    idle = engine.create(graph(step("a"), step("b", "a")), p_start=False)
    assert told(idle) == ("has_ready_steps", "execute_ready_steps", "healthy", 0)

    task = engine.create(graph(step("a"), step("b"), step("c", "a", "b")))
    assert told(task) == ("processing", "wait_for_completion", "healthy", 0)
    claims = engine.claim_by_name()
    engine.complete([claims["a"]])
    engine.fail([claims["b"]], retry_after=60)
    engine.orchestrate()
    status, action, health, done = told(task)
    assert (status, action, done) == ("waiting_for_retry", "wait_for_retry", 33.33)
    assert health == "recovering"
    engine.shift_clock("61 s")
    engine.tick()
    engine.fail(engine.claim(), category="permanent")
    engine.orchestrate()
    assert told(task) == ("blocked_by_failures", "handle_failures", "blocked", 33.33)
    engine.call("resolve_step", p_step_uuid=engine.steps(task)["b"]["workflow_step_uuid"], **BY)
    engine.drain()
    assert told(task) == ("all_complete", "finalize_task", "healthy", 100)
    assert told(engine.create(graph())) == ("all_complete", "finalize_task", "healthy", 100)


def test_the_context_agrees_with_the_steps_all_the_way(engine: Engine) -> None:
    """Counters and steps tell the same at every moment of a run with failures."""
    task = engine.create(graph(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")))
    while not engine.task(task)["is_terminal"]:
        row, states = context(engine, task), list(engine.states(task).values())
        assert row["total_steps"] == len(states)
        assert row["completed_steps"] == states.count("complete")
        assert row["pending_steps"] == states.count("pending")
        assert row["waiting_retry_steps"] == states.count("waiting_for_retry")
        assert row["failed_steps"] == states.count("error")
        claims = engine.claim(1)
        if claims:
            first = claims[0]["attempt"] == 1
            (engine.fail if first else engine.complete)(claims)
        engine.orchestrate()
        engine.tick()
        engine.check(task)


# -- views -----------------------------------------------------------------------------------------------------------


def test_the_timeline_holds_every_transition(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_requested_by="ada")
    engine.drain()
    rows = engine.rows("select * from tasker.timeline where task_uuid = %s order by kind, sort_key", task)
    assert [row["to_state"] for row in rows if row["kind"] == "step"] == [
        "pending",
        "enqueued",
        "in_progress",
        "enqueued_for_orchestration",
        "complete",
    ]
    assert rows[-1]["event"] == "all_steps_successful"
    assert {row["name"] for row in rows} == {"a", "flow"}
    start = next(row for row in rows if row["event"] == "start" and row["kind"] == "step")
    assert start["worker_uuid"] == engine.worker()
    assert next(row for row in rows if row["kind"] == "task" and row["sort_key"] == 1)["requested_by"] == "ada"
    times = engine.column("select at from tasker.timeline where kind = 'step' order by sort_key")
    assert times == sorted(times)


def test_a_step_shows_its_result_or_its_error_never_both(engine: Engine) -> None:
    task = engine.create(graph(step("a")))
    engine.fail(engine.claim())
    engine.settle()
    assert (engine.steps(task)["a"]["result"], engine.steps(task)["a"]["last_error"]) == (None, {"message": "it broke"})
    engine.drain()
    assert (engine.steps(task)["a"]["result"], engine.steps(task)["a"]["last_error"]) == ("a", None)
