"""Random histories against a model written from the seed's tables: legal and illegal calls, several connections."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel import seed004
from tests.kernel.engine import BY_HAND, DIAMOND, Engine, Row, chain
from tests.kernel.reference_model import COMMANDS, TASK_TERMINAL, Model, Refused, Step, Task
from tests.kernel.test_seed_004 import ADDITIONS

EXAMPLES = int(os.environ.get("PGTASKER_HISTORIES", "0"))
"""How many random histories to try; 0 tries the same few ones every time."""

SHAPES: dict[str, list[Row]] = {
    "nothing": [],
    "one": [{"name": "a"}],
    "chain": chain("a", "b"),
    "beside each other": [{"name": "a"}, {"name": "b"}],
    "join": [{"name": "a"}, {"name": "b"}, {"name": "c", "depends_on": ["a", "b"]}],
    "diamond": DIAMOND,
}

TASK_EVENTS = [
    "start", "ready_steps_found", "no_steps_found", "no_dependencies_ready", "steps_enqueued", "enqueue_failed",
    "all_steps_completed", "step_completed", "step_failed", "all_steps_successful", "permanent_failure",
    "dependencies_ready", "retry_ready", "failures_resolved", "give_up", "manual_resolution", "cancel", "reset", "timeout",
]  # fmt: skip
STEP_EVENTS = [
    "enqueue", "start", "enqueue_for_orchestration", "complete", "fail", "wait_for_retry", "cancel", "resolve_manually",
    "retry",
]  # fmt: skip
TASK_COMMANDS = {
    "cancel_task": "cancel", "give_up_task": "give_up", "resolve_task": "manual_resolution", "reset_task": "reset",
}  # fmt: skip
STEP_COMMANDS = ["cancel_step", "resolve_step", "retry_step", "reset_step"]

HOUR = 3600.0
SHORT_LEASE, LONG_LEASE = 1800.0, 100 * HOUR


def seed_edges(shared: Path) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], set[str]]]:
    """The seed's edges and our additions, by start and event."""
    task = {(edge.from_state, edge.event): edge.to_state for edge in seed004.edges(shared, "tasker.task")}
    task |= {(start, event): end for start, event, end in ADDITIONS["tasker.task"]}
    step: dict[tuple[str, str], set[str]] = {}
    for edge in seed004.edges(shared, "tasker.workflow_step"):
        step.setdefault((edge.from_state, edge.event), set()).add(edge.to_state)
    for start, event, end in ADDITIONS["tasker.workflow_step"]:
        step.setdefault((start, event), set()).add(end)
    return task, step


