"""check_consistency finds every kind of damage: each is done by a superuser behind the engine's back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.workflow.engine import Engine, Row, graph, step
from tests.workflow.fixtures import OpenEngine

SLOW = {"base_delay": 10, "jitter": 0}


@pytest.fixture
def task(engine: Engine) -> UUID:
    """A task with a step in every situation."""
    uuid = engine.create(
        graph(
            step("done"),
            step("waits", retry=SLOW),
            step("reported"),
            step("bad"),
            step("runs"),
            step("queued"),
            step("child", "runs", "done"),
        )
    )
    claims = engine.claim_by_name(limit=5)
    engine.complete([claims["done"]], 1)
    engine.fail([claims["waits"]])
    engine.fail([claims["bad"]], category="permanent")
    engine.orchestrate()
    engine.complete([claims["reported"]], 2)
    engine.check()
    return uuid


@contextlib.contextmanager
def without_walls(engine: Engine) -> Iterator[None]:
    """What only the owner of the tables can do: no trigger and no foreign key stands in the way."""
    tables = engine.column("select tablename from pg_tables where schemaname = 'tasker'")
    for table in tables:
        engine.rows(f"alter table tasker.{table} disable trigger all")
    yield
    for table in tables:
        engine.rows(f"alter table tasker.{table} enable trigger all")


def findings(engine: Engine, task: UUID | None = None) -> dict[str, Row]:
    rows = engine.rows("select * from tasker.check_consistency(%s)", task)
    assert all(row["entity_uuid"] is not None and row["detail"] is not None for row in rows)
    return {row["finding"]: row for row in rows}


LOG = "tasker.workflow_step_transitions"


def the(name: str) -> str:
    return f"(select workflow_step_uuid from tasker.workflow_steps where name = '{name}')"


DAMAGE = [
    # finding, what it is about (a step, the task, the claim), what is done
    ("progress_counters_differ", "task", "update tasker.tasks set pending_steps = 2, failed_steps = 0"),
    ("progress_counters_differ", "task", "update tasker.tasks set total_steps = 8, pending_steps = 2"),
    (
        "unmet_dependencies_differ",
        "child",
        "update tasker.workflow_steps set unmet_dependencies = 0 where name = 'child'",
    ),
    (
        "unmet_dependencies_differ",
        "child",
        "update tasker.workflow_steps set unmet_dependencies = 2 where name = 'child'",
    ),
    (
        "handed_out_before_dependencies",
        "runs",
        f"insert into tasker.workflow_step_edges select task_uuid, {the('child')}, {the('runs')} from tasker.tasks",
    ),
    ("task_without_state", "task", "delete from tasker.task_transitions"),
    ("step_without_state", "queued", f"delete from {LOG} where workflow_step_uuid = {the('queued')}"),
    ("log_position_missing", "done", f"delete from {LOG} where workflow_step_uuid = {the('done')} and sort_key = 2"),
    (
        "log_position_missing",
        "queued",
        f"update {LOG} set sort_key = 7 where workflow_step_uuid = {the('queued')} and sort_key = 2",
    ),
    ("log_position_missing", "task", "delete from tasker.task_transitions where sort_key = 2"),
    (
        "task_ended_well_with_unsatisfied_steps",
        "task",
        "update tasker.task_transitions set to_state = 'complete' where most_recent",
    ),
    (
        "task_ended_with_steps_under_way",
        "task",
        "update tasker.task_transitions set to_state = 'error' where most_recent",
    ),
    ("completion_time_differs", "task", "update tasker.task_transitions set to_state = 'cancelled' where most_recent"),
    ("completion_time_differs", "task", "update tasker.tasks set completed_at = clock_timestamp()"),
    ("running_without_claim", "runs", "delete from tasker.step_claims"),
    ("running_without_claim", "runs", "update tasker.workflow_steps set claim_uuid = null where name = 'runs'"),
    (
        "claimed_but_not_running",
        "queued",
        "update tasker.workflow_steps set claim_uuid = gen_random_uuid() where name = 'queued'",
    ),
    ("claim_counts_differ", "claim", "update tasker.step_claims set open_steps = open_steps + 1"),
    (
        "claim_counts_differ",
        "claim",
        "update tasker.workflow_steps set claim_uuid = gen_random_uuid() where name = 'runs'",
    ),
    ("waiting_for_retry_without_timer", "waits", "delete from tasker.timers"),
    ("waiting_for_retry_without_timer", "waits", "update tasker.timers set sort_key = sort_key - 1"),
    ("queued_without_message", "queued", "select pgmq.purge_queue('worker_default_queue')"),
    ("queued_without_message", "queued", "select pgmq.drop_queue('worker_default_queue')"),
    ("reported_without_message", "reported", "select pgmq.purge_queue('orchestration_step_results')"),
    (
        "result_without_audit",
        "done",
        f"delete from tasker.workflow_step_result_audit where workflow_step_uuid = {the('done')}",
    ),
    (
        "audit_without_result",
        "done",
        f"update tasker.workflow_step_result_audit a set workflow_step_transition_uuid = t.workflow_step_transition_uuid from {LOG} t"
        f" where t.workflow_step_uuid = {the('done')} and a.workflow_step_uuid = {the('done')} and t.event = 'create'",
    ),
]


def test_every_kind_of_damage_is_found(engine: Engine, task: UUID) -> None:
    uuids = {name: row["workflow_step_uuid"] for name, row in engine.steps(task).items()}
    uuids |= {"task": task, "claim": engine.one("select claim_uuid from tasker.step_claims")}
    for finding, about, damage in DAMAGE:
        engine.begin()
        with without_walls(engine):
            engine.rows(damage)
        for scope in (None, task):
            found = findings(engine, scope)
            assert finding in found, (damage, scope)
            assert found[finding]["entity_uuid"] == uuids[about], (damage, scope)
        unhurt = engine.create(graph(step("other")), p_namespace="elsewhere")
        assert findings(engine, unhurt) == {}, f"{damage}: and not when asked about another task"
        engine.rollback()


def test_a_task_that_rests_where_it_could_go_on_is_found_and_its_call_mends_it(engine: Engine) -> None:
    """A lost wake-up, made by hand: the step is done and its task was never driven."""
    task = engine.create(graph(step("a"), step("b", "a")))
    engine.complete(engine.claim())
    engine.orchestrate()
    with without_walls(engine):
        engine.rows("select pgmq.purge_queue('worker_default_queue')")
        engine.rows(f"delete from {LOG} where to_state = 'enqueued' and workflow_step_uuid = {the('b')}")
        engine.rows(f"update {LOG} set most_recent = true where workflow_step_uuid = {the('b')}")
        engine.rows("update tasker.tasks set pending_steps = 1, in_flight_steps = 0")
    found = findings(engine)
    assert found.keys() == {"task_at_rest"}
    engine.rows(found["task_at_rest"]["proposed_call"])
    engine.check()
    engine.drain()
    assert engine.state(task) == "complete"


@pytest.mark.parametrize(
    "damage",
    [
        "select pgmq.purge_queue('worker_default_queue')",
        "select pgmq.purge_queue('orchestration_step_results')",
        "delete from tasker.step_claims",
        "delete from tasker.timers",
    ],
)
def test_the_proposed_call_mends_what_was_found(engine: Engine, task: UUID, damage: str) -> None:
    """Messages, claims and timers that somebody deleted: after the calls the task runs to its end."""
    engine.rows(damage)
    for found in engine.rows("select * from tasker.check_consistency()"):
        if found["proposed_call"]:
            engine.rows(found["proposed_call"].replace("'...'", "'as told'"))
    engine.settle()
    assert findings(engine) == {}
    engine.shift_clock("1 hour")
    engine.drain()
    engine.shift_clock("2 hours")
    engine.drain()
    states = engine.states(task)
    assert states.pop("bad") == "error"
    assert set(states.values()) == {"complete"}
    engine.check()


def test_work_in_the_hands_of_others_is_no_finding(engine: Engine, open_engine: OpenEngine, task: UUID) -> None:
    """What a running transaction has taken out of a queue is still there for everybody else, state and message alike."""
    sessions = [open_engine() for _ in range(3)]
    worker = engine.worker()
    for session in sessions:
        session.begin()
    sessions[0].claim(1, worker)
    sessions[1].orchestrate()
    assert findings(engine) == {}
    for session in sessions:
        session.commit()
    assert findings(engine) == {}
