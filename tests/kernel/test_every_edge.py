"""Every edge of both lifecycles can really be walked from SQL, legacy and added ones too, and leaves nothing inconsistent."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.kernel.engine import DIAMOND, STEP_ROUTES, Engine, Row, chain

Edge = tuple[str, str, str]

BY_HAND: Row = {"reason": "test", "requested_by": "somebody"}


# -- steps: each edge through the generic door, out of a task that was not started, so that nothing else moves

STEP_EDGES: list[Edge] = [
    ("pending", "enqueue", "enqueued"),
    ("pending", "start", "in_progress"),
    ("pending", "fail", "error"),
    ("enqueued", "start", "in_progress"),
    ("enqueued", "fail", "error"),
    ("in_progress", "enqueue_for_orchestration", "enqueued_for_orchestration"),
    ("in_progress", "enqueue_for_orchestration", "enqueued_as_error_for_orchestration"),
    ("in_progress", "complete", "complete"),
    ("in_progress", "fail", "error"),
    ("enqueued_for_orchestration", "complete", "complete"),
    ("enqueued_as_error_for_orchestration", "wait_for_retry", "waiting_for_retry"),
    ("enqueued_as_error_for_orchestration", "fail", "error"),
    ("waiting_for_retry", "retry", "pending"),
    ("error", "retry", "pending"),
    *((state, "cancel", "cancelled") for state in STEP_ROUTES if state not in ("complete", "cancelled", "resolved_manually")),
    *(
        (state, "resolve_manually", "resolved_manually")
        for state in STEP_ROUTES
        if state not in ("complete", "cancelled", "resolved_manually")
    ),
]  # fmt: skip


@pytest.mark.parametrize("edge", STEP_EDGES, ids="-".join)
def test_step_edge(tenant: Engine, edge: Edge) -> None:
    from_state, event, to_state = edge
    step = tenant.parked_step(from_state)
    success = {"success": "error" not in to_state} if event == "enqueue_for_orchestration" else {}
    assert tenant.move_step(step, event, **BY_HAND, **success) == to_state
    assert tenant.step_log(step)[-1] == edge
    tenant.assert_consistent()


# -- tasks: by hand as a registered processor where an edge rests, by the engine where it does not


def _by_hand(*events: str) -> Callable[[Engine], UUID]:
    """Start a task of two steps, one of which was resolved before, and move it by these events."""

    def walk(engine: Engine) -> UUID:
        processor = engine.processor()
        task = engine.parked_task("pending")
        for event in events:
            engine.move_task(task, event, processor)
        return task

    return walk


def _no_steps(engine: Engine) -> UUID:
    processor = engine.processor()
    task = engine.task([], start=False)
    engine.move_task(task, "start", processor)
    engine.move_task(task, "no_steps_found", processor)
    return task


def _nothing_ready(engine: Engine) -> UUID:
    processor = engine.processor()
    task = engine.task(chain("first", "second"), start=False)
    engine.move_step(engine.steps(task)["first"], "fail")
    engine.move_task(task, "start", processor)
    engine.move_task(task, "no_dependencies_ready", processor)
    return task


def _queue_lost(engine: Engine) -> UUID:
    processor = engine.processor()
    task = engine.task(chain("only"), start=False)
    engine.move_task(task, "start", processor)
    engine.move_task(task, "ready_steps_found", processor)
    engine.run("select pgmq.drop_queue(tasker.queue_name(%s))", engine.namespace)
    engine.move_task(task, "enqueue_failed", processor)
    return task


def _diamond(engine: Engine) -> UUID:
    task = engine.task(DIAMOND)
    engine.finish(engine.worker())
    return task


def _one_after_the_other(engine: Engine) -> UUID:
    """Two steps are under way; the results come one at a time."""
    task = engine.task([{"name": "a"}, {"name": "b"}])
    for claimed in engine.claim(engine.worker()):
        engine.complete(claimed)
        engine.orchestrate()
    return task


def _retried(engine: Engine) -> UUID:
    task = engine.parked_task("waiting_for_retry")
    engine.shift_clock("1 hour")
    engine.tick()
    return task


def _retried_beside_others(engine: Engine) -> UUID:
    task = engine.task([{"name": "a"}, {"name": "b"}])
    claimed = {step["name"]: step for step in engine.claim(engine.worker(), lease="2 hours")}
    engine.fail(claimed["a"], "transient")
    engine.orchestrate()
    assert engine.state(task) == "steps_in_process", "b is still under way"
    engine.shift_clock("1 hour")
    engine.tick()
    return task


def _mended(engine: Engine) -> UUID:
    task = engine.parked_task("blocked_by_failures")
    engine.command("retry_step", engine.steps(task)["only"])
    return task


def _parked_and(state: str, event: str) -> Callable[[Engine], UUID]:
    def walk(engine: Engine) -> UUID:
        task = engine.parked_task(state)
        engine.move_task(task, event, **BY_HAND)
        return task

    return walk


def _command(function: str, state: str) -> Callable[[Engine], UUID]:
    def walk(engine: Engine) -> UUID:
        task = engine.parked_task(state)
        engine.command(function, task)
        return task

    return walk


def _taken_over(state: str) -> Callable[[Engine], UUID]:
    def walk(engine: Engine) -> UUID:
        task = engine.parked_task(state, engine.processor("dead", "1 second"))
        engine.shift_clock("2 seconds")
        engine.move_task(task, "processor_crashed", engine.processor("heir"))
        return task

    return walk


TASK_EDGES: dict[Edge, Callable[[Engine], UUID]] = {
    ("pending", "start", "initializing"): _by_hand("start"),
    ("initializing", "ready_steps_found", "enqueuing_steps"): _by_hand("start", "ready_steps_found"),
    ("initializing", "no_steps_found", "complete"): _no_steps,
    ("initializing", "no_dependencies_ready", "waiting_for_dependencies"): _nothing_ready,
    ("enqueuing_steps", "steps_enqueued", "steps_in_process"): _by_hand("start", "ready_steps_found", "steps_enqueued"),
    ("enqueuing_steps", "enqueue_failed", "error"): _queue_lost,
    ("steps_in_process", "all_steps_completed", "evaluating_results"): _diamond,
    ("steps_in_process", "step_completed", "evaluating_results"): _one_after_the_other,
    ("steps_in_process", "step_failed", "waiting_for_retry"): lambda engine: engine.parked_task("waiting_for_retry"),
    ("steps_in_process", "retry_ready", "enqueuing_steps"): _retried_beside_others,
    ("evaluating_results", "all_steps_successful", "complete"): _diamond,
    ("evaluating_results", "ready_steps_found", "enqueuing_steps"): _diamond,
    ("evaluating_results", "no_dependencies_ready", "waiting_for_dependencies"): _one_after_the_other,
    ("evaluating_results", "permanent_failure", "blocked_by_failures"): lambda engine: engine.parked_task(
        "blocked_by_failures"
    ),
    ("waiting_for_dependencies", "dependencies_ready", "evaluating_results"): _one_after_the_other,
    ("waiting_for_retry", "retry_ready", "enqueuing_steps"): _retried,
    ("blocked_by_failures", "failures_resolved", "evaluating_results"): _mended,
    ("blocked_by_failures", "give_up", "error"): _command("give_up_task", "blocked_by_failures"),
    ("blocked_by_failures", "manual_resolution", "resolved_manually"): _command("resolve_task", "blocked_by_failures"),
    ("error", "reset", "pending"): _command("reset_task", "error"),
    **{
        (state, "cancel", "cancelled"): _command("cancel_task", state)
        for state in (
            "pending", "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results",
            "waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures",
        )
    },
    **{
        (state, "processor_crashed", state): _taken_over(state)
        for state in ("initializing", "enqueuing_steps", "steps_in_process", "evaluating_results")
    },
    **{
        (state, "timeout", "error"): _parked_and(state, "timeout")
        for state in (
            "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results",
            "waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("edge", TASK_EDGES, ids="-".join)
def test_task_edge(tenant: Engine, edge: Edge) -> None:
    task = TASK_EDGES[edge](tenant)
    assert edge in tenant.task_log(task)
    tenant.assert_consistent()


@pytest.mark.parametrize(
    "edge",
    [edge for edge in TASK_EDGES if edge[1] in ("cancel", "give_up", "manual_resolution", "reset")],
    ids="-".join,
)
def test_commands_go_through_the_generic_door_too(tenant: Engine, edge: Edge) -> None:
    state, event, to_state = edge
    task = tenant.parked_task(state)
    assert tenant.move_task(task, event, **BY_HAND) == to_state
    assert tenant.task_log(task)[-1] == edge
    tenant.assert_consistent()


def test_no_edge_is_left_out(rules: Engine) -> None:
    for lifecycle, walked in (("tasker.task", set(TASK_EDGES)), ("tasker.workflow_step", set(STEP_EDGES))):
        rows = rules.rows(
            "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = %s", lifecycle
        )
        assert {tuple(row.values()) for row in rows} == walked


# -- what comes with an edge


def test_started_at_and_completed_at_are_kept_along_the_way(tenant: Engine) -> None:
    """Seed 004, UpdateTaskCompletionAction; a reset takes the end back."""
    task = tenant.task(chain("only"), start=False)
    read = "select started_at, completed_at from tasker.tasks where task_uuid = %s"
    assert list(tenant.row(read, task).values()) == [None, None]
    tenant.move_task(task, "start")
    started = tenant.row(read, task)
    assert started["started_at"] and started["completed_at"] is None
    tenant.move_task(task, "timeout")
    ended = tenant.row(read, task)
    assert ended["started_at"] == started["started_at"]
    assert ended["completed_at"] >= ended["started_at"]
    tenant.move_task(task, "reset", **BY_HAND)
    assert tenant.row(read, task) == started


def test_cancelling_a_task_cancels_its_open_steps_only(tenant: Engine) -> None:
    task = tenant.task(DIAMOND)
    (top,) = tenant.claim(tenant.worker())
    tenant.complete(top)
    tenant.orchestrate()
    (left,) = (step for step in tenant.claim(tenant.worker()) if step["name"] == "left")
    tenant.command("cancel_task", task)
    assert tenant.states(task) == {"top": "complete", "left": "cancelled", "right": "cancelled", "bottom": "cancelled"}
    (outcome,) = tenant.report({"step_uuid": left["workflow_step_uuid"], "claim_uuid": left["claim_uuid"]})
    assert outcome["code"] == "TK412"
    tenant.assert_consistent()


def test_a_task_whose_queue_is_lost_fails_and_leaves_nothing_under_way(engine: Engine) -> None:
    task = engine.task([{"name": "a"}, {"name": "beside"}, {"name": "b", "depends_on": ["a"]}], namespace="lost")
    claimed = {step["name"]: step for step in engine.claim(engine.worker())}
    engine.run("select pgmq.drop_queue(tasker.queue_name('lost'))")
    engine.complete(claimed["a"])
    engine.orchestrate()
    assert engine.state(task) == "error"
    assert engine.states(task) == {"a": "complete", "beside": "cancelled", "b": "pending"}
    engine.assert_consistent()


@pytest.mark.parametrize("function", ["cancel_step", "resolve_step"])
def test_a_task_that_nobody_started_is_not_started_by_what_happens_to_its_steps(tenant: Engine, function: str) -> None:
    task = tenant.task(chain("first", "second"), start=False)
    tenant.command(function, tenant.steps(task)["first"])
    tenant.tick()
    assert tenant.state(task) == "pending"
    assert tenant.task_log(task) == [(None, "create", "pending")]


def test_a_step_worked_off_by_hand_does_not_strand_the_others_of_a_task_that_was_not_started(tenant: Engine) -> None:
    task = tenant.task([{"name": "a"}, {"name": "b"}], start=False)
    tenant.move_step(tenant.steps(task)["a"], "enqueue")
    worker = tenant.worker()
    tenant.finish(worker)
    assert (tenant.state(task), tenant.states(task)) == ("pending", {"a": "complete", "b": "pending"})
    tenant.move_task(task, "start")
    tenant.tick()
    tenant.finish(worker)
    assert tenant.state(task) == "complete"
    tenant.assert_consistent()


def test_a_ready_step_is_not_forgotten_because_a_cancelled_one_was_freed(tenant: Engine) -> None:
    """The result frees a step that was cancelled before; the other root has been ready all the time."""
    task = tenant.task([{"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "x"}], start=False)
    steps = tenant.steps(task)
    tenant.command("cancel_step", steps["b"])
    tenant.move_task(task, "start")
    tenant.move_step(steps["a"], "enqueue")
    (claimed,) = tenant.claim(tenant.worker())
    tenant.complete(claimed)
    tenant.orchestrate()
    assert tenant.states(task)["x"] == "enqueued"
    tenant.finish(tenant.worker())
    assert tenant.states(task) == {"a": "complete", "b": "cancelled", "x": "complete"}
    assert tenant.state(task) == "blocked_by_failures"
    tenant.assert_consistent()


def test_the_log_of_a_result_that_came_by_hand_says_so(tenant: Engine) -> None:
    """A dependent that a direct completion made ready is found as by any other result."""
    task = tenant.task(chain("first", "second"))
    (claimed,) = tenant.claim(tenant.worker())
    tenant.move_step(claimed["workflow_step_uuid"], "complete", result={"rows": 3})
    events = [event for _, event, _ in tenant.task_log(task)]
    assert events[-3:] == ["all_steps_completed", "ready_steps_found", "steps_enqueued"]
    (second,) = tenant.claim(tenant.worker())
    assert second["inputs"] == {"first": {"rows": 3}}
