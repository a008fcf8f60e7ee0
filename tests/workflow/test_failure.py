"""Failure: what is retried, what is final, what goes on beside it, and what operators can do about it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.workflow.engine import BY, Engine, Row, graph, step

SLOW = {"base_delay": 10, "max_delay": 600, "jitter": 0}


def flow(engine: Engine, *steps: Row) -> UUID:
    return engine.create(graph(*steps))


def key(engine: Engine, task: UUID, name: str) -> UUID:
    uuid: UUID = engine.steps(task)[name]["workflow_step_uuid"]
    return uuid


def command(engine: Engine, function: str, task: UUID, name: str | None = None, **arguments: Any) -> str:
    """An operator's command on a task or one of its steps."""
    target = {"p_step_uuid": key(engine, task, name)} if name else {"p_task_uuid": task}
    state: str = engine.call(function, **target, **BY, **arguments)
    return state


def fail_for_good(engine: Engine, *names: str) -> None:
    """Claim everything there is; those of these names fail for good, the rest is done."""
    claims = engine.claim_by_name()
    engine.fail([claim for name, claim in claims.items() if name in names], category="permanent")
    engine.complete([claim for name, claim in claims.items() if name not in names])
    engine.settle()


# -- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", ["transient", "unknown"])
def test_a_failure_is_retried_until_no_attempt_is_left(engine: Engine, category: str) -> None:
    task = flow(engine, step("a", max_attempts=3))
    for attempt in (1, 2, 3):
        (claimed,) = engine.claim()
        assert (claimed["attempt"], claimed["max_attempts"]) == (attempt, 3)
        engine.fail([claimed], category)
        engine.settle()
    row = engine.steps(task)["a"]
    assert (row["state"], row["attempts"], row["last_error"]) == ("error", 3, {"message": "it broke"})
    assert engine.state(task) == "blocked_by_failures"
    assert engine.walk(row["workflow_step_uuid"]) == [
        "pending",
        *2 * ["enqueued", "in_progress", "enqueued_as_error_for_orchestration", "waiting_for_retry", "pending"],
        *["enqueued", "in_progress", "enqueued_as_error_for_orchestration", "error"],
    ]
    assert engine.column("select success from tasker.workflow_step_result_audit") == [False] * 3
    engine.check()


def test_a_retry_that_succeeds_is_a_success(engine: Engine) -> None:
    task = flow(engine, step("a"), step("b", "a"))
    engine.fail(engine.claim())
    engine.settle()
    assert engine.drain() == 2
    assert engine.state(task) == "complete"
    assert engine.steps(task)["a"]["last_error"] is None
    engine.check()


@pytest.mark.parametrize(
    ("fields", "category"), [({}, "permanent"), ({"retryable": False}, "transient"), ({"max_attempts": 1}, "unknown")]
)
def test_what_can_not_be_retried_fails_at_once(engine: Engine, fields: Row, category: str) -> None:
    task = flow(engine, step("a", **fields))
    engine.fail(engine.claim(), category)
    engine.orchestrate()
    assert engine.states(task) == {"a": "error"}
    assert engine.state(task) == "blocked_by_failures"
    assert engine.one("select count(*) from tasker.timers") == 0
    engine.check()


def test_the_backoff_is_waited_for(engine: Engine) -> None:
    task = flow(engine, step("a", retry=SLOW))
    engine.fail(engine.claim())
    engine.orchestrate()
    assert engine.walk(task)[-2:] == ["steps_in_process", "waiting_for_retry"]
    due = engine.steps(task)["a"]["next_retry_at"]
    ticked = engine.tick()
    assert (ticked["timers_fired"], ticked["next_due_at"]) == (0, due)
    engine.shift_clock("9 s")
    assert engine.tick()["timers_fired"] == 0
    engine.shift_clock("11 s")
    ticked = engine.tick()
    assert (ticked["timers_fired"], ticked["steps_enqueued"], ticked["next_due_at"]) == (1, 1, None)
    engine.fail(engine.claim())
    engine.orchestrate()
    (waits,) = engine.rows(
        "select metadata from tasker.timeline where to_state = 'waiting_for_retry' and kind = 'step' and sort_key > 6"
    )
    assert waits["metadata"]["delay_seconds"] == 20, "it doubles"
    assert waits["metadata"]["attempt"] == 2


