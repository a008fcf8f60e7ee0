"""No move that a page does not allow: not by event, not by function, not by writing into the log as superuser."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.vocabularies import pages
from tests.vocabularies.lab import Edge, Lab, refused
from tests.vocabularies.test_rules import LIFECYCLES
from tests.workflow.engine import BY, step

EVERY = [*LIFECYCLES, "tasker.task", "tasker.workflow_step"]

VOCABULARY = {lifecycle: lifecycle.partition(".")[0] for lifecycle in EVERY}

# log, its key, the columns that a row takes over from the one before it
LOGS = {
    "task": ("task_transitions", "task_uuid", "task_uuid, namespace"),
    "step": ("workflow_step_transitions", "workflow_step_uuid", "workflow_step_uuid, task_uuid, namespace"),
    "worker": ("worker_transitions", "worker_uuid", "worker_uuid"),
    "circuit_breaker": ("circuit_breaker_transitions", "circuit_breaker_uuid", "circuit_breaker_uuid"),
}


class Book:
    """A lifecycle's rules, and entities put into its states by writing legal rows into their log."""

    def __init__(self, lab: Lab, lifecycle: str) -> None:
        self.lab = lab
        self.lifecycle = lifecycle
        row = lab.row("select kind, initial_state from tasker.lifecycles where lifecycle = %s", lifecycle)
        self.kind, self.initial = row["kind"], row["initial_state"]
        self.states: list[str] = lab.column(
            "select state from tasker.lifecycle_states where lifecycle = %s order by ordinal", lifecycle
        )
        self.events: list[str] = lab.column(
            "select event from tasker.lifecycle_events where lifecycle = %s order by event", lifecycle
        )
        self.edges: set[Edge] = {
            tuple(row.values())
            for row in lab.rows(
                "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = %s", lifecycle
            )
        }

    def allowed(self, state: str) -> set[str]:
        return {event for start, event, _ in self.edges if start == state}

    def new(self) -> UUID:
        lab, vocabulary = self.lab, VOCABULARY[self.lifecycle]
        match self.kind:
            case "task":
                return lab.create({"name": "flow", "vocabulary": vocabulary, "steps": []}, p_start=False)
            case "step":
                flow = {"name": "flow", "vocabulary": vocabulary, "steps": [step("only")]}
                return lab.key(lab.create(flow, p_start=False), "only")
            case "worker":
                # register_worker goes on to the next state at once
                worker: UUID = lab.one(
                    "insert into tasker.workers (name, vocabulary, lifecycle, max_concurrent, last_heartbeat_at)"
                    " values ('w', %s, %s, 1, clock_timestamp() + interval '10 years') returning worker_uuid",
                    vocabulary, self.lifecycle,
                )  # fmt: skip
                lab.rows(
                    "insert into tasker.worker_transitions (worker_uuid, lifecycle, event, to_state, sort_key, most_recent)"
                    " values (%s, %s, 'create', %s, 1, true)",
                    worker, self.lifecycle, self.initial,
                )  # fmt: skip
                return worker
            case _:
                tool = f"{lab.namespace}-{lab.one('select gen_random_uuid()')}"
                lab.call("configure_breaker", p_tool=tool, p_vocabulary=vocabulary)
                return lab.one("select circuit_breaker_uuid from tasker.circuit_breakers where tool = %s", tool)  # type: ignore[no-any-return]

    def append(self, uuid: UUID, edge: Edge) -> None:
        log, key, columns = LOGS[self.kind]
        self.lab.rows(
            f"with ended as (update tasker.{log} set most_recent = false where {key} = %s and most_recent returning *)"
            f" insert into tasker.{log} ({columns}, lifecycle, from_state, event, to_state, sort_key, most_recent)"
            f" select {columns}, lifecycle, %s, %s, %s, sort_key + 1, true from ended",
            uuid, *edge,
        )  # fmt: skip

    def parked(self, state: str) -> UUID:
        """An entity in that state, by the shortest way."""
        ways: dict[str, list[Edge]] = {self.initial: []}
        queue = deque([self.initial])
        while state not in ways:
            here = queue.popleft()
            for edge in sorted(self.edges):
                if edge[0] == here and edge[2] not in ways:
                    ways[edge[2]] = [*ways[here], edge]
                    queue.append(edge[2])
        uuid = self.new()
        for edge in ways[state]:
            self.append(uuid, edge)
        return uuid

    def accepted_into_the_log(self, uuid: UUID, state: str, triples: list[Edge]) -> list[Any]:
        """Which of these rows the log took, or refused without saying what is allowed."""
        log, key, columns = LOGS[self.kind]
        self.lab.rows("drop table if exists taken")
        self.lab.rows("create temp table taken (edge jsonb)")
        self.lab.rows(
            f"""
            do $do$
            declare v_edge jsonb; v_hint text;
            begin
              for v_edge in select jsonb_array_elements({self._literal(triples)}::jsonb) loop
                begin
                  with ended as (update tasker.{log} set most_recent = false where {key} = '{uuid}' and most_recent returning *)
                  insert into tasker.{log} ({columns}, lifecycle, from_state, event, to_state, sort_key, most_recent)
                  select {columns}, lifecycle, v_edge ->> 0, v_edge ->> 1, v_edge ->> 2, sort_key + 1, true from ended;
                  insert into taken values (v_edge);
                exception when sqlstate 'TK409' then
                  get stacked diagnostics v_hint = pg_exception_hint;
                  if v_hint not like 'Allowed from %' and v_hint not like '% is terminal%' then
                    insert into taken values (v_edge || jsonb_build_array(v_hint));
                  end if;
                end;
              end loop;
            end $do$
            """
        )
        return self.lab.column("select edge from taken")

    @staticmethod
    def _literal(triples: list[Edge]) -> str:
        return "'" + json.dumps(triples) + "'"


