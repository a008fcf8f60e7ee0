"""Seed 004 told as a story: its seven points of integration, and its two status functions, in the order of the page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from pgtasker import ClaimedStep, Client

GRAPH = {
    "name": "story",
    "steps": [
        {"name": "first", "max_attempts": 2, "retry": {"base_delay": 60, "jitter": 0}},
        {"name": "second", "depends_on": ["first"]},
    ],
}


class Story:
    """One task and a worker; remembers how much of the log was read already."""

    def __init__(self, client: Client, conn: psycopg.Connection[Any]) -> None:
        self.client = client
        self.conn = conn
        self.worker_uuid = client.register_worker("story")
        self.cursor: str | None = client.current_cursor()
        self.task_uuid: UUID = client.create_task_from_graph(GRAPH, namespace="story")
        self.names = {s.workflow_step_uuid: s.name for s in client.steps(self.task_uuid)} | {self.task_uuid: "task"}

    def happened(self) -> set[tuple[str, str | None, str]]:
        """Return what was appended to the logs of tasks and steps since the last call: (name, event, state)."""
        changes = self.client.changes_after(self.cursor)
        self.cursor = changes[-1].cursor if changes else self.cursor
        return {
            (self.names[change.entity_uuid], change.event, change.to_state)
            for change in changes
            if change.log in {"task", "step"}
        }

    def claim(self) -> ClaimedStep:
        (claimed,) = self.client.claim_steps(self.worker_uuid)
        return claimed

    def state(self) -> str:
        return self.client.task(self.task_uuid).state

    def readiness(self) -> dict[str, bool]:
        return {
            row["name"]: row["ready_for_execution"] for row in self.client.get_step_readiness_status(self.task_uuid)
        }

    def health(self) -> tuple[str, str]:
        context = self.client.get_task_execution_context(self.task_uuid)
        return context["execution_status"], context["health_status"]


@pytest.fixture
def story(database: str, conn: psycopg.Connection[Any]) -> Any:
    with Client(database) as client:
        yield Story(client, conn)


def test_the_seven_points_of_integration(story: Story) -> None:
    # 1 the task discovers ready steps, 2 they get enqueued
    assert story.happened() == {
        ("task", "create", "pending"),
        ("task", "start", "initializing"),
        ("task", "ready_steps_found", "enqueuing_steps"),
        ("task", "steps_enqueued", "steps_in_process"),
        ("first", "create", "pending"),
        ("second", "create", "pending"),
        ("first", "enqueue", "enqueued"),
    }
    # 3 a worker claims
    claimed = story.claim()
    assert claimed.name == "first"
    assert story.happened() == {("first", "start", "in_progress")}
    # 4 it completes: the result waits for orchestration, the task has not moved
    story.client.complete_step(claimed.workflow_step_uuid, claimed.claim_uuid, 1)
    assert story.happened() == {("first", "enqueue_for_orchestration", "enqueued_for_orchestration")}
    assert story.state() == "steps_in_process"
    # 5 orchestration processes the result, 6 the task evaluates, 7 and continues
    story.client.orchestrate()
    assert story.happened() == {
        ("first", "complete", "complete"),
        ("task", "all_steps_completed", "evaluating_results"),
        ("task", "ready_steps_found", "enqueuing_steps"),
        ("task", "steps_enqueued", "steps_in_process"),
        ("second", "enqueue", "enqueued"),
    }
    # 7 or completes
    claimed = story.claim()
    assert claimed.inputs == {"first": 1}
    story.client.complete_step(claimed.workflow_step_uuid, claimed.claim_uuid, 2)
    story.client.orchestrate()
    assert story.happened() >= {
        ("second", "complete", "complete"),
        ("task", "all_steps_successful", "complete"),
    }
    assert story.client.check_consistency() == []


def test_waiting_for_retry_is_eligible_and_recovering_is_not_blocked(story: Story) -> None:
    assert story.readiness() == {"first": True, "second": False}
    assert story.health() == ("processing", "healthy")

    claimed = story.claim()
    story.client.fail_step(claimed.workflow_step_uuid, claimed.claim_uuid, {"message": "no"}, "transient")
    story.client.orchestrate()
    assert story.state() == "waiting_for_retry"
    assert story.readiness() == {"first": False, "second": False}, "the backoff is not over"
    assert story.health() == ("waiting_for_retry", "recovering")

    story.conn.execute("insert into tasker.test_clock (shift) values ('2 minutes')")
    assert story.readiness() == {"first": True, "second": False}, "the backoff is over, nobody has looked yet"
    story.client.tick()
    claimed = story.claim()
    story.client.fail_step(claimed.workflow_step_uuid, claimed.claim_uuid, {"message": "no"}, "transient")
    story.client.orchestrate()
    assert story.state() == "blocked_by_failures"
    assert story.readiness() == {"first": False, "second": False}
    assert story.health() == ("blocked_by_failures", "blocked")