def test_a_worker_may_ask_for_another_delay(engine: Engine) -> None:
    """A Retry-After of the other side beats the backoff, also zero and also over the cap."""
    task = flow(engine, step("a", retry=SLOW), step("b", retry=SLOW))
    claims = engine.claim_by_name()
    engine.rows(
        "select tasker.fail_step(%s, %s, '{}', p_retry_after => interval '2 hours')",
        claims["a"]["workflow_step_uuid"],
        claims["a"]["claim_uuid"],
    )
    engine.fail([claims["b"]], retry_after=0)
    engine.orchestrate()
    assert engine.tick()["timers_fired"] == 1
    assert [c["name"] for c in engine.claim()] == ["b"]
    engine.shift_clock("119 minutes")
    assert engine.tick()["timers_fired"] == 0
    engine.shift_clock("121 minutes")
    engine.tick()
    assert engine.states(task)["a"] == "enqueued"


def test_a_failure_can_be_recorded_after_any_number_of_attempts(engine: Engine) -> None:
    """B11: an overflowing backoff must not keep the failure itself from being recorded."""
    attempts = [30, 31, 62, 63, 1023, 1100, 999_998]
    limits = {"max_attempts": 1_000_000, "retry": {"base_delay": 60, "max_delay": 3600}}
    task = flow(engine, *(step(str(done), **limits) for done in attempts))
    engine.rows("update tasker.workflow_steps set attempts = name::int - 1")
    engine.fail(engine.claim())
    engine.orchestrate()
    assert set(engine.states(task).values()) == {"waiting_for_retry"}
    engine.shift_clock("3601 s")
    assert engine.tick()["timers_fired"] == len(attempts)
    assert sorted(claim["attempt"] for claim in engine.claim()) == [done + 1 for done in attempts]


def test_a_due_time_does_not_hang_on_the_time_zone_of_a_session(engine: Engine) -> None:
    """B51: written in one zone, read in another, across a night in which the clocks change."""
    task = flow(engine, step("a", retry=SLOW))
    engine.rows("set timezone = 'America/Sao_Paulo'")
    engine.fail(engine.claim())
    engine.orchestrate()
    first = engine.steps(task)["a"]["next_retry_at"]
    for zone in ("Europe/Berlin", "Asia/Kathmandu", "UTC"):
        engine.rows(f"set timezone = '{zone}'")
        assert engine.steps(task)["a"]["next_retry_at"] == first
    assert engine.tick()["timers_fired"] == 0
    engine.shift_clock("11 s")
    assert engine.tick()["timers_fired"] == 1


# -- beside a failure ------------------------------------------------------------------------------------------------


def test_independent_branches_go_on_and_then_the_task_is_blocked(engine: Engine) -> None:
    task = flow(
        engine, step("bad"), step("after bad", "bad"), step("good"), step("better", "good"), step("both", "bad", "good")
    )
    fail_for_good(engine, "bad")
    assert engine.state(task) == "steps_in_process"
    engine.complete(engine.claim())
    engine.orchestrate()
    assert engine.state(task) == "blocked_by_failures"
    assert engine.states(task) == {
        "bad": "error",
        "after bad": "pending",
        "good": "complete",
        "better": "complete",
        "both": "pending",
    }
    assert engine.claim() == []
    engine.check()


def test_a_task_with_a_failed_step_is_not_complete_when_the_rest_is(engine: Engine) -> None:
    task = flow(engine, step("bad"), *(step(f"s{n}") for n in range(5)))
    fail_for_good(engine, "bad")
    assert engine.state(task) == "blocked_by_failures"


def test_siblings_run_on_while_one_waits_for_its_retry(engine: Engine) -> None:
    """The task waits for the retry only when nothing else is under way."""
    task = flow(engine, step("waits", retry=SLOW), step("runs"), step("then", "runs"), step("end", "waits", "then"))
    claims = engine.claim_by_name()
    engine.fail([claims["waits"]])
    engine.orchestrate()
    assert engine.state(task) == "steps_in_process", "one is still running"
    engine.complete([claims["runs"]])
    engine.orchestrate()
    assert engine.state(task) == "steps_in_process"
    engine.complete(engine.claim())
    engine.orchestrate()
    context = engine.row("select * from tasker.get_task_execution_context(%s)", task)
    assert context["execution_status"] == "waiting_for_retry"
    assert engine.claim() == []
    engine.shift_clock("11 s")
    assert engine.drain() == 2
    assert engine.state(task) == "complete"
    engine.check_order()
    engine.check()


def test_a_retry_falls_due_while_siblings_run(engine: Engine) -> None:
    task = flow(engine, step("waits", retry=SLOW), step("runs"))
    claims = engine.claim_by_name()
    engine.fail([claims["waits"]])
    engine.orchestrate()
    engine.shift_clock("11 s")
    assert engine.tick()["steps_enqueued"] == 1
    (again,) = engine.claim()
    assert (again["name"], again["attempt"]) == ("waits", 2)
    engine.complete([again, claims["runs"]])
    engine.orchestrate()
    assert engine.state(task) == "complete"
    engine.check()


