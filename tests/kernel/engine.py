"""The engine as tests see it: plain SQL calls over one connection, nothing decided here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

Row = dict[str, Any]

DIAMOND: list[Row] = [
    {"name": "top"},
    {"name": "left", "depends_on": ["top"]},
    {"name": "right", "depends_on": ["top"]},
    {"name": "bottom", "depends_on": ["left", "right"]},
]
"""Four steps; bottom waits for left and right, which wait for top."""


def chain(*names: str, **fields: Any) -> list[Row]:
    """Steps that follow each other; `fields` go into each of them."""
    return [
        {"name": name, **({"depends_on": [names[place - 1]]} if place else {}), **fields}
        for place, name in enumerate(names)
    ]


BY_HAND: Row = {"reason": "test", "requested_by": "somebody"}
_SUCCESS: Row = {"success": True}
_FAILURE: Row = {"success": False, "category": "transient"}

STEP_ROUTES: dict[str, list[tuple[str, Row]]] = {
    "pending": [],
    "enqueued": [("enqueue", {})],
    "in_progress": [("enqueue", {}), ("start", {})],
    "enqueued_for_orchestration": [("enqueue", {}), ("start", {}), ("enqueue_for_orchestration", _SUCCESS)],
    "enqueued_as_error_for_orchestration": [("enqueue", {}), ("start", {}), ("enqueue_for_orchestration", _FAILURE)],
    "waiting_for_retry": [
        ("enqueue", {}), ("start", {}), ("enqueue_for_orchestration", _FAILURE), ("wait_for_retry", {}),
    ],
    "complete": [("enqueue", {}), ("start", {}), ("enqueue_for_orchestration", _SUCCESS), ("complete", {})],
    "error": [("fail", {"error": {"message": "it broke"}})],
    "cancelled": [("cancel", BY_HAND)],
    "resolved_manually": [("resolve_manually", BY_HAND)],
}  # fmt: skip
"""The events that take a step of a task that was not started from pending to each of its states."""


@dataclass
class Refusal:
    """A refused call, as a driver sees it."""

    error: psycopg.Error | None = None

    @property
    def caught(self) -> psycopg.Error:
        assert self.error is not None
        return self.error

    @property
    def code(self) -> str | None:
        return self.caught.sqlstate

    @property
    def message(self) -> str:
        return self.caught.diag.message_primary or ""

    @property
    def hint(self) -> str:
        return self.caught.diag.message_hint or ""

    @property
    def detail(self) -> Row:
        """DETAIL, which is one JSON object in every error of ours."""
        detail = json.loads(self.caught.diag.message_detail or "")
        assert isinstance(detail, dict)
        return detail


@contextlib.contextmanager
def refused(*codes: str) -> Iterator[Refusal]:
    """The block must fail with one of these SQLSTATEs; an error of ours must carry JSON in DETAIL and a HINT."""
    refusal = Refusal()
    with pytest.raises(psycopg.Error) as caught:
        yield refusal
    refusal.error = caught.value
    assert refusal.code in codes, f"{refusal.code} {refusal.message}"
    if refusal.code.startswith("TK"):
        assert refusal.message
        assert refusal.hint, refusal.message
        assert isinstance(refusal.detail, dict)


class Engine:
    """Calls of the contract over one autocommit connection. Keys are UUIDs; rows are dicts.

    With a namespace, tasks are made and steps are claimed there alone: tests that share a database do not meet.
    """

    def __init__(self, conn: psycopg.Connection[Any], namespace: str | None = None) -> None:
        self.conn = conn
        self.namespace = namespace

    # -- plain SQL

    def rows(self, statement: str, *parameters: Any) -> list[Row]:
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode(), parameters or None).fetchall()

    def row(self, statement: str, *parameters: Any) -> Row:
        (row,) = self.rows(statement, *parameters)
        return row

    def one(self, statement: str, *parameters: Any) -> Any:
        (value,) = self.row(statement, *parameters).values()
        return value

    def values(self, statement: str, *parameters: Any) -> list[Any]:
        return [next(iter(row.values())) for row in self.rows(statement, *parameters)]

    def run(self, statement: str, *parameters: Any) -> int:
        """Run a statement that returns nothing; the number of rows it touched."""
        return self.conn.execute(statement.encode(), parameters or None).rowcount

    # -- work

    def task(
        self, steps: Sequence[Mapping[str, Any]], *, start: bool = True, namespace: str | None = None, **more: Any
    ) -> UUID:
        """Create a task from an ad-hoc graph; `more` are fields of the graph."""
        graph = {"name": "test", "steps": list(steps), **more}
        created = self.one(
            "select tasker.create_task_from_graph(p_graph => %s, p_namespace => %s, p_start => %s)",
            json.dumps(graph), namespace or self.namespace or "default", start,
        )  # fmt: skip
        assert isinstance(created, UUID)
        return created

    def steps(self, task: UUID) -> dict[str, UUID]:
        found = self.rows(
            "select name, workflow_step_uuid from tasker.workflow_steps where task_uuid = %s order by ordinal", task
        )
        return {row["name"]: row["workflow_step_uuid"] for row in found}

    def worker(self, name: str = "worker") -> UUID:
        # its heartbeats are not the matter here: these tests shift the clock by hours
        return self.one(  # type: ignore[no-any-return]
            "select tasker.register_worker(%s, p_heartbeat_interval => '1 year')", name
        )

    def processor(self, name: str = "processor", lease: str = "30 seconds") -> UUID:
        return self.one("select tasker.register_processor(%s, %s::interval)", name, lease)  # type: ignore[no-any-return]

    def claim(
        self, worker: UUID, limit: int = 100, lease: str = "30 seconds", namespace: str | None = None
    ) -> list[Row]:
        namespace = namespace or self.namespace
        return self.rows(
            "select * from tasker.claim_steps(%s, %s, %s, %s::interval)",
            worker, [namespace] if namespace else None, limit, lease,
        )  # fmt: skip

    def report(self, *results: Mapping[str, Any]) -> list[Row]:
        return self.rows("select * from tasker.complete_steps(%s)", json.dumps(results, default=str))

    def complete(self, claimed: Mapping[str, Any], result: Any = None) -> str:
        return self.one(  # type: ignore[no-any-return]
            "select tasker.complete_step(%s, %s, %s, 7)",
            claimed["workflow_step_uuid"], claimed["claim_uuid"], json.dumps(result),
        )  # fmt: skip

    def fail(self, claimed: Mapping[str, Any], category: str = "unknown", retry_after: str | None = None) -> str:
        return self.one(  # type: ignore[no-any-return]
            "select tasker.fail_step(%s, %s, %s, %s, %s::interval, 7)",
            claimed["workflow_step_uuid"], claimed["claim_uuid"], '{"message": "it broke"}', category, retry_after,
        )  # fmt: skip

    def orchestrate(self, processor: UUID | None = None, limit: int = 1000) -> Row:
        return self.row("select * from tasker.orchestrate(%s, %s)", processor, limit)

    def tick(self) -> Row:
        return self.row("select * from tasker.tick()")

    def finish(self, worker: UUID) -> None:
        """Claim, complete and orchestrate until nothing is left to claim."""
        while claimed := self.claim(worker):
            outcomes = self.report(
                *({"step_uuid": step["workflow_step_uuid"], "claim_uuid": step["claim_uuid"]} for step in claimed)
            )
            assert all(outcome["code"] is None for outcome in outcomes), outcomes
            self.orchestrate()

    def shift_clock(self, by: str) -> None:
        """Move the clock by which leases, timers and backoffs are judged; shifts add up."""
        self.run(
            "insert into tasker.test_clock (shift) values (%s::interval)"
            " on conflict (singleton) do update set shift = test_clock.shift + excluded.shift",
            by,
        )

    def hurry_results(self) -> None:
        """Make results visible that were put back for the owner of their task: queues go by the real clock."""
        self.run("update pgmq.q_orchestration_step_results set vt = clock_timestamp()")

    # -- doors

    def move_task(self, task: UUID, event: str, processor: UUID | None = None, **metadata: Any) -> str:
        return self.one(  # type: ignore[no-any-return]
            "select tasker.transition_task(%s, %s, %s, %s)", task, event, processor, json.dumps(metadata)
        )

    def move_step(self, step: UUID, event: str, **metadata: Any) -> str:
        return self.one(  # type: ignore[no-any-return]
            "select tasker.transition_step(%s, %s, %s)", step, event, json.dumps(metadata)
        )

    def command(self, function: str, uuid: UUID) -> str:
        """cancel_task, resolve_step and so on, with reason and name."""
        return self.one(  # type: ignore[no-any-return]
            f"select tasker.{function}(%s, p_reason => 'test', p_requested_by => 'somebody')", uuid
        )

    def parked_step(self, state: str) -> UUID:
        """A step in this state, moved there by hand; nothing drives its task, which was not started."""
        step = self.steps(self.task(chain("only"), start=False))["only"]
        for event, metadata in STEP_ROUTES[state]:
            self.move_step(step, event, **metadata)
        assert self.step_state(step) == state
        return step

    def parked_task(self, state: str, processor: UUID | None = None) -> UUID:
        """A task in this state; where it could go on by itself it was moved there by hand and nothing ticks."""
        match state:
            case "complete":
                task = self.task([])
            case "waiting_for_retry" | "blocked_by_failures" | "error" | "resolved_manually":
                namespace = f"parked-{uuid4().hex}"
                task = self.task(chain("only"), namespace=namespace)
                worker = self.worker()
                (claimed,) = self.claim(worker, namespace=namespace)
                self.fail(claimed, "transient" if state == "waiting_for_retry" else "permanent")
                self.orchestrate()
                if state == "error":
                    self.command("give_up_task", task)
                elif state == "resolved_manually":
                    self.command("resolve_task", task)
            case _:
                task = self.task([{"name": "done"}, {"name": "open"}], start=False)
                self.command("resolve_step", self.steps(task)["done"])
                events = ["start", "ready_steps_found", "steps_enqueued", "step_completed", "no_dependencies_ready"]
                if state == "cancelled":
                    self.command("cancel_task", task)
                while self.state(task) != state:
                    self.move_task(task, events.pop(0), processor)
        assert self.state(task) == state
        return task

    # -- reading

    def state(self, task: UUID) -> str:
        return self.one("select tasker.task_state(%s)", task)  # type: ignore[no-any-return]

    def step_state(self, step: UUID) -> str:
        return self.one("select tasker.step_state(%s)", step)  # type: ignore[no-any-return]

    def states(self, task: UUID) -> dict[str, str]:
        return {name: self.step_state(step) for name, step in self.steps(task).items()}

    def task_log(self, task: UUID) -> list[tuple[str | None, str, str]]:
        """(from_state, event, to_state) in order."""
        return [
            tuple(row.values())
            for row in self.rows(
                "select from_state, event, to_state from tasker.task_transitions where task_uuid = %s order by sort_key",
                task,
            )
        ]

    def step_log(self, step: UUID) -> list[tuple[str | None, str, str]]:
        """(from_state, event, to_state) in order."""
        return [
            tuple(row.values())
            for row in self.rows(
                "select from_state, event, to_state from tasker.workflow_step_transitions"
                " where workflow_step_uuid = %s order by sort_key",
                step,
            )
        ]

    def findings(self) -> list[Row]:
        return self.rows("select * from tasker.check_consistency()")

    def assert_consistent(self) -> None:
        """Counters, logs, claims, timers and audit agree with each other."""
        assert self.findings() == []
