"""The same workflow under all five vocabularies, by the same worker loop in plain SQL: each goes its own way and ends right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from tests.vocabularies.lab import VOCABULARIES, Lab, refused
from tests.workflow.engine import Row, step

Handler = Callable[[Row], Row | None]

BROKEN: Row = {"success": False, "error": {"type": "io", "message": "it broke"}, "category": "transient"}
WRONG: Row = {"success": False, "error": {"type": "syntax", "message": "it is wrong"}, "category": "permanent"}


def diamond(**fields: Any) -> list[Row]:
    return [
        step("top", **fields), step("left", "top", **fields), step("right", "top", **fields),
        step("bottom", "left", "right", **fields),
    ]  # fmt: skip


def create(lab: Lab, vocabulary: str, steps: list[Row], **fields: Any) -> UUID:
    """The workflow; a job of `supervision` asks for one worker, which is there."""
    if vocabulary == "supervision":
        fields.setdefault("worker_count", 1)
        (lab.worker_uuid,) = lab.supervised(1)  # type: ignore[attr-defined]
    return lab.create({"name": "flow", "vocabulary": vocabulary, "steps": steps, **fields})


def work(lab: Lab, vocabulary: str, handler: Handler = lambda _: None) -> int:
    worker = lab.worker_uuid if vocabulary == "supervision" else "w"  # type: ignore[attr-defined]
    return lab.work(handler, worker=worker)


def failing(name: str, *outcomes: Row) -> Handler:
    """The step of that name ends so, attempt by attempt; after that, and all others, well."""
    left = list(outcomes)

    def handle(claimed: Row) -> Row | None:
        return left.pop(0) if claimed["name"] == name and left else None

    return handle


ENDED_WELL = {
    "tasker": "complete", "orchestration": "completed", "pipeline": "S_SUCCESS", "execution": "S_SUCCESS",
    "supervision": "COMPLETED",
}  # fmt: skip
STEP_DONE = {
    "tasker": "complete", "orchestration": "completed", "pipeline": "S_SUCCESS", "execution": "COMPLETED",
    "supervision": "complete",
}  # fmt: skip

# -- one step fails twice, then succeeds

RETRIED = {
    "tasker": [
        "pending", "enqueued", *(["in_progress", "enqueued_as_error_for_orchestration", "waiting_for_retry", "pending", "enqueued"] * 2),
        "in_progress", "enqueued_for_orchestration", "complete",
    ],
    "orchestration": ["pending", "queued", *(["running", "retrying", "queued"] * 2), "running", "validating", "completed"],
    "pipeline": ["S_PENDING", *(["S_RUNNING", "S_FAILED", "S_RETRYING"] * 2), "S_RUNNING", "S_SUCCESS"],
    "execution": [
        "PENDING", *(["IN_PROGRESS", "FAILED", "RETRYING"] * 2), "IN_PROGRESS", "VALIDATING", "COMPLETED",
    ],
}  # fmt: skip
RETRIED["supervision"] = RETRIED["tasker"]

TASK_PATH = {
    "orchestration": ["planned", "ready", "executing", "validating", "completed"],
    "pipeline": ["S_PENDING", "S_RUNNING", "S_SUCCESS"],
    "execution": ["S_PENDING", "S_RUNNING", "S_SUCCESS"],
    "supervision": ["SUBMITTED", "PENDING", "RUNNING", "COMPLETED"],
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_diamond_with_a_step_that_fails_twice(lab: Lab, vocabulary: str) -> None:
    task = create(lab, vocabulary, diamond())
    assert work(lab, vocabulary, failing("left", BROKEN, BROKEN)) == 6
    assert lab.state(task) == ENDED_WELL[vocabulary]
    assert set(lab.states(task).values()) == {STEP_DONE[vocabulary]}
    assert lab.path(task, "left") == RETRIED[vocabulary]
    if vocabulary in TASK_PATH:
        assert lab.path(task) == TASK_PATH[vocabulary]
    audit = lab.column("select success from tasker.get_task_audit_history(%s)", task)
    assert sorted(audit) == [False] * 2 + [True] * 4, "one row a reported result"
    lab.sound()


def test_one_template_under_every_vocabulary_in_one_call(lab: Lab) -> None:
    """`create_task(..., p_vocabulary)`: the template names one, a task may take another."""
    lab.call("register_template", p_template={"name": "any", "namespace": lab.namespace, "steps": diamond()})
    requests = [{"name": "any", "namespace": lab.namespace, "vocabulary": v} for v in VOCABULARIES]
    tasks = lab.column(
        "select * from tasker.create_tasks(%s)", Jsonb([*requests, {"name": "any", "namespace": lab.namespace}])
    )
    (worker,) = lab.supervised(1)
    lab.work()
    lab.work(worker=worker)
    assert [lab.state(task) for task in tasks] == [*(ENDED_WELL[v] for v in VOCABULARIES), "complete"]
    assert [lab.states(task)["top"] for task in tasks] == [*(STEP_DONE[v] for v in VOCABULARIES), "complete"]
    lab.sound()
    key = {"p_name": "any", "p_namespace": lab.namespace, "p_idempotency_key": "k"}
    first = lab.call("create_task", p_vocabulary="pipeline", **key)
    assert lab.call("create_task", p_vocabulary="pipeline", **key) == first
    with refused("TK423"):
        lab.call("create_task", p_vocabulary="tasker", **key)
    with refused("TK400") as refusal:
        lab.call("create_task", p_name="any", p_namespace=lab.namespace, p_vocabulary="nothing")
    assert "there is no vocabulary 'nothing' with tasks and steps" in refusal.message


# -- one step fails for good

GIVEN_UP = {
    # its dependents are blocked, the rest runs; an operator decides
    "tasker": ("blocked_by_failures", {"top": "complete", "left": "error", "right": "complete", "bottom": "pending"}),
    # non-critical: the workstream goes on executing; dependents are blocked
    "orchestration": ("executing", {"top": "completed", "left": "failed", "right": "completed", "bottom": "pending"}),
    # no retries of the workstream left: abandoned
    "pipeline": ("S_ABANDONED", {"top": "S_SUCCESS", "left": "S_FAILED", "bottom": "S_PENDING"}),
    # dependents are skipped, the circuit of the step is open, the workstream is abandoned
    "execution": ("S_ABANDONED", {"top": "COMPLETED", "left": "CANCELLED", "bottom": "SKIPPED"}),
    "supervision": ("FAILED", {"top": "complete", "left": "error", "right": "complete", "bottom": "cancelled"}),
}  # fmt: skip


@pytest.mark.parametrize("category", ["permanent", "out of attempts"])
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_diamond_with_a_step_that_fails_for_good(lab: Lab, vocabulary: str, category: str) -> None:
    task = create(lab, vocabulary, diamond(max_attempts=3))
    if category == "permanent":
        work(lab, vocabulary, failing("left", WRONG))
    else:
        work(lab, vocabulary, lambda claimed: BROKEN if claimed["name"] == "left" else None)
    state, steps = GIVEN_UP[vocabulary]
    assert lab.state(task) == state
    assert steps.items() <= lab.states(task).items()
    attempts = lab.one("select attempts from tasker.workflow_steps where task_uuid = %s and name = 'left'", task)
    assert attempts == (1 if category == "permanent" else 3)
    lab.sound()


# -- critical and optional steps


# Under `execution` an open circuit is no failure yet: after its cooldown the step is tried again, so the rest goes on.
@pytest.mark.parametrize("vocabulary", [name for name in VOCABULARIES if name != "execution"])
def test_nothing_new_starts_once_a_critical_step_failed(lab: Lab, vocabulary: str) -> None:
    """Two branches; the critical one fails while the other is at its first step: its second one never runs."""
    task = create(
        lab, vocabulary,
        [step("critical", on_failure="stop", max_attempts=1), step("other"), step("after", "other")],
    )  # fmt: skip
    order = []

    def handle(claimed: Row) -> Row | None:
        order.append(claimed["name"])
        return BROKEN if claimed["name"] == "critical" else None

    work(lab, vocabulary, handle)
    assert "after" not in order
    assert lab.state(task) == {
        "tasker": "blocked_by_failures", "orchestration": "failed", "pipeline": "S_ABANDONED",
        "supervision": "FAILED",
    }[vocabulary]  # fmt: skip
    if vocabulary == "orchestration":  # seed 000: Cancel remaining tasks
        assert lab.states(task) == {"critical": "failed", "other": "cancelled", "after": "cancelled"}
        assert lab.one(
            "select r.severity from tasker.task_transitions t"
            " join tasker.lifecycle_transitions r using (lifecycle, from_state, event, to_state)"
            " where t.task_uuid = %s and t.most_recent",
            task,
        ) == "critical"  # fmt: skip
    lab.sound()


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "supervision"])
def test_an_optional_step_holds_nobody_up(lab: Lab, vocabulary: str) -> None:
    task = create(lab, vocabulary, [step("nice", on_failure="continue", max_attempts=1), step("needed", "nice")])
    work(lab, vocabulary, failing("nice", BROKEN))
    assert lab.state(task) == ENDED_WELL[vocabulary]
    assert lab.states(task)["needed"] == STEP_DONE[vocabulary]
    lab.sound()


# -- timeouts

TIMED_OUT = {
    "tasker": ["in_progress", "enqueued_as_error_for_orchestration", "waiting_for_retry"],
    "orchestration": ["running", "retrying"],
    "pipeline": ["S_RUNNING", "S_FAILED", "S_RETRYING"],
    "execution": ["IN_PROGRESS", "TIMEOUT", "RETRYING"],
}
TIMED_OUT["supervision"] = TIMED_OUT["tasker"]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_step_that_runs_too_long_is_retried(lab: Lab, vocabulary: str) -> None:
    task = create(lab, vocabulary, [step("slow", timeout_seconds=10)])
    worker = lab.worker_uuid if vocabulary == "supervision" else "w"  # type: ignore[attr-defined]
    lab.settle()
    (claimed,) = lab.claim(worker=worker, lease="1 hour")
    lab.later("11 seconds")
    lab.settle()
    path = lab.path(task, "slow")
    place = path.index(TIMED_OUT[vocabulary][0])
    assert path[place : place + len(TIMED_OUT[vocabulary])] == TIMED_OUT[vocabulary]
    (late,) = lab.complete([claimed])
    assert late["code"] == "TK412"
    (row,) = lab.rows("select success, metadata from tasker.get_task_audit_history(%s)", task)
    assert (row["success"], row["metadata"]["error"]["type"]) == (False, "timeout")
    work(lab, vocabulary)
    assert lab.state(task) == ENDED_WELL[vocabulary]
    lab.sound()


TASK_TIMED_OUT = {
    "tasker": "error", "orchestration": "cancelled", "pipeline": "S_ABANDONED", "execution": "S_ABANDONED",
    "supervision": "CANCELED",  # seed 003, 4.2: Timeout, Cancel job
}  # fmt: skip


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_workflow_that_takes_too_long_ends(lab: Lab, vocabulary: str) -> None:
    task = create(lab, vocabulary, [step("slow"), step("next", "slow")], timeout_seconds=60)
    worker = lab.worker_uuid if vocabulary == "supervision" else "w"  # type: ignore[attr-defined]
    lab.settle()
    (claimed,) = lab.claim(worker=worker, lease="1 hour")
    lab.later("61 seconds")
    lab.call("extend_leases", p_worker_uuid=worker if isinstance(worker, UUID) else lab.worker(worker))
    lab.settle()
    assert lab.state(task) == TASK_TIMED_OUT[vocabulary]
    assert [row["code"] for row in lab.complete([claimed])] == ["TK412"]
    assert lab.claim() == []
    lab.sound()


# -- cancellation


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_cancelled_workflow_starts_nothing_any_more(lab: Lab, vocabulary: str) -> None:
    task = create(lab, vocabulary, [step("running"), step("waiting"), step("later", "running")])
    worker = lab.worker_uuid if vocabulary == "supervision" else "w"  # type: ignore[attr-defined]
    lab.settle()
    (claimed,) = lab.claim(1, worker=worker)
    state = lab.command("cancel_task", task)
    assert state == {
        "tasker": "cancelled", "orchestration": "cancelled", "pipeline": "S_ABANDONED", "execution": "S_ABANDONED",
        "supervision": "CANCELED",
    }[vocabulary]  # fmt: skip
    (late,) = lab.complete([claimed])
    assert late["code"] == "TK412"
    lab.settle()
    assert lab.claim(worker="somebody else") == []
    # seed 001 has no cancelled state for steps: they stay where they are, and nobody holds them
    if vocabulary == "pipeline":
        assert lab.states(task) == {"running": "S_RUNNING", "waiting": "S_PENDING", "later": "S_PENDING"}
    else:
        assert all(row["is_terminal"] for row in lab.steps(task).values())
    lab.sound()