@pytest.mark.parametrize("lifecycle", EVERY)
def test_no_log_takes_a_row_that_is_no_rule(lab: Lab, lifecycle: str) -> None:
    """Every triple of state, event and state that the rules do not have, tried as superuser on an entity in that state."""
    book = Book(lab, lifecycle)
    tried = 0
    for state in book.states:
        uuid = book.parked(state)
        triples = [
            (state, event, target)
            for event in [*book.events, "create", "no such event"]
            for target in book.states
            if (state, event, target) not in book.edges
        ]
        assert book.accepted_into_the_log(uuid, state, triples) == []
        tried += len(triples)
    assert tried + len(book.edges) == len(book.states) ** 2 * (len(book.events) + 2)


DOORS = [
    lifecycle for lifecycle in EVERY if lifecycle.rpartition(".")[2] in ("task", "workstream", "step", "workflow_step", "job")
]  # fmt: skip


@pytest.mark.parametrize("lifecycle", DOORS)
def test_no_generic_door_lets_an_illegal_event_through(lab: Lab, lifecycle: str) -> None:
    """Refused with the name of the event, the state, and what would be allowed."""
    book = Book(lab, lifecycle)
    function = "transition_task" if book.kind == "task" else "transition_step"
    for state in book.states:
        uuid = book.parked(state)
        for event in [*book.events, "no such event"]:
            if event in book.allowed(state):
                continue
            with refused("TK409") as refusal:
                lab.one(f"select tasker.{function}(%s, %s)", uuid, event)
            assert refusal.detail["from_state"] == state
            assert set(refusal.detail["allowed"]) == book.allowed(state)
            assert event in refusal.message
            assert all(name in refusal.hint for name in book.allowed(state))
            assert book.allowed(state) or "terminal" in refusal.hint


# -- the moves that the pages themselves forbid


def forbidden(shared: Path) -> list[tuple[str, str, str]]:
    moves = [("pipeline.workstream", *move) for move in pages.forbidden_001(shared)]
    moves += [("supervision.worker", *move) for move in pages.forbidden_003(shared, "### 1.4 Invalid Transitions")]
    moves += [("supervision.job", *move) for move in pages.forbidden_003(shared, "### 2.4 Invalid Transitions")]
    return moves


# Both say COMPLETED is terminal, and the transition table lets a supervisor terminate a worker "from any state".
# For the job the list has "COMPLETED → *", and its table has no row out of it.
def test_the_moves_that_the_pages_forbid_are_refused(lab: Lab, shared: Path) -> None:
    moves = forbidden(shared)
    assert len(moves) == 6 + 6 + 4
    books: dict[str, Book] = {}
    for lifecycle, start, target in moves:
        book = books.setdefault(lifecycle, Book(lab, lifecycle))
        targets = book.states if target in ("Any", "*") else [target]
        triples = [(start, event, end) for event in book.events for end in targets]
        assert not set(triples) & book.edges, (lifecycle, start, target)
        assert book.accepted_into_the_log(book.parked(start), start, triples) == []
        if book.kind == "task":
            leading = {event for _, event, end in book.edges if end in targets}
            uuid = book.parked(start)
            for event in leading - book.allowed(start):
                with refused("TK409"):
                    lab.call("transition_task", p_task_uuid=uuid, p_event=event)


WORKER_CALLS = {
    ("IDLE", "PAUSED"): "pause_worker",
    ("COMPLETED", "PAUSED"): "pause_worker",
    ("COMPLETED", "RUNNING"): "resume_worker",
    ("FAILED", "RUNNING"): "resume_worker",
    ("TERMINATED", "RUNNING"): "start_worker",
    ("TERMINATED", "PAUSED"): "pause_worker",
    ("TERMINATED", "TERMINATED"): "terminate_worker",
}


@pytest.mark.parametrize(("start", "target"), WORKER_CALLS, ids="-".join)
def test_the_calls_of_a_supervisor_answer_409(lab: Lab, start: str, target: str) -> None:
    """Seed 003, 1.4: forbidden and will return 409 Conflict."""
    worker = Book(lab, "supervision.worker").parked(start)
    with refused("TK409") as refusal:
        lab.call(WORKER_CALLS[start, target], p_worker_uuid=worker, **BY)
    assert refusal.detail["from_state"] == start
    assert lab.worker_state(worker) == start
    assert lab.one("select http_status from tasker.error_catalogue where code = 'TK409'") == 409
    hints = {"IDLE": "start_task", "TERMINATED": "Create a new one instead"}
    assert hints.get(start, "terminate") in refusal.hint


def test_an_idle_worker_does_not_complete_without_running(lab: Lab) -> None:
    """Seed 003: IDLE → COMPLETED (cannot complete without running). Asked to shut down, it stays where it is."""
    (worker,) = lab.supervised(1)
    assert lab.call("shutdown_worker", p_worker_uuid=worker) == "IDLE"
    assert lab.claim(worker=worker) == []


def test_a_job_goes_through_pending(lab: Lab) -> None:
    """Seed 003: SUBMITTED → RUNNING (must go through PENDING), and the table has no cancel from SUBMITTED."""
    job = lab.create(
        {"name": "flow", "vocabulary": "supervision", "worker_count": 1, "steps": [step("a")]}, p_start=False
    )
    for event in ("allocate_resources", "cancel", "success"):
        with refused("TK409") as refusal:
            lab.call("transition_task", p_task_uuid=job, p_event=event)
        assert "validate" in refusal.hint
    with refused("TK409"):
        lab.command("cancel_task", job)
    with refused("TK404"):
        lab.command("cancel_task", UUID(int=0))
