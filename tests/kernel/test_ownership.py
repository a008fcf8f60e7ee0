"""Processor ownership (seed 004): one owner while its lease lives, takeover after it, and no task is ever stranded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, Engine, chain, refused

OWNED = ["initializing", "enqueuing_steps", "steps_in_process", "evaluating_results"]
NEXT = {
    "initializing": "ready_steps_found",
    "enqueuing_steps": "steps_enqueued",
    "steps_in_process": "step_completed",
    "evaluating_results": "no_dependencies_ready",
}


def owner(engine: Engine, task: UUID) -> UUID | None:
    return engine.one(  # type: ignore[no-any-return]
        "select processor_uuid from tasker.task_transitions where task_uuid = %s and most_recent", task
    )


def newest_metadata(engine: Engine, task: UUID) -> dict[str, Any]:
    return engine.one(  # type: ignore[no-any-return]
        "select metadata from tasker.task_transitions where task_uuid = %s and most_recent", task
    )


@pytest.mark.parametrize("state", OWNED)
def test_another_processor_is_refused_while_the_lease_lives(tenant: Engine, state: str) -> None:
    first, second = tenant.processor("first", "1 hour"), tenant.processor("second", "1 hour")
    task = tenant.parked_task(state, first)
    for intruder in (second, None):
        with refused("TK403") as refusal:
            tenant.move_task(task, NEXT[state], intruder)
        assert refusal.detail["owner"] == str(first)
        assert refusal.detail["owner_name"] == "first"
        assert refusal.detail["processor_uuid"] == (str(intruder) if intruder else None)
        assert refusal.detail["lease_expires_at"]
        with refused("TK403"):
            tenant.move_task(task, "processor_crashed", intruder)
        with refused("TK403"):
            tenant.move_task(task, "timeout", intruder)
    assert tenant.state(task) == state
    tenant.move_task(task, NEXT[state], first)
    assert owner(tenant, task) == first


@pytest.mark.parametrize("state", ["pending", "waiting_for_dependencies", "waiting_for_retry"])
def test_a_state_that_needs_no_ownership_may_be_left_by_any_processor(engine: Engine, state: str) -> None:
    """Seed 004, Processable States: available for orchestration pickup."""
    first, second = engine.processor("first"), engine.processor("second")
    task = engine.parked_task(state, first)
    if state == "waiting_for_dependencies":
        engine.command("resolve_step", engine.steps(task)["open"])
        assert engine.state(task) == "complete"
        return
    if state == "waiting_for_retry":
        engine.shift_clock("1 hour")
        engine.move_step(engine.steps(task)["only"], "cancel", reason="test", requested_by="somebody")
        assert engine.state(task) == "blocked_by_failures"
        return
    engine.move_task(task, "start", second)
    assert owner(engine, task) == second


@pytest.mark.parametrize("state", OWNED)
def test_a_person_cancels_an_owned_task(tenant: Engine, state: str) -> None:
    task = tenant.parked_task(state, tenant.processor(lease="1 hour"))
    tenant.command("cancel_task", task)
    assert tenant.state(task) == "cancelled"
    other = tenant.parked_task(state, tenant.processor(lease="1 hour"))
    tenant.move_task(other, "cancel", reason="test", requested_by="somebody")
    assert tenant.state(other) == "cancelled"
    tenant.assert_consistent()


@pytest.mark.parametrize("state", OWNED)
def test_after_the_lease_another_takes_over_and_the_log_shows_from_whom(engine: Engine, state: str) -> None:
    first, second = engine.processor("first", "10 seconds"), engine.processor("second", "1 hour")
    task = engine.parked_task(state, first)
    direct = engine.parked_task(state, first)
    engine.shift_clock("11 seconds")

    assert engine.move_task(task, "processor_crashed", second) == state
    assert newest_metadata(engine, task)["taken_over_from"] == str(first)
    assert owner(engine, task) == second
    with refused("TK403"):
        engine.move_task(task, NEXT[state], first)

    # without the event of its own: the transition itself says whom it came from
    engine.move_task(direct, NEXT[state], second, taken_over_from="forged")
    assert newest_metadata(engine, direct)["taken_over_from"] == str(first)
    assert owner(engine, direct) == second


def test_a_heartbeat_keeps_what_is_owned(engine: Engine) -> None:
    first, second = engine.processor("first", "10 seconds"), engine.processor("second")
    task = engine.parked_task("initializing", first)
    engine.shift_clock("8 seconds")
    until = engine.one("select tasker.processor_heartbeat(%s, '10 seconds')", first)
    assert until > engine.one("select tasker.clock() + interval '9 seconds'")
    engine.shift_clock("8 seconds")
    with refused("TK403"):
        engine.move_task(task, "ready_steps_found", second)
    with refused("TK404"):
        engine.one("select tasker.processor_heartbeat(gen_random_uuid())")


def test_an_unowned_task_may_be_claimed(tenant: Engine) -> None:
    """Seed 004: Allows ownership claiming for unowned tasks."""
    task = tenant.parked_task("initializing")
    assert owner(tenant, task) is None
    processor = tenant.processor(lease="1 hour")
    tenant.move_task(task, "ready_steps_found", processor)
    assert owner(tenant, task) == processor
    assert "taken_over_from" not in newest_metadata(tenant, task)


def test_results_of_an_owned_task_are_left_to_its_owner(engine: Engine) -> None:
    first, second = engine.processor("first", "1 hour"), engine.processor("second", "1 hour")
    task = engine.parked_task("pending")
    for event in ("start", "ready_steps_found", "steps_enqueued"):
        engine.move_task(task, event, first)
    (claimed,) = engine.claim(engine.worker())
    engine.complete(claimed)
    for stranger in (second, None):
        assert engine.orchestrate(stranger)["steps_settled"] == 0
        engine.hurry_results()
    assert engine.step_state(claimed["workflow_step_uuid"]) == "enqueued_for_orchestration"
    assert engine.orchestrate(first)["steps_settled"] == 1
    assert engine.state(task) == "complete"
    engine.assert_consistent()


def test_results_of_a_dead_owner_are_settled_by_whoever_comes_and_the_log_shows_it(engine: Engine) -> None:
    for heir in (engine.processor("second", "2 hours"), None):
        first = engine.processor("first", "10 seconds")
        task = engine.task(DIAMOND, start=False)
        for event in ("start", "ready_steps_found", "steps_enqueued"):
            engine.move_task(task, event, first)
        (claimed,) = engine.claim(engine.worker(), lease="1 hour")
        engine.complete(claimed)
        assert engine.orchestrate(heir)["steps_settled"] == 0
        engine.hurry_results()
        engine.shift_clock("11 seconds")
        assert engine.orchestrate(heir)["steps_settled"] == 1
        assert engine.states(task)["left"] == "enqueued"
        takeovers = engine.rows(
            "select processor_uuid, metadata ->> 'taken_over_from' as from_whom from tasker.task_transitions"
            " where task_uuid = %s and event = 'processor_crashed'",
            task,
        )
        assert takeovers == [{"processor_uuid": heir, "from_whom": str(first)}]
        assert owner(engine, task) == heir
        engine.command("cancel_task", task)
    engine.assert_consistent()


def test_what_the_engine_does_by_itself_does_not_take_the_task_from_its_owner(engine: Engine) -> None:
    """A backoff that ends, and an operator who skips over a step: the owner keeps the task."""
    first, second = engine.processor("first", "2 days"), engine.processor("second", "2 days")
    task = engine.task([{"name": "retried"}, {"name": "open"}, {"name": "resolved"}], start=False)
    for event in ("start", "ready_steps_found", "steps_enqueued"):
        engine.move_task(task, event, first)
    claimed = {step["name"]: step for step in engine.claim(engine.worker(), lease="1 day")}
    engine.fail(claimed["retried"], "transient")
    engine.orchestrate(first)
    engine.shift_clock("1 hour")
    engine.tick()
    assert (engine.state(task), engine.states(task)["retried"]) == ("steps_in_process", "enqueued")
    assert owner(engine, task) == first
    with refused("TK403"):
        engine.move_task(task, "timeout", second)
    engine.command("resolve_step", claimed["resolved"]["workflow_step_uuid"])
    assert owner(engine, task) == first
    engine.assert_consistent()


def test_a_processor_that_never_registered_owns_nothing(tenant: Engine) -> None:
    task = tenant.parked_task("initializing")
    for call in (
        lambda: tenant.move_task(task, "ready_steps_found", UUID(int=7)),
        lambda: tenant.orchestrate(UUID(int=7)),
    ):
        with refused("TK404") as refusal:
            call()
        assert "register_processor" in refusal.hint
    assert tenant.state(task) == "initializing"


# -- transition_with_ownership: compare and set


def test_compare_and_set_tells_who_was_first(tenant: Engine) -> None:
    processor = tenant.processor(lease="1 hour")
    task = tenant.task(chain("only"), start=False)
    call = "select tasker.transition_with_ownership(%s, %s, %s, %s, %s)"
    assert tenant.one(call, task, "pending", "initializing", processor, '{"seen": 1}') is True
    assert newest_metadata(tenant, task) == {"seen": 1}
    assert tenant.one(call, task, "pending", "initializing", processor, "{}") is False
    assert tenant.one(call, task, "pending", "cancelled", processor, "{}") is False
    assert tenant.state(task) == "initializing"
    assert owner(tenant, task) == processor
    with refused("TK403"):
        tenant.one(call, task, "initializing", "enqueuing_steps", tenant.processor("other"), "{}")
    with refused("TK409"):
        tenant.one(call, task, "initializing", "complete_nonsense", processor, "{}")


def test_of_many_processors_at_once_exactly_one_gets_the_task(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """Real connections, 20 tasks: seed 004, atomic ownership claiming prevents concurrent processing."""
    tasks = [engine.task(chain("only"), start=False) for _ in range(20)]
    racers = [Engine(connect()) for _ in range(4)]
    processors = [racer.processor(f"p{place}", "1 hour") for place, racer in enumerate(racers)]
    barrier = threading.Barrier(len(racers))
    won: list[list[UUID]] = [[] for _ in racers]

    def race(place: int) -> None:
        for task in tasks:
            barrier.wait(30)
            if racers[place].one(
                "select tasker.transition_with_ownership(%s, 'pending', 'initializing', %s)", task, processors[place]
            ):
                won[place].append(task)

    threads = [threading.Thread(target=race, args=(place,)) for place in range(len(racers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(task for tasks_won in won for task in tasks_won) == sorted(tasks)
    for place, tasks_won in enumerate(won):
        assert all(owner(engine, task) == processors[place] for task in tasks_won)
    assert all(len(engine.task_log(task)) == 2 for task in tasks)
    engine.assert_consistent()


# -- nothing is stranded

NON_TERMINAL = [
    "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results", "waiting_for_dependencies",
]  # fmt: skip


@pytest.mark.parametrize("with_processor", [False, True], ids=["nobody", "dead processor"])
@pytest.mark.parametrize("state", NON_TERMINAL)
def test_a_task_left_by_hand_goes_on_by_itself(engine: Engine, state: str, with_processor: bool) -> None:
    """Seed 004's own project strands tasks in four of these states; here tick and workers are all it takes."""
    task = engine.parked_task(state, engine.processor(lease="10 seconds") if with_processor else None)
    for _ in range(5):
        engine.tick()
        engine.finish(engine.worker())
        engine.shift_clock("31 seconds")
        engine.hurry_results()
        engine.orchestrate()
    assert engine.state(task) == "complete"
    if with_processor and state in OWNED:
        assert "processor_crashed" in [event for _, event, _ in engine.task_log(task)]
    engine.assert_consistent()