def test_many_steps_wait_for_their_retries_at_once(engine: Engine) -> None:
    """Each falls due on its own; the task goes in and out of waiting_for_retry, and ends."""
    task = flow(engine, *(step(f"s{n}", retry={**SLOW, "base_delay": 10 * (n + 1)}) for n in range(4)))
    engine.fail(engine.claim())
    engine.orchestrate()
    for n in range(4):
        assert engine.state(task) == "waiting_for_retry"
        engine.shift_clock(f"{10 * (n + 1) + 5} s")
        assert engine.tick()["timers_fired"] == 1
        engine.complete(engine.claim())
        engine.orchestrate()
    assert engine.state(task) == "complete"
    engine.check()


def test_a_last_attempt_fails_while_another_step_waits_for_its_retry(engine: Engine) -> None:
    """Not blocked before the retry has had its turn."""
    task = flow(engine, step("waits", retry=SLOW), step("bad"))
    claims = engine.claim_by_name()
    engine.fail([claims["waits"]])
    engine.fail([claims["bad"]], category="permanent")
    engine.orchestrate()
    assert engine.state(task) == "waiting_for_retry"
    engine.shift_clock("11 s")
    engine.drain()
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


# -- operators -------------------------------------------------------------------------------------------------------


def blocked(engine: Engine) -> UUID:
    """A blocked task: `bad` failed for good, `good` is done, `child` waits for both."""
    task = flow(engine, step("bad", max_attempts=2), step("good"), step("child", "bad", "good"))
    fail_for_good(engine, "bad")
    assert engine.state(task) == "blocked_by_failures"
    return task


def test_retry_moves_a_blocked_task(engine: Engine) -> None:
    task = blocked(engine)
    assert command(engine, "retry_step", task, "bad") == "enqueued"
    assert engine.state(task) == "steps_in_process"
    assert engine.drain() == 2
    assert engine.state(task) == "complete"
    engine.check()


def test_retry_gives_one_more_attempt_when_all_are_used(engine: Engine) -> None:
    task = flow(engine, step("a", max_attempts=2))
    engine.drain(lambda _: {"success": False})
    assert engine.states(task) == {"a": "error"}
    command(engine, "retry_step", task, "a")
    (claimed,) = engine.claim()
    assert (claimed["attempt"], claimed["max_attempts"]) == (3, 3)
    engine.fail([claimed])
    engine.settle()
    assert engine.states(task) == {"a": "error"}, "one more, not for ever"
    engine.check()


def test_retry_by_its_event_gives_one_more_attempt_too(engine: Engine) -> None:
    """A step sent back through the generic door must not stop the queue when it is claimed."""
    task = flow(engine, step("a", max_attempts=1), step("b"))
    engine.drain(lambda claimed: {"success": claimed["name"] == "b"})
    engine.call(
        "transition_step",
        p_step_uuid=key(engine, task, "a"),
        p_event="retry",
        p_metadata={"reason": "a test", "requested_by": "ada"},
    )
    assert engine.drain() == 1
    assert engine.state(task) == "complete"
    engine.check()


def test_reset_gives_all_attempts_back(engine: Engine) -> None:
    task = flow(engine, step("a", max_attempts=2), step("b", "a"))
    engine.drain(lambda _: {"success": False})
    assert engine.steps(task)["a"]["attempts"] == 2
    assert command(engine, "reset_step", task, "a") == "enqueued"
    (claimed,) = engine.claim()
    assert (claimed["attempt"], claimed["max_attempts"]) == (1, 2)
    engine.fail([claimed])
    engine.settle()
    assert engine.drain() == 2
    assert engine.state(task) == "complete"
    engine.check()


def test_retry_ends_a_backoff_early(engine: Engine) -> None:
    """The timer that was set finds that the step moved on."""
    task = flow(engine, step("a", retry=SLOW))
    engine.fail(engine.claim())
    engine.orchestrate()
    assert command(engine, "retry_step", task, "a") == "enqueued"
    claims = engine.claim()
    engine.shift_clock("20 s")
    assert engine.tick()["steps_enqueued"] == 0
    assert engine.queued() == []
    engine.complete(claims)
    engine.orchestrate()
    assert engine.state(task) == "complete"
    engine.check_completed_once(1)
    engine.check()


