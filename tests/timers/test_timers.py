"""Timers: each due one fires exactly once, late ones late, in batches, however many callers tick at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import pytest

from tests.workflow.engine import PATIENCE, Background, Engine, graph, in_parallel, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

SLOW = {"base_delay": 10, "max_delay": 600, "jitter": 0}


def waiting(engine: Engine, tasks: int, width: int, **retry: float) -> list[UUID]:
    """Tasks whose steps all wait for their first retry."""
    flow = graph(*(step(f"s{n}", retry={**SLOW, **retry}) for n in range(width)))
    made = [engine.create(flow) for _ in range(tasks)]
    while claims := engine.claim(5000):
        engine.fail(claims)
    while engine.orchestrate(10_000)["messages"]:
        pass
    return made


def retried(engine: Engine) -> list[int]:
    """How often each step came out of its backoff."""
    return engine.column(
        "select count(*) from tasker.workflow_step_transitions where from_state = 'waiting_for_retry' group by workflow_step_uuid"
    )


@on_one_server
def test_eight_callers_fire_every_due_timer_once(engine: Engine, open_engine: OpenEngine) -> None:
    """Small batches, so that the callers meet at the same tasks all the time."""
    waiting(engine, tasks=20, width=40)
    sessions = [open_engine() for _ in range(8)]
    engine.shift_clock("11 s")

    def tick_all(session: Engine) -> int:
        fired = 0
        while engine_left(session):
            fired += session.tick(7)["timers_fired"]
        return fired

    def engine_left(session: Engine) -> bool:
        return bool(session.one("select exists (select from tasker.timers)"))

    fired = in_parallel([partial(tick_all, s) for s in sessions])
    assert sum(fired) == 800
    assert retried(engine) == [1] * 800
    assert len(engine.queued()) == 800
    engine.check()


@on_one_server
def test_twenty_thousand_due_timers_are_fired_in_batches(engine: Engine) -> None:
    waiting(engine, tasks=20, width=1000)
    engine.shift_clock("3 days")
    fired = []
    while ticked := engine.tick(3000)["timers_fired"]:
        fired.append(ticked)
    assert fired == [3000] * 6 + [2000]
    assert engine.one("select count(*) from tasker.timers") == 0
    assert len(engine.queued()) == 20_000
    assert set(retried(engine)) == {1}
    engine.check()


def test_late_timers_fire_late_and_the_oldest_first(engine: Engine) -> None:
    first = waiting(engine, 1, 2)
    engine.shift_clock("5 s")
    second = waiting(engine, 1, 2)
    engine.shift_clock("20 days")
    assert engine.tick(2)["timers_fired"] == 2
    assert [engine.state(task) for task in first + second] == ["steps_in_process", "waiting_for_retry"]
    assert engine.tick(2)["timers_fired"] == 2
    assert engine.state(second[0]) == "steps_in_process"
    engine.check()


def test_a_caller_knows_when_to_come_again(engine: Engine) -> None:
    """next_due_at is the first retry or lease end, whichever comes first; null when nothing is waited for."""
    assert engine.tick()["next_due_at"] is None
    (task,) = waiting(engine, 1, 1)
    retry_at = engine.steps(task)["s0"]["next_retry_at"]
    assert engine.tick()["next_due_at"] == retry_at
    engine.create(graph(step("short")))
    (held,) = engine.claim(lease="3 s")
    assert engine.tick()["next_due_at"] == held["lease_expires_at"]
    engine.complete([held])
    assert engine.tick()["next_due_at"] == retry_at


@pytest.mark.parametrize("meanwhile", ["retry_step", "resolve_step", "cancel_step", "cancel_task"])
def test_a_timer_of_a_step_that_moved_on_does_nothing(engine: Engine, meanwhile: str) -> None:
    (task,) = waiting(engine, 1, 1)
    target = engine.steps(task)["s0"]["workflow_step_uuid"]
    key = {"p_task_uuid": task} if meanwhile == "cancel_task" else {"p_step_uuid": target}
    engine.call(meanwhile, **key, p_reason="a test", p_requested_by="ada")
    before = engine.walk(target), engine.walk(task)
    engine.shift_clock("1 hour")
    ticked = engine.tick()
    assert (ticked["timers_fired"], ticked["steps_enqueued"], ticked["tasks_moved"]) == (1, 0, 0)
    assert (engine.walk(target), engine.walk(task)) == before
    engine.check()


def test_a_timer_is_for_one_visit_of_the_state(engine: Engine) -> None:
    """Sent back by hand, failed again: the timer of the first wait must not end the second one early."""
    (task,) = waiting(engine, 1, 1, base_delay=10)
    target = engine.steps(task)["s0"]["workflow_step_uuid"]
    engine.shift_clock("9 s")
    engine.call("retry_step", p_step_uuid=target, p_reason="a test", p_requested_by="ada")
    engine.fail(engine.claim())
    engine.orchestrate()
    engine.shift_clock("12 s")
    assert engine.tick()["steps_enqueued"] == 0
    assert engine.states(task) == {"s0": "waiting_for_retry"}
    engine.shift_clock("30 s")
    assert engine.tick()["steps_enqueued"] == 1
    engine.check()


def test_a_caller_that_dies_leaves_its_timers_to_the_next(engine: Engine, open_engine: OpenEngine) -> None:
    """B07: no flag, lock or claim of a dead janitor stops the others."""
    tasks = waiting(engine, 3, 2)
    dying, holder, next_one = open_engine(), open_engine(), open_engine()
    engine.shift_clock("11 s")
    holder.begin()
    holder.rows("select from tasker.tasks where task_uuid = %s for update", tasks[-1])
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(dying.tick)
        engine.wait_until_blocked(dying)
        assert next_one.tick()["timers_fired"] == 0, "they are in the hands of the other"
        engine.one("select pg_terminate_backend(%s)", dying.pid)
        assert call.exception(PATIENCE) is not None
    holder.commit()
    wait_until(lambda: next_one.tick()["timers_fired"] == 6, "the next caller firing all of them")
    assert retried(engine) == [1] * 6
    engine.check()


def test_a_locked_task_holds_up_its_own_timers_only(engine: Engine, open_engine: OpenEngine) -> None:
    """While one caller waits for a task, the next fires what is due elsewhere."""
    locked, free = waiting(engine, 1, 1) + waiting(engine, 1, 1)
    holder, first = open_engine(), open_engine()
    engine.shift_clock("11 s")
    holder.begin()
    holder.rows("select from tasker.tasks where task_uuid = %s for update", locked)
    call = Background(lambda: first.tick(1))
    engine.wait_until_blocked(first)
    assert engine.tick()["timers_fired"] == 1
    assert engine.states(free) == {"s0": "enqueued"}
    holder.commit()
    assert call.result()["timers_fired"] == 1
    assert engine.states(locked) == {"s0": "enqueued"}
    engine.check()


def test_two_callers_that_also_end_leases_do_not_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    """Each holds the step of its own timer and comes to a lease whose batch contains the other's step."""
    flow = graph(step("fails", retry=SLOW), step("hangs"), step("blocked"))
    for _ in range(2):
        engine.create(flow)
    claims = [engine.claim(3, lease="5 s"), engine.claim(3, lease="5 s")]
    for batch in claims:
        assert {claim["name"] for claim in batch} == {"fails", "hangs", "blocked"}
        engine.fail([claim for claim in batch if claim["name"] == "fails"])
    engine.orchestrate()
    engine.shift_clock("20 s")
    first, second, holder = open_engine(), open_engine(), open_engine()
    holder.begin()
    for batch in claims:
        (blocked,) = [claim for claim in batch if claim["name"] == "blocked"]
        holder.rows(
            "select from tasker.workflow_steps where workflow_step_uuid = %s for update", blocked["workflow_step_uuid"]
        )
    calls = [Background(partial(s.tick, 1)) for s in (first, second)]
    wait_until(
        lambda: all(call.is_done() or engine.sees_blocked(s) for call, s in zip(calls, (first, second), strict=True)),
        "both",
    )
    holder.commit()
    assert [call.result()["timers_fired"] for call in calls] == [1, 1]
    engine.settle()
    assert engine.one("select count(*) from tasker.step_claims") == 0
    engine.check()