class Histories(RuleBasedStateMachine):
    """The engine and the model get the same calls and must answer the same."""

    def __init__(self, server: TestServer, shared: Path) -> None:
        super().__init__()
        self._stack = contextlib.ExitStack()
        dsn = self._stack.enter_context(fresh_database(server, TEMPLATE))
        self.engines = [
            Engine(self._stack.enter_context(psycopg.connect(dsn, autocommit=True)), "random") for _ in range(3)
        ]
        self.model = Model(*seed_edges(shared))
        self.task_keys: list[UUID] = []
        self.step_keys: dict[UUID, Step] = {}
        self.handles: list[tuple[UUID, UUID]] = []  # (step, claim) of every claim ever made
        self.workers = [engine.worker() for engine in self.engines]

    def teardown(self) -> None:
        self._stack.close()

    # -- choosing

    def some_task(self, number: int) -> tuple[UUID, Task] | None:
        if not self.task_keys:
            return None
        place = number % len(self.task_keys)
        return self.task_keys[place], self.model.tasks[place]

    def some_step(self, number: int) -> tuple[UUID, Step] | None:
        steps = list(self.step_keys.items())
        return steps[number % len(steps)] if steps else None

    @contextlib.contextmanager
    def same_answer(self) -> Iterator[list[Any]]:
        """The block appends what the model is to do; an error of the engine must be the model's refusal."""
        todo: list[Any] = []
        code = None
        try:
            yield todo
        except psycopg.Error as error:
            code = error.sqlstate
        expected = None
        try:
            todo[0]()
        except Refused as refusal:
            expected = refusal.code
        assert code == expected

    # -- calls

    @initialize(shape=st.sampled_from(sorted(SHAPES)))
    def first_task(self, shape: str) -> None:
        self.create(0, shape, True, 3)

    @rule(
        place=st.integers(0, 2),
        shape=st.sampled_from(sorted(SHAPES)),
        start=st.booleans(),
        max_attempts=st.integers(1, 3),
    )
    def create(self, place: int, shape: str, start: bool, max_attempts: int) -> None:
        if len(self.task_keys) >= 4:
            return  # steps enough: a claim takes at most 16
        engine = self.engines[place]
        retry = {"base_delay": 1800, "max_delay": 1800, "jitter": 0}
        limits = {
            "max_attempts": max_attempts,
            "retry": retry,
            "timeout_seconds": 31_536_000,
        }  # leases end, steps do not
        steps = [{**step, **limits} for step in SHAPES[shape]]
        key = engine.task(steps, start=start)
        made: dict[str, Step] = {}
        for step in SHAPES[shape]:
            parents = [made[name] for name in step.get("depends_on", [])]
            made[step["name"]] = Step(step["name"], parents, max_attempts)
        task = Task(list(made.values()))
        self.model.tasks.append(task)
        self.task_keys.append(key)
        for name, uuid in engine.steps(key).items():
            self.step_keys[uuid] = made[name]
        if start:
            self.model.drive(task)

    @rule(place=st.integers(0, 2), limit=st.sampled_from([1, 2, 100]), lease=st.sampled_from([SHORT_LEASE, LONG_LEASE]))
    def claim(self, place: int, limit: int, lease: float) -> None:
        claimable = self.model.claimable
        claimed = self.engines[place].claim(self.workers[place], limit, f"{lease} seconds")
        assert len(claimed) == min(limit, len(claimable))
        for row in claimed:
            step = self.step_keys[row["workflow_step_uuid"]]
            assert step in claimable
            self.model.claim(step, row["claim_uuid"], lease)
            assert (row["attempt"], row["max_attempts"]) == (step.attempts, step.max_attempts)
            assert set(row["inputs"]) == {parent.name for parent in step.depends_on}
            self.handles.append((row["workflow_step_uuid"], row["claim_uuid"]))

    @rule(
        place=st.integers(0, 2), number=st.integers(0, 50), success=st.booleans(),
        category=st.sampled_from(["transient", "permanent", "unknown"]),
    )  # fmt: skip
    def report(self, place: int, number: int, success: bool, category: str) -> None:
        """Under any claim that was ever made: the newest ones are likely current, the others late."""
        if not self.handles:
            return
        uuid, claim = self.handles[-1 - number % len(self.handles)]
        handle = {"workflow_step_uuid": uuid, "claim_uuid": claim}
        with self.same_answer() as todo:
            todo.append(lambda: self.model.report(self.step_keys[uuid], claim, success, category))
            if success:
                self.engines[place].complete(handle, {"by": place})
            else:
                self.engines[place].fail(handle, category)

    @rule(
        place=st.integers(0, 2),
        limit=st.sampled_from([1, 100]),
        outcomes=st.lists(st.sampled_from(["success", "success", "transient", "permanent"]), min_size=4, max_size=4),
    )
    def work(self, place: int, limit: int, outcomes: list[str]) -> None:
        """What a worker does all day: claim, report each step, orchestrate."""
        newest = len(self.handles)
        self.claim(place, limit, LONG_LEASE)
        for number, outcome in zip(range(len(self.handles) - newest), outcomes * 4, strict=False):
            self.report(place, number, outcome == "success", "unknown" if outcome == "success" else outcome)
        self.orchestrate(place)

    @rule(place=st.integers(0, 2))
    def orchestrate(self, place: int) -> None:
        self.engines[place].orchestrate()
        self.model.orchestrate()

    @rule(place=st.integers(0, 2), hours=st.sampled_from([0, 0, 1]))
    def tick(self, place: int, hours: int) -> None:
        if hours:
            self.engines[place].shift_clock(f"{hours} hours")
            self.model.now += hours * HOUR
        self.engines[place].tick()
        self.model.tick()

    @rule(place=st.integers(0, 2), number=st.integers(0, 3), function=st.sampled_from(sorted(TASK_COMMANDS)))
    def command_task(self, place: int, number: int, function: str) -> None:
        if chosen := self.some_task(number):
            key, task = chosen
            with self.same_answer() as todo:
                todo.append(lambda: self.model.command_task(task, TASK_COMMANDS[function]))
                self.engines[place].command(function, key)

    @rule(place=st.integers(0, 2), number=st.integers(0, 15), function=st.sampled_from(STEP_COMMANDS))
    def command_step(self, place: int, number: int, function: str) -> None:
        if chosen := self.some_step(number):
            key, step = chosen
            with self.same_answer() as todo:
                todo.append(lambda: self.model.command_step(step, function))
                self.engines[place].command(function, key)

    @rule(place=st.integers(0, 2), number=st.integers(0, 3), event=st.sampled_from(TASK_EVENTS))
    def move_task(self, place: int, number: int, event: str) -> None:
        if chosen := self.some_task(number):
            key, task = chosen
            reason = BY_HAND if event in COMMANDS else {}
            with self.same_answer() as todo:
                todo.append(lambda: self.model.move_task(task, event))
                self.engines[place].move_task(key, event, **reason)

    @rule(place=st.integers(0, 2), number=st.integers(0, 15), event=st.sampled_from(STEP_EVENTS), success=st.booleans())
    def move_step(self, place: int, number: int, event: str, success: bool) -> None:
        if chosen := self.some_step(number):
            key, step = chosen
            metadata = {**BY_HAND, "success": success} if event == "enqueue_for_orchestration" else BY_HAND
            with self.same_answer() as todo:
                todo.append(lambda: self.model.move_step(step, event, success))
                self.engines[place].move_step(key, event, **metadata)

    # -- what must always be so

    @invariant()
    def the_states_are_those_of_the_model(self) -> None:
        states = dict(
            (row["uuid"], row["state"])
            for row in self.engines[0].rows(
                "select task_uuid as uuid, to_state as state from tasker.task_transitions where most_recent"
                " union all select workflow_step_uuid, to_state from tasker.workflow_step_transitions where most_recent"
            )
        )
        expected = {key: task.state for key, task in zip(self.task_keys, self.model.tasks, strict=True)}
        expected |= {key: step.state for key, step in self.step_keys.items()}
        assert states == expected

    @invariant()
    def nothing_is_inconsistent(self) -> None:
        self.engines[0].assert_consistent()

    @invariant()
    def the_fence_is_that_of_the_model(self) -> None:
        held = {
            row["workflow_step_uuid"]: row["claim_uuid"]
            for row in self.engines[0].rows(
                "select workflow_step_uuid, claim_uuid from tasker.workflow_steps where claim_uuid is not null"
            )
        }
        assert held == {key: step.claim for key, step in self.step_keys.items() if step.claim is not None}