def test_resolve_moves_a_blocked_task_and_feeds_its_dependents(engine: Engine) -> None:
    task = blocked(engine)
    assert command(engine, "resolve_step", task, "bad", p_result=Jsonb([1, 2])) == "resolved_manually"
    (child,) = engine.claim()
    assert child["inputs"] == {"bad": [1, 2], "good": None}
    engine.complete([child])
    engine.orchestrate()
    assert engine.state(task) == "complete"
    engine.check()


def test_resolve_without_a_result_feeds_null(engine: Engine) -> None:
    task = blocked(engine)
    command(engine, "resolve_step", task, "bad")
    assert engine.claim()[0]["inputs"] == {"bad": None, "good": None}


def test_resolving_the_last_step_completes_the_task(engine: Engine) -> None:
    task = flow(engine, step("a"))
    fail_for_good(engine, "a")
    command(engine, "resolve_step", task, "a")
    assert engine.state(task) == "complete"
    engine.check()


def test_cancelling_a_failed_step_leaves_the_task_blocked(engine: Engine) -> None:
    """Nothing that depends on it can start, so somebody must still decide; the task says so and stays consistent."""
    task = blocked(engine)
    assert command(engine, "cancel_step", task, "bad") == "cancelled"
    assert engine.state(task) == "blocked_by_failures"
    assert command(engine, "resolve_task", task) == "resolved_manually"
    engine.check()


def test_cancelling_what_was_queued_blocks_the_task(engine: Engine) -> None:
    task = flow(engine, step("a"), step("b", "a"))
    command(engine, "cancel_step", task, "a")
    assert engine.claim() == []
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


def test_cancelling_a_running_step_fences_its_worker_off(engine: Engine) -> None:
    task = flow(engine, step("a"), step("b"))
    claims = engine.claim_by_name()
    command(engine, "cancel_step", task, "a")
    assert engine.column("select * from tasker.held_claims(%s)", engine.worker()) == [claims["b"]["workflow_step_uuid"]]
    assert [o["code"] for o in engine.complete(claims.values())] == ["TK412", None]
    engine.orchestrate()
    assert engine.state(task) == "blocked_by_failures"
    assert engine.states(task) == {"a": "cancelled", "b": "complete"}
    engine.check()


@pytest.mark.parametrize("when", ["pending", "enqueued", "in_progress", "reported", "failed", "waiting"])
def test_a_step_may_be_resolved_whatever_it_is_doing(engine: Engine, when: str) -> None:
    task = flow(
        engine, step("first"), step("a", *(["first"] if when == "pending" else []), retry=SLOW), step("end", "a")
    )
    claims = engine.claim_by_name() if when not in ("pending", "enqueued") else {}
    if when == "reported":
        engine.complete([claims["a"]], "mine")
    if when in ("failed", "waiting"):
        engine.fail([claims["a"]])
    if when == "waiting":
        engine.orchestrate()
    assert command(engine, "resolve_step", task, "a") == "resolved_manually"
    engine.complete(claims.values())
    engine.shift_clock("1 hour")
    engine.drain()
    assert engine.states(task) == {"first": "complete", "a": "resolved_manually", "end": "complete"}
    assert engine.state(task) == "complete"
    engine.check()


def test_a_step_resolved_while_its_task_waits_for_the_retry(engine: Engine) -> None:
    """The task leaves waiting_for_retry at once, not when the timer comes."""
    task = flow(engine, step("a", retry=SLOW), step("b", "a"))
    engine.fail(engine.claim())
    engine.orchestrate()
    assert engine.state(task) == "waiting_for_retry"
    command(engine, "resolve_step", task, "a")
    assert engine.states(task)["b"] == "enqueued"
    engine.drain()
    assert engine.state(task) == "complete"
    engine.shift_clock("1 hour")
    assert engine.tick()["steps_enqueued"] == 0
    engine.check()


def test_the_waiting_step_is_cancelled_while_its_task_waits(engine: Engine) -> None:
    task = flow(engine, step("a", retry=SLOW), step("b", "a"))
    engine.fail(engine.claim())
    engine.orchestrate()
    command(engine, "cancel_step", task, "a")
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


def test_give_up_ends_in_error_and_reset_starts_again(engine: Engine) -> None:
    task = blocked(engine)
    assert command(engine, "give_up_task", task) == "error"
    assert engine.task(task)["completed_at"] is not None
    assert command(engine, "reset_task", task) == "steps_in_process"
    assert engine.walk(task)[-4:] == ["pending", "initializing", "enqueuing_steps", "steps_in_process"]
    row = engine.task(task)
    assert row["completed_at"] is None
    assert row["failed_steps"] == 0
    assert engine.drain() == 2, "what was done stays done"
    assert engine.state(task) == "complete"
    engine.check()


