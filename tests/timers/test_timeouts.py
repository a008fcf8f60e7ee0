"""Timeouts: of a step, of one step in a batch, of a task; what was saved stays; the report may come first or second."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import Background, Engine, Row, graph, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine

LEASE = "10 hours"


def worker(engine: Engine) -> None:
    engine.worker(p_heartbeat_interval="10 hours")


def errors(engine: Engine, step_uuid: UUID) -> list[str]:
    return engine.column(
        "select metadata -> 'error' ->> 'type' from tasker.workflow_step_transitions"
        " where workflow_step_uuid = %s and metadata ? 'error' order by sort_key",
        step_uuid,
    )


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "execution", "supervision"])
def test_a_step_that_runs_too_long_is_taken_away_and_retried(engine: Engine, vocabulary: str) -> None:
    worker(engine)
    task = engine.create(graph(step("slow", timeout_seconds=60), vocabulary=vocabulary))
    (held,) = engine.claim(lease=LEASE)
    assert held["timeout"].total_seconds() == 60
    engine.shift_clock("59 s")
    assert engine.tick()["leases_expired"] == 0
    engine.shift_clock("61 s")
    assert engine.tick()["leases_expired"] == 1
    assert engine.complete([held])[0]["code"] == "TK412", "fenced off"
    engine.settle()
    assert errors(engine, held["workflow_step_uuid"]) == ["timeout"]
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_the_default_is_five_minutes(engine: Engine) -> None:
    worker(engine)
    engine.create(graph(step("slow")))
    engine.claim(lease=LEASE)
    engine.shift_clock("299 s")
    assert engine.tick()["leases_expired"] == 0
    engine.shift_clock("301 s")
    assert engine.tick()["leases_expired"] == 1


def test_a_tool_has_a_timeout_of_its_own_and_a_step_may_say_otherwise(engine: Engine) -> None:
    """Seed 002, Timeout Values: 300 s by default, per-tool override, per-step override."""
    engine.call("register_template", p_template=graph(step("before", tool="browser"), name="registered"))
    engine.call("configure_tool", p_tool="browser", p_timeout="20 s")
    engine.call("configure_tool", p_tool="plain", p_timeout="30 s")
    engine.create(
        graph(
            step("named", tool="browser"), step("told", tool="browser", timeout_seconds=40),
            step("plain"), step("other", tool="mail"),
        )
    )  # fmt: skip
    engine.call("create_task", p_name="registered")
    held = {claimed["name"]: claimed["timeout"].total_seconds() for claimed in engine.claim()}
    assert held == {"named": 20, "told": 40, "plain": 30, "other": 300, "before": 20}, "held when the task is created"
    engine.call("configure_tool", p_tool="browser", p_timeout=None)
    engine.create(graph(step("again", tool="browser")))
    assert engine.claim()[0]["timeout"].total_seconds() == 300
    for timeout in ("0 s", "-1 s"):
        with pytest.raises(psycopg.Error) as refused:
            engine.call("configure_tool", p_tool="browser", p_timeout=timeout)
        assert refused.value.sqlstate == "TK400"


def test_only_the_step_that_is_over_its_time_is_taken(engine: Engine) -> None:
    worker(engine)
    engine.create(graph(*(step(f"s{n}", timeout_seconds=100 * (n + 1)) for n in range(4))))
    held = {claimed["name"]: claimed for claimed in engine.claim(lease=LEASE)}
    due = engine.tick()["next_due_at"]
    engine.shift_clock("150 s")
    assert engine.tick()["leases_expired"] == 1
    assert engine.tick()["next_due_at"] > due, "it wakes again for the next of the batch"
    assert len(engine.table("held_claims", p_worker_uuid=engine.worker())) == 3
    outcomes = {name: engine.complete([claimed])[0]["code"] for name, claimed in held.items()}
    assert outcomes == {"s0": "TK412", "s1": None, "s2": None, "s3": None}
    engine.settle()
    engine.drain()
    engine.check()


def test_a_timeout_may_outlive_the_lease_only_by_extensions(engine: Engine) -> None:
    """Extending the lease of a step that hangs does not save it."""
    worker(engine)
    engine.create(graph(step("hangs", timeout_seconds=60)))
    (held,) = engine.claim(lease="30 s")
    for at in ("20 s", "40 s", "59 s"):
        engine.shift_clock(at)
        assert engine.call("extend_leases", p_worker_uuid=engine.worker()) == 1
        assert engine.tick()["leases_expired"] == 0
    engine.shift_clock("61 s")
    engine.call("extend_leases", p_worker_uuid=engine.worker())
    assert engine.tick()["leases_expired"] == 1
    assert engine.complete([held])[0]["code"] == "TK412"


def test_partial_output_is_kept_for_the_next_attempt(engine: Engine) -> None:
    """Seed 002: partial output captured."""
    worker(engine)
    engine.create(graph(step("slow", timeout_seconds=60)))
    (held,) = engine.claim(lease=LEASE)
    engine.call(
        "save_checkpoint",
        p_step_uuid=held["workflow_step_uuid"],
        p_claim_uuid=held["claim_uuid"],
        p_checkpoint={"done": 40},
    )
    engine.shift_clock("61 s")
    engine.settle()
    (again,) = engine.claim(lease=LEASE)
    assert again["checkpoint"] == {"done": 40}
    report = engine.row("select metadata from tasker.workflow_step_transitions where metadata ? 'timed_out'")
    assert report["metadata"]["checkpoint"] == {"done": 40}
    with pytest.raises(psycopg.Error, match="not held under this claim"):
        engine.call(
            "save_checkpoint",
            p_step_uuid=held["workflow_step_uuid"],
            p_claim_uuid=held["claim_uuid"],
            p_checkpoint={"done": 50},
        )


@pytest.mark.parametrize("attempts", [1, 2])
def test_in_execution_it_visits_timeout(engine: Engine, attempts: int) -> None:
    """Seed 002: TIMEOUT -> RETRYING while retries are left, else TIMEOUT -> FAILED (and by its page CIRCUIT_OPEN)."""
    worker(engine)
    task = engine.create(graph(step("slow", timeout_seconds=60, max_attempts=attempts), vocabulary="execution"))
    (held,) = engine.claim(lease=LEASE)
    engine.shift_clock("61 s")
    engine.tick()
    walk = engine.walk(held["workflow_step_uuid"])
    expected = ["RETRYING"] if attempts == 2 else ["FAILED", "CIRCUIT_OPEN"]
    assert walk == ["PENDING", "IN_PROGRESS", "TIMEOUT", *expected]
    if attempts == 2:
        engine.settle()
        engine.drain()
        assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("vocabulary", ["tasker", "execution"])
def test_the_report_comes_first(engine: Engine, open_engine: OpenEngine, vocabulary: str) -> None:
    """B01: tick chose the step before the report committed; the report stands, nothing is counted twice."""
    worker(engine)
    task = engine.create(graph(step("slow", timeout_seconds=60), vocabulary=vocabulary))
    (held,) = engine.claim(lease=LEASE)
    engine.shift_clock("61 s")
    reporter, ticker = open_engine(), open_engine()
    reporter.begin()
    assert reporter.complete([held])[0]["code"] is None
    call = Background(ticker.tick)
    wait_until(lambda: call.is_done() or _blocked(engine, ticker), "tick done or waiting")
    reporter.commit()
    assert call.result()["leases_expired"] == 0
    engine.settle()
    assert errors(engine, held["workflow_step_uuid"]) == []
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("vocabulary", ["tasker", "execution"])
def test_the_timeout_comes_first(engine: Engine, open_engine: OpenEngine, vocabulary: str) -> None:
    worker(engine)
    engine.create(graph(step("slow", timeout_seconds=60), vocabulary=vocabulary))
    (held,) = engine.claim(lease=LEASE)
    engine.shift_clock("61 s")
    reporter, ticker = open_engine(), open_engine()
    ticker.begin()
    assert ticker.tick()["leases_expired"] == 1
    call = Background(lambda: reporter.complete([held]))
    wait_until(lambda: call.is_done() or _blocked(engine, reporter), "the report done or waiting")
    ticker.commit()
    assert call.result()[0]["code"] == "TK412"
    assert errors(engine, held["workflow_step_uuid"]) == ["timeout"]
    engine.check()


def _blocked(engine: Engine, other: Engine) -> bool:
    return bool(engine.one("select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", other.pid))


# -- validation ------------------------------------------------------------------------------------------------------

CHECKED: dict[str, Any] = {"acceptance": [{"type": "custom"}], "timeout_seconds": 60}


@pytest.mark.parametrize(("vocabulary", "final"), [("orchestration", "failed"), ("execution", "RETRYING")])
def test_a_validation_that_nobody_finishes_fails(engine: Engine, vocabulary: str, final: str) -> None:
    """Whoever was to run the checks is gone: the step must not be validated for ever."""
    worker(engine)
    task = engine.create(graph(step("a", **CHECKED), vocabulary=vocabulary))
    (held,) = engine.claim(lease="30 s")
    engine.complete([held])
    assert engine.steps(task)["a"]["phase"] == "validating"
    engine.check()
    engine.shift_clock("31 s")
    assert engine.tick()["leases_expired"] == 1
    assert engine.states(task) == {"a": final}
    assert errors(engine, held["workflow_step_uuid"]) == ["lease_expired"]
    with pytest.raises(psycopg.Error) as refused:
        engine.call(
            "report_validation", p_step_uuid=held["workflow_step_uuid"], p_claim_uuid=held["claim_uuid"], p_passed=True
        )
    assert refused.value.sqlstate == "TK412"
    engine.check()


@pytest.mark.parametrize("vocabulary", ["orchestration", "execution"])
def test_the_time_of_the_execution_stops_when_it_is_validated(engine: Engine, vocabulary: str) -> None:
    """Seed 000, running -> validating: stop timeout timer."""
    worker(engine)
    slow = {**CHECKED, "acceptance": [{"type": "custom", "timeout": 100}]}
    task = engine.create(graph(step("a", **slow), vocabulary=vocabulary))
    (held,) = engine.claim(lease=LEASE)
    engine.complete([held])
    engine.shift_clock("61 s")
    assert engine.tick()["leases_expired"] == 0
    engine.call(
        "report_validation", p_step_uuid=held["workflow_step_uuid"], p_claim_uuid=held["claim_uuid"], p_passed=True
    )
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize(("vocabulary", "final"), [("orchestration", "failed"), ("execution", "CIRCUIT_OPEN")])
def test_a_validation_that_takes_too_long_fails_although_its_worker_lives(
    engine: Engine, vocabulary: str, final: str
) -> None:
    """Seed 002, VALIDATING: the sum of all test timeouts, 30 s each; no retries. And 5 s to say so."""
    worker(engine)
    checks = [{"type": "custom"}, {"type": "custom", "timeout": 10}]
    task = engine.create(
        graph(step("a", acceptance=checks), step("quick", acceptance=checks), step("runs"), vocabulary=vocabulary)
    )
    held = engine.claim_by_name(lease=LEASE)
    engine.complete([held["a"], held["quick"]])
    engine.shift_clock("44 s")
    assert engine.tick()["leases_expired"] == 0
    engine.call(
        "report_validation", p_step_uuid=held["quick"]["workflow_step_uuid"], p_claim_uuid=held["quick"]["claim_uuid"],
        p_passed=True,
    )  # fmt: skip
    engine.shift_clock("46 s")
    assert engine.tick()["leases_expired"] == 1
    assert engine.states(task)["a"] == final
    assert errors(engine, held["a"]["workflow_step_uuid"]) == ["timeout"]
    with pytest.raises(psycopg.Error) as refused:
        engine.call(
            "report_validation", p_step_uuid=held["a"]["workflow_step_uuid"], p_claim_uuid=held["a"]["claim_uuid"],
            p_passed=True,
        )  # fmt: skip
    assert refused.value.sqlstate == "TK412"
    assert engine.complete([held["runs"]])[0]["code"] is None, "what else is held under the claim goes on"
    engine.check()


# -- tasks -----------------------------------------------------------------------------------------------------------


def timed(vocabulary: str = "tasker", **fields: Any) -> Row:
    return graph(step("a"), step("b", "a"), vocabulary=vocabulary, timeout_seconds=100, **fields)


@pytest.mark.parametrize(
    ("vocabulary", "ended"),
    [("tasker", "error"), ("orchestration", "cancelled"), ("pipeline", "S_ABANDONED"), ("execution", "S_ABANDONED"), ("supervision", "CANCELED")],
)  # fmt: skip
def test_a_task_that_takes_too_long_ends(engine: Engine, vocabulary: str, ended: str) -> None:
    worker(engine)
    task = engine.create(timed(vocabulary))
    (held,) = engine.claim(lease=LEASE)
    engine.shift_clock("99 s")
    engine.settle()
    assert engine.state(task) != ended
    engine.shift_clock("101 s")
    engine.settle()
    assert engine.state(task) == ended
    assert engine.complete([held])[0]["code"] == "TK412", "fenced off"
    engine.shift_clock("10 hours")
    engine.settle()
    assert engine.claim() == []
    engine.check()


def test_the_clock_of_a_task_runs_from_its_start(engine: Engine) -> None:
    task = engine.create(timed(), p_start=False)
    engine.shift_clock("50 s")
    engine.rows("select tasker.transition_task(%s, 'start')", task)
    engine.settle()
    engine.drain()
    assert engine.state(task) == "complete"
    engine.shift_clock("200 s")
    engine.settle()
    assert engine.state(task) == "complete", "the timer of a task that ended does nothing"
    engine.check()


def test_two_tasks_that_time_out_and_a_report_of_both_do_not_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    worker(engine)
    tasks = [engine.create(timed()) for _ in range(2)]
    held = engine.claim(lease=LEASE)
    engine.shift_clock("101 s")
    reporter, ticker, holder = open_engine(), open_engine(), open_engine()
    holder.begin()
    holder.rows(
        "select from tasker.workflow_steps where workflow_step_uuid = %s for update", held[0]["workflow_step_uuid"]
    )
    calls = [Background(ticker.tick), Background(lambda: reporter.report([report_of(c) for c in reversed(held)]))]
    engine.wait_until_blocked(reporter)
    holder.commit()
    for call in calls:
        call.result()
    engine.settle()
    assert {engine.state(task) for task in tasks} == {"error"}
    engine.check()
