"""The same workflow with the same Python worker and the same handlers under all five vocabularies: each through its own states."""

from __future__ import annotations

from typing import Any

import pytest

from pgtasker import Client, StepContext, TransientError, Worker
from tests.pyclient.conftest import eventually
from tests.pyclient.test_worker import running
from tests.vocabularies.lab import VOCABULARIES
from tests.vocabularies.test_same_workflow import ENDED_WELL, RETRIED, STEP_DONE, TASK_PATH

FLOW: dict[str, Any] = {
    "name": "same",
    "steps": [
        {"name": "top", "handler": "add"},
        {"name": "left", "handler": "fails twice", "depends_on": ["top"], "retry": {"base_delay": 0, "jitter": 0}},
        {"name": "right", "handler": "add", "depends_on": ["top"], "acceptance": [{"type": "custom", "handler": "is three"}]},
        {"name": "bottom", "handler": "add", "depends_on": ["left", "right"]},
    ],
}  # fmt: skip


def worker_of(database: str, vocabulary: str) -> Worker:
    """Seed 001 names no lifecycle for workers: its steps are taken by workers of any other vocabulary."""
    worker = Worker(database, vocabulary="tasker" if vocabulary == "pipeline" else vocabulary, concurrency=4)

    @worker.step("add")
    def add(ctx: StepContext) -> int:
        return 2 + sum(ctx.inputs.values()) if ctx.inputs else 1

    @worker.step("fails twice")
    def fails_twice(ctx: StepContext) -> int:
        if ctx.attempt < 3:
            raise TransientError("not yet")
        return add(ctx)

    @worker.check("is three")
    def is_three(ctx: StepContext, result: Any) -> bool:
        return bool(result == 3)

    return worker


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_one_worker_one_workflow_five_ways(vocabulary: str, database: str) -> None:
    with Client(database) as client:
        flow = {**FLOW, "vocabulary": vocabulary, **({"worker_count": 1} if vocabulary == "supervision" else {})}
        task = client.create_task_from_graph(flow)
        with running(worker_of(database, vocabulary)):
            eventually(lambda: client.task(task).is_terminal, 60)
        steps = {step.name: step for step in client.steps(task)}
        assert {name: step.result for name, step in steps.items()} == {"top": 1, "left": 3, "right": 3, "bottom": 8}
        assert {step.state for step in steps.values()} == {STEP_DONE[vocabulary]}
        assert client.task(task).state == ENDED_WELL[vocabulary]
        timeline = client.timeline(task)
        assert [e.to_state for e in timeline if e.entity_uuid == steps["left"].workflow_step_uuid] == RETRIED[
            vocabulary
        ]
        if vocabulary in TASK_PATH:
            assert [e.to_state for e in timeline if e.entity_uuid == task] == TASK_PATH[vocabulary]
        audit = client.get_task_audit_history(task)
        assert sorted(row.success for row in audit) == [False] * 2 + [True] * 4, "one row a reported result"
        assert client.check_consistency() == []
