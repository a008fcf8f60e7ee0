"""Every kind of timer: once, by whoever comes; the clock of the tests and who may set it; attempts that never run over."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workflow.engine import Engine, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server

SLOW = {"base_delay": 10, "max_delay": 600, "jitter": 0}
HOURS = "10 hours"


def one_of_each(engine: Engine, name: str) -> dict[str, UUID]:
    """Tasks that wait for one timer of every kind, and for the end of a lease and of a step's time."""
    engine.rows("select tasker.configure_breaker(%s, 1, '10 s')", name)
    tasks = {
        "retry": engine.create(graph(step("a", retry=SLOW))),
        "task_retry": engine.create(graph(step("a", max_attempts=1), vocabulary="pipeline", max_retries=1)),
        "cooldown": engine.create(graph(step("a", retry=SLOW, max_attempts=1), vocabulary="execution", max_retries=1)),
        "breaker": engine.create(graph(step("a", tool=name, max_attempts=1))),
    }
    engine.fail(engine.claim())
    engine.orchestrate()
    tasks |= {
        "requeue": engine.create(graph(step("a", tool=name))),
        "timeout": engine.create(graph(step("a", timeout_seconds=10))),
        "task_timeout": engine.create(graph(step("a"), timeout_seconds=10)),
    }
    engine.claim(lease=HOURS)
    tasks["lease"] = engine.create(graph(step("a")))
    engine.claim(lease="10 s")
    tasks["drive"] = engine.create(graph(step("a")), p_start=False)
    engine.call("transition_task", p_task_uuid=tasks["drive"], p_event="start")
    return tasks


@on_one_server
def test_eight_callers_fire_every_kind_once(engine: Engine, open_engine: OpenEngine) -> None:
    engine.worker(p_heartbeat_interval="10 hours")
    rounds = [one_of_each(engine, f"tool{n}") for n in range(6)]
    kinds = set(engine.column("select distinct kind from tasker.timers"))
    assert kinds == {"retry", "drive", "task_timeout", "task_retry", "requeue", "breaker_cooldown"}
    events = "select count(*) from tasker.workflow_step_transitions where task_uuid = %s and event = %s"
    engine.shift_clock("100 s")
    sessions = [open_engine() for _ in range(8)]

    def tick_all(session: Engine) -> None:
        while True:
            ticked = session.tick(3)
            if not ticked["timers_fired"] and not ticked["leases_expired"]:
                return

    in_parallel([lambda s=s: tick_all(s) for s in sessions])  # type: ignore[misc]
    for tasks in rounds:
        assert engine.one(events, tasks["retry"], "retry") == 1
        assert engine.one(events, tasks["cooldown"], "cooldown_expires") == 1
        assert engine.walk(tasks["task_retry"])[-2:] == ["S_RETRYING", "S_RUNNING"]
        assert engine.walk(tasks["task_timeout"])[-1] == "error"
        assert engine.walk(tasks["drive"])[-1] == "steps_in_process"
        for ended in ("lease", "timeout"):
            lost = "select count(*) from tasker.workflow_step_result_audit where task_uuid = %s"
            assert engine.one(lost, tasks[ended]) == 1
        queued = [m for m in engine.queued() if m["task_uuid"] == str(tasks["requeue"])]
        assert len(queued) == 1
    cooled = engine.column(
        "select count(*) from tasker.circuit_breaker_transitions where event = 'cooldown_expires' group by circuit_breaker_uuid"
    )
    assert cooled == [1] * 6
    engine.settle()
    engine.check()


def test_only_the_owner_sets_the_clock(engine: Engine, open_engine: OpenEngine) -> None:
    for role in ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"):
        session = open_engine(role=role)
        for change in (
            "insert into tasker.test_clock (shift) values ('1 hour')",
            "update tasker.test_clock set shift = '1 hour'",
            "delete from tasker.test_clock",
            "truncate tasker.test_clock",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.rows(change)
    open_engine(role="tasker_owner").shift_clock("1 hour")
    assert engine.one("select tasker.clock() - clock_timestamp() > interval '59 minutes'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        engine.rows("insert into tasker.test_clock (shift) values ('1 hour')")


def test_audit_columns_use_the_real_clock(engine: Engine) -> None:
    """Every created_at, recorded_at and updated_at there is, in every table."""
    engine.worker(p_heartbeat_interval=HOURS)
    engine.shift_clock("30 days")
    engine.rows("select tasker.configure_breaker('anvil', 1)")
    task = engine.create(graph(step("a", tool="anvil"), step("b", "a")), p_request_id="r")
    engine.fail(engine.claim())
    engine.settle()
    engine.call("cancel_task", p_task_uuid=task, p_reason="x", p_requested_by="ada")
    columns = engine.rows(
        """select c.table_name, c.column_name from information_schema.columns c
             join information_schema.tables t using (table_schema, table_name)
            where c.table_schema = 'tasker' and t.table_type = 'BASE TABLE'
              and c.column_name in ('created_at', 'recorded_at', 'updated_at', 'completed_at', 'started_at', 'saved_at')"""
    )
    assert len(columns) > 15
    for column in columns:
        newest = engine.one(f"select max({column['column_name']}) from tasker.{column['table_name']}")
        ahead = engine.one("select coalesce(%s::timestamptz > clock_timestamp() + interval '1 hour', false)", newest)
        assert not ahead, column


OUTCOMES = st.lists(st.sampled_from(["ok", "transient", "unknown", "permanent", "lease"]), min_size=1, max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    vocabulary=st.sampled_from(["tasker", "orchestration", "pipeline"]),
    limit=st.integers(1, 4),
    retryable=st.booleans(),
    outcomes=OUTCOMES,
)
@on_one_server
def test_attempts_and_ends_are_those_of_a_small_model(
    engine: Engine, vocabulary: str, limit: int, retryable: bool, outcomes: list[str]
) -> None:
    """Seeds 000, 001, 002 and 004: retry while it is worth it and attempts are left; retry_count never above max_retries."""
    hours = engine.one("select coalesce(max(shift), '0') + interval '1 minute' from tasker.test_clock")
    engine.shift_clock(hours)
    worker = engine.call("register_worker", p_name="w", p_heartbeat_interval="1000 hours")
    task = engine.create(graph(step("a", max_attempts=limit, retryable=retryable), vocabulary=vocabulary))
    attempts, end = 0, None
    for outcome in outcomes:
        claims: list[Any] = [c for c in engine.claim(worker=worker, lease="5 s") if c["task_uuid"] == task]
        attempts += 1
        assert [c["attempt"] for c in claims] == [attempts]
        if outcome == "ok":
            engine.complete(claims)
        elif outcome == "lease":
            hours = engine.one("select shift + interval '6 s' from tasker.test_clock")
            engine.shift_clock(hours)
            engine.tick()
        else:
            engine.fail(claims, category=outcome)
        engine.settle()
        if outcome == "ok":
            end = "succeeded"
        elif outcome == "permanent" or not retryable or attempts >= limit:
            end = "failed"
        if end:
            break
    row = engine.steps(task)["a"]
    assert (row["attempts"], row["max_attempts"]) == (attempts, limit)
    assert attempts <= limit
    assert row["phase"] == (end or "queued" if vocabulary != "pipeline" else end or "waiting_retry")
    if end is None:
        engine.call("cancel_task", p_task_uuid=task, p_reason="x", p_requested_by="ada")
    engine.check(task)
