"""A small model of tasks and steps, written from the tables and lists of seed 004 alone, to hold the engine against.

It knows the seed's edges, which guard each of them has, and what follows from entering a state. It knows no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

RETRY_DELAY = 1800.0  # seconds; longer than a test runs, shorter than one shift of the clock

SATISFIED = {"complete", "resolved_manually"}
FAILED = {"error", "cancelled"}
REPORTED = {"enqueued_for_orchestration", "enqueued_as_error_for_orchestration"}
IN_FLIGHT = {"enqueued", "in_progress"} | REPORTED
STEP_TERMINAL = SATISFIED | FAILED
TASK_TERMINAL = {"complete", "error", "cancelled", "resolved_manually"}

COMMANDS = {"cancel", "give_up", "manual_resolution", "reset", "resolve_manually"}


class Refused(Exception):
    """The call must be refused with this SQLSTATE and change nothing."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Step:
    """One step. `claim` is the handle that holds it; `reported` the one whose report is its latest result."""

    name: str
    depends_on: list[Step]
    max_attempts: int
    state: str = "pending"
    attempts: int = 0
    claim: Any = None
    reported: Any = None
    category: str | None = None
    retry_at: float | None = None

    @property
    def is_free(self) -> bool:
        return all(parent.state in SATISFIED for parent in self.depends_on)

    @property
    def is_ready(self) -> bool:
        return self.state == "pending" and self.is_free


@dataclass(eq=False)
class Task:
    """One task. `look_again` says that it was moved by hand and the next tick drives it on."""

    steps: list[Step]
    state: str = "pending"
    look_again: bool = False

    def count(self, states: Iterable[str]) -> int:
        wanted = set(states)
        return sum(step.state in wanted for step in self.steps)