class NothingStrands(Histories):
    """The same histories; at the end everybody who came by hand is gone and the engine finishes what can be finished."""

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            super().teardown()

    def finish(self) -> None:
        engine = self.engines[0]
        for key, step in self.step_keys.items():
            if step.state == "in_progress" and step.claim is None:
                engine.move_step(key, "complete")  # started by hand: nobody else will ever report it
        for _ in itertools.repeat(None, 12):
            engine.shift_clock("200 hours")
            engine.tick()
            engine.orchestrate()
            engine.finish(self.workers[0])
        states = {key: engine.state(key) for key in self.task_keys}
        # A task that nobody started waits for its start; one that is blocked waits for an operator. No other may rest.
        assert set(states.values()) <= TASK_TERMINAL | {"pending", "blocked_by_failures"}, states
        for key, state in states.items():
            if state == "pending":
                assert engine.values(
                    "select event from tasker.task_transitions where task_uuid = %s and most_recent", key
                ) == ["create"]
        engine.assert_consistent()


@pytest.mark.parametrize("machine", [Histories, NothingStrands])
def test_random_histories(server: TestServer, shared: Path, machine: type[Histories]) -> None:
    run_state_machine_as_test(
        lambda: machine(server, shared),  # type: ignore[arg-type]  # a factory is taken as well as a class
        settings=settings(
            max_examples=EXAMPLES or 12,
            stateful_step_count=25,
            deadline=None,
            derandomize=not EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