def test_a_task_left_by_hand_is_not_touched_while_its_owner_lives(engine: Engine) -> None:
    processor = engine.processor(lease="1 hour")
    task = engine.parked_task("initializing", processor)
    for _ in range(3):
        engine.shift_clock("31 seconds")
        engine.tick()
    assert engine.state(task) == "initializing"
    engine.shift_clock("2 hours")
    engine.tick()
    engine.finish(engine.worker())
    engine.shift_clock("1 minute")
    engine.tick()
    engine.finish(engine.worker())
    assert engine.state(task) == "complete"


def test_a_task_waiting_for_a_retry_goes_on_by_itself(engine: Engine) -> None:
    task = engine.parked_task("waiting_for_retry")
    assert engine.tick()["timers_fired"] == 0
    engine.shift_clock("2 minutes")
    assert engine.tick()["timers_fired"] == 1
    engine.finish(engine.worker())
    assert engine.state(task) == "complete"


@pytest.mark.parametrize("function", ["retry_step", "reset_step", "resolve_step"])
def test_a_blocked_task_goes_on_when_its_step_is_mended(tenant: Engine, function: str) -> None:
    """Seed 004's own project sees such a task by no poller."""
    task = tenant.parked_task("blocked_by_failures")
    tenant.command(function, tenant.steps(task)["only"])
    namespace = tenant.one("select namespace from tasker.tasks where task_uuid = %s", task)
    Engine(tenant.conn, namespace).finish(tenant.worker())
    assert tenant.state(task) == "complete"
    tenant.assert_consistent()


def test_a_task_reset_through_the_generic_door_starts_again_at_the_next_tick(tenant: Engine) -> None:
    task = tenant.parked_task("error")
    assert tenant.move_task(task, "reset", reason="test", requested_by="somebody") == "pending"
    tenant.tick()
    assert tenant.state(task) != "pending"


def test_a_message_that_was_lost_is_no_loss_of_the_result(engine: Engine) -> None:
    """The result is safe with its commit; a consistency check and a later settlement of the step find it."""
    task = engine.task(chain("only"))
    (claimed,) = engine.claim(engine.worker())
    engine.complete(claimed)
    engine.run("delete from pgmq.q_orchestration_step_results")
    assert engine.orchestrate()["messages"] == 0
    assert engine.one("select tasker.explain_task(%s) -> 'reasons' -> 0 ->> 'state'", task) == (
        "enqueued_for_orchestration"
    )
    engine.move_step(claimed["workflow_step_uuid"], "complete")
    assert engine.state(task) == "complete"