@dataclass
class Model:
    """All tasks, and the clock of leases and timers in seconds."""

    task_edges: dict[tuple[str, str], str]
    step_edges: dict[tuple[str, str], set[str]]
    tasks: list[Task] = field(default_factory=list)
    now: float = 0.0
    leases: dict[Any, float] = field(default_factory=dict)

    # -- tasks

    def guard(self, task: Task, event: str, ready: int, news: bool) -> bool:
        in_flight, waiting = task.count(IN_FLIGHT), task.count(["waiting_for_retry"])
        satisfied, failed = task.count(SATISFIED), task.count(FAILED)
        stuck = failed > 0 and not (ready or in_flight or waiting)
        match task.state, event:
            case _, "no_steps_found":
                return not task.steps
            case _, "ready_steps_found":
                return ready > 0
            case "initializing", "no_dependencies_ready":
                return ready == 0
            case _, "enqueue_failed":
                return False
            case _, "step_failed":
                return waiting > 0 and not (in_flight or ready)
            case _, "all_steps_completed":
                return in_flight == 0
            case _, "step_completed":
                return news
            case "steps_in_process", "retry_ready":
                return ready > 0
            case "waiting_for_retry", "retry_ready":
                return ready > 0 or waiting == 0
            case _, "all_steps_successful":
                return satisfied == len(task.steps)
            case _, "permanent_failure":
                return stuck
            case _, "dependencies_ready":
                return ready > 0 or satisfied == len(task.steps) or (failed > 0 and not (in_flight or waiting))
            case _, "failures_resolved":
                return not stuck
            case _:
                return True

    # the order in which the page's prose asks: is it done, can something start, is it stuck, must it wait
    AUTOMATIC = {
        "pending": ["start"],
        "initializing": ["no_steps_found", "ready_steps_found", "no_dependencies_ready"],
        "enqueuing_steps": ["steps_enqueued"],
        "steps_in_process": ["step_failed", "all_steps_completed", "step_completed", "retry_ready"],
        "evaluating_results": [
            "all_steps_successful", "ready_steps_found", "permanent_failure", "no_dependencies_ready",
        ],
        "waiting_for_dependencies": ["dependencies_ready"],
        "waiting_for_retry": ["retry_ready"],
        "blocked_by_failures": ["failures_resolved"],
    }  # fmt: skip

    def drive(self, task: Task, ready: list[Step] | None = None, news: bool = False) -> None:
        """Move the task as far as it goes by itself; `ready` are the steps it looks at, all of them when None."""
        if task.state == "pending" and ready is not None:
            return  # what happens to single steps does not start a task that nobody started
        found = [step for step in (task.steps if ready is None else ready) if step.is_ready]
        while task.state in self.AUTOMATIC:
            for event in self.AUTOMATIC[task.state]:
                if self.guard(task, event, len(found), news):
                    task.state = self.task_edges[task.state, event]
                    break
            else:
                break
            task.look_again = False
            if task.state == "enqueuing_steps":
                for step in found:
                    step.state = "enqueued"
                found = []
            elif task.state == "evaluating_results":
                news = False

    def cancel_steps(self, task: Task, only_under_way: bool) -> None:
        for step in task.steps:
            if step.state not in STEP_TERMINAL and not (only_under_way and step.state == "pending"):
                step.state, step.claim = "cancelled", None

    def move_task(self, task: Task, event: str) -> None:
        """transition_task, by nobody in particular."""
        if (task.state, event) not in self.task_edges:
            raise Refused("TK409")
        ready = [step for step in task.steps if step.is_ready]
        if not self.guard(task, event, len(ready), task.count(SATISFIED) > 0):
            raise Refused("TK422")
        task.state = self.task_edges[task.state, event]
        task.look_again = task.state not in TASK_TERMINAL
        if task.state == "cancelled":
            self.cancel_steps(task, only_under_way=False)
        elif task.state == "error":
            self.cancel_steps(task, only_under_way=True)
        elif task.state == "enqueuing_steps":
            for step in ready:
                step.state = "enqueued"

    def command_task(self, task: Task, event: str) -> None:
        """cancel_task, give_up_task, resolve_task, reset_task."""
        if (task.state, event) not in self.task_edges:
            raise Refused("TK409")
        task.state = self.task_edges[task.state, event]
        task.look_again = False
        if event == "cancel":
            self.cancel_steps(task, only_under_way=False)
        elif event == "reset":
            for step in task.steps:
                if step.state == "error":
                    step.state, step.attempts = "pending", 0
            self.drive(task)

    # -- steps

    def task_of(self, step: Step) -> Task:
        return next(task for task in self.tasks if step in task.steps)

    def enter(self, step: Step, state: str) -> None:
        """What follows from a step moved by hand."""
        task = self.task_of(step)
        step.state = state
        if state == "enqueued" or state == "in_progress":
            return
        step.claim = None
        if state in REPORTED:
            return
        if state == "waiting_for_retry":
            step.retry_at = self.now + RETRY_DELAY
        if task.state != "pending":
            self.drive(task, news=state in SATISFIED)

    def move_step(self, step: Step, event: str, success: bool) -> None:
        """transition_step."""
        targets = self.step_edges.get((step.state, event))
        if not targets:
            raise Refused("TK409")
        if event == "enqueue_for_orchestration":
            (target,) = (state for state in targets if ("error" in state) is not success)
            step.category = None
        else:
            (target,) = targets
        if step.state == "pending" and event in ("enqueue", "start") and not step.is_free:
            raise Refused("TK422")
        if event == "wait_for_retry" and (step.attempts >= step.max_attempts or step.category == "permanent"):
            raise Refused("TK422")
        if self.task_of(step).state in TASK_TERMINAL and target not in STEP_TERMINAL:
            raise Refused("TK409")
        if step.state == "in_progress" and event in ("enqueue_for_orchestration", "complete", "fail"):
            step.reported = None  # a result that no claim reported
        self.enter(step, target)

    def command_step(self, step: Step, function: str) -> None:
        """cancel_step, resolve_step, retry_step, reset_step."""
        event = {"cancel_step": "cancel", "resolve_step": "resolve_manually"}.get(function, "retry")
        targets = self.step_edges.get((step.state, event))
        if not targets:
            raise Refused("TK409")
        (target,) = targets
        if self.task_of(step).state in TASK_TERMINAL and target not in STEP_TERMINAL:
            raise Refused("TK409")
        if function == "reset_step":
            step.attempts = 0
        elif function == "retry_step":
            step.max_attempts = max(step.max_attempts, step.attempts + 1)
        self.enter(step, target)

    # -- work

    @property
    def claimable(self) -> list[Step]:
        return [step for task in self.tasks for step in task.steps if step.state == "enqueued"]

    def claim(self, step: Step, handle: Any, lease: float) -> None:
        step.state, step.claim = "in_progress", handle
        step.attempts += 1
        step.max_attempts = max(step.max_attempts, step.attempts)
        self.leases[handle] = self.now + lease

    def report(self, step: Step, handle: Any, success: bool, category: str) -> None:
        """complete_step or fail_step under a claim, current or not."""
        if step.claim != handle:
            if step.reported == handle:
                return  # the answer to the first report was lost: it is told again, nothing changes
            raise Refused("TK412")
        step.state = "enqueued_for_orchestration" if success else "enqueued_as_error_for_orchestration"
        step.claim, step.reported = None, handle
        step.category = None if success else category

    def orchestrate(self) -> None:
        for task in self.tasks:
            settled = [step for step in task.steps if step.state in REPORTED]
            news = False
            waited = [step for step in task.steps if not step.is_free]
            for step in settled:
                if step.state == "enqueued_for_orchestration":
                    step.state, news = "complete", True
                elif step.attempts < step.max_attempts and step.category != "permanent":
                    step.state, step.retry_at = "waiting_for_retry", self.now + RETRY_DELAY
                else:
                    step.state, news = "error", True  # a failure for good is a result to evaluate, too
            if settled:
                ready = [step for step in waited if step.is_ready]
                if not ready and not task.count({*IN_FLIGHT, "waiting_for_retry"}):
                    ready = task.steps  # before it comes to rest it is looked at whole
                self.drive(task, ready, news)

    def tick(self) -> None:
        """Backoffs, then tasks left by hand, then leases."""
        left_by_hand = [task for task in self.tasks if task.look_again]
        for task in self.tasks:
            due = [
                step
                for step in task.steps
                if step.state == "waiting_for_retry" and step.retry_at is not None and step.retry_at <= self.now
            ]
            for step in due:
                step.state = "pending"
            if due:
                self.drive(task, due)
        for task in left_by_hand:
            if task.look_again:  # nothing has moved it on meanwhile
                task.look_again = False
                self.drive(task)
        for task in self.tasks:
            for step in task.steps:
                if step.claim is not None and self.leases[step.claim] <= self.now:
                    step.state, step.claim = "enqueued_as_error_for_orchestration", None
                    step.reported, step.category = None, "transient"