def test_resolve_task_ends_it_as_resolved(engine: Engine) -> None:
    task = blocked(engine)
    assert command(engine, "resolve_task", task) == "resolved_manually"
    assert engine.states(task)["bad"] == "error"
    assert engine.claim() == []
    engine.check()


@pytest.mark.parametrize("function", ["give_up_task", "resolve_task", "reset_task"])
def test_a_command_that_does_not_fit_is_refused_with_what_would(engine: Engine, function: str) -> None:
    task = flow(engine, step("a"))
    with pytest.raises(psycopg.Error) as caught:
        command(engine, function, task)
    assert caught.value.sqlstate == "TK409"
    assert "cancel (to cancelled)" in str(caught.value.diag.message_hint)
    assert engine.state(task) == "steps_in_process"


@pytest.mark.parametrize("function", ["retry_step", "reset_step", "resolve_step", "cancel_step", "skip_step"])
def test_a_finished_step_takes_no_command(engine: Engine, function: str) -> None:
    """A refusal leaves everything as it was: attempts and limits too."""
    task = flow(engine, step("a"))
    engine.drain()
    before = engine.row("select * from tasker.workflow_steps")
    with pytest.raises(psycopg.Error) as caught:
        command(engine, function, task, "a")
    assert caught.value.sqlstate == "TK409"
    assert engine.row("select * from tasker.workflow_steps") == before
    engine.check()


@pytest.mark.parametrize("function", ["retry_step", "reset_step"])
def test_a_running_step_is_not_sent_back_to_work(engine: Engine, function: str) -> None:
    task = flow(engine, step("a"))
    claims = engine.claim()
    with pytest.raises(psycopg.Error) as caught:
        command(engine, function, task, "a")
    assert caught.value.sqlstate == "TK409"
    assert engine.steps(task)["a"]["attempts"] == 1
    assert engine.complete(claims)[0]["code"] is None


@pytest.mark.parametrize("function", ["cancel_task", "retry_step"])
@pytest.mark.parametrize("who", [{"p_reason": ""}, {"p_requested_by": None}, {"p_reason": "  "}])
def test_a_manual_action_needs_a_name_and_a_reason(engine: Engine, function: str, who: dict[str, Any]) -> None:
    task = blocked(engine)
    target = {"p_task_uuid": task} if function == "cancel_task" else {"p_step_uuid": key(engine, task, "bad")}
    with pytest.raises(psycopg.Error) as caught:
        engine.call(function, **target, **{**BY, **who})
    assert caught.value.sqlstate == "TK400"
    assert engine.state(task) == "blocked_by_failures"


def test_manual_actions_stand_in_the_log_with_name_and_reason(engine: Engine) -> None:
    task = blocked(engine)
    command(engine, "retry_step", task, "bad")
    (row,) = engine.rows("select * from tasker.timeline where event = 'retry' and kind = 'step'")
    assert (row["requested_by"], row["reason"], row["metadata"]["manual"]) == ("ada", "a test", True)


@pytest.mark.parametrize("ending", ["give_up_task", "resolve_task", "cancel_task"])
def test_what_is_under_way_ends_with_its_task(engine: Engine, ending: str) -> None:
    """A critical failure blocks the task while others are running and queued: when it is ended, nothing of it goes on."""
    task = engine.create(
        graph(step("bad", on_failure="stop", max_attempts=1), step("running"), step("queued"), step("later", "bad"))
    )
    held = engine.claim_by_name(limit=1) | engine.claim_by_name(limit=1)
    engine.fail([held["bad"]])
    engine.settle()
    assert engine.state(task) == "blocked_by_failures"
    assert command(engine, ending, task) == engine.state(task)
    states = engine.states(task)
    assert (states["running"], states["queued"]) == ("cancelled", "cancelled")
    assert engine.complete([held["running"]])[0]["code"] == "TK412"
    engine.settle()
    assert engine.claim() == []
    engine.check()


@pytest.mark.parametrize("function", ["retry_step", "reset_step"])
@pytest.mark.parametrize("ending", ["give_up_task", "resolve_task", "cancel_task"])
def test_a_step_of_an_ended_task_is_not_sent_back_to_work(engine: Engine, function: str, ending: str) -> None:
    """It would never run: a definite refusal, never a normal return without effect (B55)."""
    task = blocked(engine)
    command(engine, ending, task)
    with pytest.raises(psycopg.Error) as caught:
        command(engine, function, task, "bad")
    assert caught.value.sqlstate == "TK409"
    assert engine.queued() == []
    engine.check()
