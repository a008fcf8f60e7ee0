"""Seed 000: invariants of tasks, workstreams and workers, and the derivation of a workstream from its tasks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vocabularies import pages
from tests.vocabularies.lab import Lab, refused
from tests.workflow.engine import Row, report_of, step

BROKEN: Row = {"success": False, "error": {"message": "it broke"}, "category": "transient"}


def derive_workstream_state(tasks: list[tuple[str, bool]]) -> str:
    """The function that the page prints: (state, is critical) of each task -> state of the workstream."""
    states = [state for state, _ in tasks]
    if "running" in states:
        return "executing"
    if all(state == "completed" for state in states):
        return "validating"
    if any(state == "failed" and critical for state, critical in tasks):
        return "failed"
    if all(state in ("pending", "queued") for state in states):
        return "ready"
    return "executing"


def test_the_page_still_prints_the_function_that_is_transcribed_here(shared: Path) -> None:
    code = re.search(r"def derive_workstream_state.*?```", pages.text(shared, "000"), re.S)
    assert code
    conditions = re.findall(r"^    if (.*):$|return '(\w+)'", code[0], re.M)
    assert [one or two for one, two in conditions] == [
        "any(t.state == 'running' for t in tasks)", "executing",
        "all(t.state == 'completed' for t in tasks)", "validating",
        "any(t.state == 'failed' for t in tasks)", "failed",
        "all(t.state in ['pending', 'queued'] for t in tasks)", "ready", "executing",
    ]  # fmt: skip


def check_invariants(lab: Lab, workstream: UUID) -> None:
    """Invariants 1 to 6 of a task and 1 to 3 of a workstream, judged from the logs."""
    steps = lab.rows(
        """
        select s.workflow_step_uuid, s.name, s.on_failure, s.attempts, s.max_attempts, s.claim_uuid, s.unmet_dependencies,
               c.to_state as state,
               (select count(*) from tasker.workflow_step_transitions t
                 where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent) as states,
               array(select d.to_state from tasker.workflow_step_edges e
                       join tasker.workflow_step_transitions d on d.workflow_step_uuid = e.from_step_uuid and d.most_recent
                      where e.to_step_uuid = s.workflow_step_uuid) as dependencies
          from tasker.workflow_steps s
          join tasker.workflow_step_transitions c on c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent
         where s.task_uuid = %s
        """,
        workstream,
    )
    for row in steps:
        assert row["states"] == 1, "1. Single Active State"
        assert (row["claim_uuid"] is not None) == (row["state"] == "running"), "3. Worker Assignment"
        assert row["attempts"] <= row["max_attempts"], "4. Retry Limit"
        if row["state"] in ("queued", "running"):
            assert set(row["dependencies"]) <= {"completed"}, "6. Dependency Satisfaction"
    assert (
        lab.rows(
            "select * from tasker.workflow_step_transitions t join tasker.lifecycle_states s"
            " on s.lifecycle = t.lifecycle and s.state = t.from_state where s.is_terminal and t.task_uuid = %s",
            workstream,
        )
        == []
    ), "2. Monotonic Progress"
    times = lab.row("select created_at, started_at, completed_at from tasker.tasks where task_uuid = %s", workstream)
    known = [moment for moment in times.values() if moment is not None]
    assert known == sorted(known), "5. Timestamp Ordering"

    state = lab.state(workstream)
    tasks = [(row["state"], row["on_failure"] == "stop") for row in steps]
    if state == "completed":
        assert {task for task, _ in tasks} == {"completed"}, "Completion Requirement"
    if ("failed", True) in tasks:
        assert state in ("failed", "cancelled"), "Failure Propagation"
    if state != "cancelled":
        started = lab.one(
            "select count(*) from tasker.workflow_step_transitions where task_uuid = %s and to_state = 'running'",
            workstream,
        )
        expected = {
            "validating": "completed",  # the final validation follows at once: every task is validated already
            "failed": "failed",
            # the table has no way back from executing, so a started workstream whose tasks all wait is not ready again
            "executing": "executing" if started else "ready",
            "ready": "executing" if started else "ready",
        }
        assert state == expected[derive_workstream_state(tasks)], tasks


OPERATION = st.tuples(
    st.sampled_from(
        ["claim", "claim", "complete", "complete", "fail", "permanent", "time", "cancel one", "cancel all"]
    ),
    st.integers(0, 5),
)
SHAPES = st.lists(
    st.tuples(st.sets(st.integers(0, 3), max_size=2), st.sampled_from(["block", "block", "stop"]), st.integers(1, 2)),
    min_size=1, max_size=5,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_the_workstream_is_what_the_page_derives_from_its_tasks(
    module_conn: psycopg.Connection[Any], seed: int
) -> None:
    @settings(
        max_examples=20, deadline=None, database=None, derandomize=seed == 0,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )  # fmt: skip
    @given(shape=SHAPES, operations=st.lists(OPERATION, max_size=14))
    def holds(shape: list[tuple[set[int], str, int]], operations: list[tuple[str, int]]) -> None:
        lab = Lab(module_conn)
        steps = [
            step(
                f"t{place}",
                *(f"t{other}" for other in depends if other < place),
                on_failure=on_failure,
                max_attempts=tries,
            )
            for place, (depends, on_failure, tries) in enumerate(shape)
        ]
        workstream = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": steps})
        check_invariants(lab, workstream)
        held: list[Row] = []
        for operation, number in operations:
            if operation == "claim":
                held += lab.claim(1, lease="1 day")
            elif operation in ("complete", "fail", "permanent") and held:
                claimed = held.pop(number % len(held))
                fields = {"complete": {}, "fail": BROKEN, "permanent": {**BROKEN, "category": "permanent"}}[operation]
                lab.report([report_of(claimed, **fields)])
                lab.settle()
            elif operation == "time":
                lab.later("5 seconds")
                lab.settle()
            elif operation == "cancel one":
                name = f"t{number % len(steps)}"
                if not lab.steps(workstream)[name]["is_terminal"]:
                    lab.command("cancel_step", lab.key(workstream, name))
            elif operation == "cancel all" and number == 0 and lab.state(workstream) in ("ready", "executing"):
                lab.command("cancel_task", workstream)
            check_invariants(lab, workstream)
        lab.sound()
        lab.clear()

    holds()


def test_a_non_critical_failure_lets_the_rest_go_on(lab: Lab) -> None:
    """Non-critical task failure, continue execution; its dependents are blocked and told apart from what waits."""
    ws = lab.create(
        {
            "name": "ws",
            "vocabulary": "orchestration",
            "steps": [step("bad", max_attempts=1), step("after", "bad"), step("other")],
        }
    )
    lab.work(lambda claimed: BROKEN if claimed["name"] == "bad" else None)
    assert lab.states(ws) == {"bad": "failed", "after": "pending", "other": "completed"}
    assert lab.state(ws) == "executing"
    (readiness,) = [
        row
        for row in lab.rows("select * from tasker.get_step_readiness_status(%s)", ws)
        if row["name"] == "after"
    ]  # fmt: skip
    assert not readiness["dependencies_satisfied"]
    assert lab.command("cancel_task", ws) == "cancelled"


def test_a_task_is_only_given_to_a_worker_with_the_required_capabilities(lab: Lab) -> None:
    """queued → running, Guard: Worker with required capabilities available."""
    lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step("gpu", requires=["gpu", "python"])]})
    lab.worker("plain", p_capabilities=["python"])
    lab.worker("able", p_capabilities=["gpu", "python", "more"])
    assert lab.claim(worker="plain") == []
    assert [claimed["name"] for claimed in lab.claim(worker="able")] == ["gpu"]


def test_a_worker_never_holds_more_than_it_may(lab: Lab) -> None:
    """Worker invariant 1: task count ≤ max_concurrent_tasks."""
    lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step(f"t{n}") for n in range(5)]})
    worker = lab.worker(p_max_concurrent=2)
    first = lab.claim()
    assert (len(first), lab.worker_state(worker)) == (2, "busy")
    assert lab.claim() == []
    lab.complete(first[:1])
    assert len(lab.claim()) == 1


def test_a_failed_worker_releases_what_it_held(lab: Lab) -> None:
    """Worker invariants 2 and 4: missed health checks; the task is marked for reassignment, late reports are refused."""
    ws = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step("a")]})
    lost = lab.worker("lost", p_heartbeat_interval="10 s", p_max_missed_heartbeats=3)
    (claimed,) = lab.claim(worker="lost", lease="1 hour")
    lab.later("29 seconds")
    lab.settle()
    assert lab.worker_state(lost) == "busy", "two may be missed"
    lab.later("2 seconds")
    lab.settle()
    assert lab.worker_state(lost) == "unresponsive"
    assert [row["code"] for row in lab.complete([claimed])] == ["TK412"]
    severity = lab.one(
        "select r.severity from tasker.worker_transitions t"
        " join tasker.lifecycle_transitions r using (lifecycle, from_state, event, to_state)"
        " where t.worker_uuid = %s and t.most_recent",
        lost,
    )
    assert severity == "error"
    lab.work(worker="w")
    assert lab.state(ws) == "completed"
    lab.later("61 seconds")
    lab.settle()
    assert lab.worker_state(lost) == "shutdown", "max_timeout_exceeded"
    with refused("TK409"):
        lab.claim(worker="lost")
    lab.sound()


def test_a_worker_that_shuts_down_finishes_what_it_holds(lab: Lab) -> None:
    """Worker invariant 3, and busy → shutdown (after_task_complete)."""
    ws = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step("a"), step("b")]})
    worker = lab.worker()
    (claimed,) = lab.claim(1)
    assert lab.call("shutdown_worker", p_worker_uuid=worker, p_reason="deploy") == "busy"
    assert lab.claim() == []
    assert [row["code"] for row in lab.complete([claimed])] == [None]
    assert lab.call("worker_heartbeat", p_worker_uuid=worker) == "shutdown"
    lab.work(worker="next")
    assert lab.state(ws) == "completed"


def test_a_finished_workstream_is_preserved(lab: Lab) -> None:
    """Workstream invariant 4: nothing that ended can be removed or changed, by anybody."""
    ws = lab.create(
        {"name": "ws", "vocabulary": "orchestration", "steps": [step("a", max_attempts=1, on_failure="stop")]}
    )
    lab.work(lambda claimed: BROKEN)
    assert lab.state(ws) == "failed"
    for statement in (
        "delete from tasker.task_transitions where task_uuid = %s",
        "update tasker.task_transitions set to_state = 'completed' where task_uuid = %s",
        "delete from tasker.workflow_step_transitions where task_uuid = %s",
    ):
        with refused("TK409"):
            lab.rows(statement, ws)
    assert lab.states(ws) == {"a": "failed"}
    error = lab.one("select last_error from tasker.step_overview where task_uuid = %s", ws)
    assert error == BROKEN["error"], "Set last_error from worker output"


def test_validation_is_run_by_the_worker_that_did_the_work(lab: Lab) -> None:
    """running → validating: Run post_execution validation rules; the worker keeps the task until it says how they went."""
    ws = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step("a", acceptance=[{"type": "lint"}])]})
    (claimed,) = lab.claim()
    assert claimed["acceptance"] == [{"type": "lint"}]
    (answer,) = lab.complete([claimed])
    assert answer["state"] == "validating"
    wrong = {"p_step_uuid": claimed["workflow_step_uuid"], "p_claim_uuid": UUID(int=0), "p_passed": True}
    with refused("TK412"):
        lab.call("report_validation", **wrong)
    details = {"rule": "no tabs"}
    state = lab.call(
        "report_validation", p_step_uuid=claimed["workflow_step_uuid"], p_claim_uuid=claimed["claim_uuid"],
        p_passed=False, p_details=details,
    )  # fmt: skip
    assert state == "failed"
    metadata = lab.one(
        "select metadata from tasker.workflow_step_transitions where workflow_step_uuid = %s and most_recent",
        claimed["workflow_step_uuid"],
    )
    assert metadata["validation"] == details, "Set last_error with validation details"
    assert len(lab.rows("select * from tasker.get_task_audit_history(%s)", ws)) == 1, "one reported result"
    lab.sound()


def test_a_worker_that_dies_while_it_validates_fails_the_validation(lab: Lab) -> None:
    ws = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [step("a", acceptance=[{"type": "lint"}])]})
    lab.complete(lab.claim(lease="30 s"))
    assert lab.states(ws) == {"a": "validating"}
    lab.later("31 seconds")
    lab.settle()
    assert lab.path(ws, "a")[-2:] == ["validating", "failed"]
    lab.sound()


def test_retry_delay_grows_exponentially(lab: Lab) -> None:
    """running → retrying: Increment retry_count, schedule retry with exponential backoff."""
    fast = {"base_delay": 2, "jitter": 0}
    ws = lab.create({"name": "ws", "vocabulary": "orchestration", "steps": [{"name": "a", "retry": fast}]})
    lab.work(lambda claimed: BROKEN if claimed["attempt"] < 5 else None)
    delays = lab.column(
        "select (metadata ->> 'delay_seconds')::float from tasker.workflow_step_transitions"
        " where task_uuid = %s and to_state = 'retrying' order by sort_key",
        ws,
    )
    assert delays == [2, 4, 8, 16]
    assert lab.state(ws) == "completed"