def test_a_task_left_by_hand_where_it_could_go_on_goes_on(engine: Engine) -> None:
    """Seed 004 strands such a task for ever; here the next tick moves it, and the log invents no result."""
    task = engine.create(graph(step("a")), p_start=False)
    engine.call("transition_task", p_task_uuid=task, p_event="start")
    assert engine.state(task) == "initializing"
    engine.tick()
    assert engine.walk(task) == ["pending", "initializing", "enqueuing_steps", "steps_in_process"]
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_a_processor_has_half_a_minute_for_the_next_move(engine: Engine) -> None:
    task = engine.create(graph(step("a")), p_start=False)
    processor = engine.call("register_processor", p_name="p", p_lease="10 s")
    engine.call("transition_task", p_task_uuid=task, p_event="start", p_processor_uuid=processor)
    engine.shift_clock("29 s")
    engine.tick()
    assert engine.state(task) == "initializing"
    engine.shift_clock("31 s")
    engine.tick()
    assert engine.state(task) == "steps_in_process"
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_future_timers_cost_nothing(engine: Engine) -> None:
    """B67: thousands that wait do not slow down the few that are due: no scan of what is not due."""
    waiting(engine, 2, 1000, base_delay=500)
    waiting(engine, 1, 3)
    engine.shift_clock("60 s")
    engine.begin()
    assert engine.tick()["timers_fired"] == 3
    read = engine.row(
        "select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relid = 'tasker.timers'::regclass"
    )
    engine.commit()
    assert read["seq_scan"] == 0
    assert read["idx_tup_fetch"] < 50
