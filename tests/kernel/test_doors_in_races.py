"""The doors judge under the lock: what a caller saw before somebody else's commit decides nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import psycopg.types.json
import pytest

from tests.kernel.engine import Engine, chain, refused

Connect = Callable[..., psycopg.Connection[Any]]


@contextmanager
def in_background(watch: Engine, engine: Engine, call: Callable[[Engine], Any]) -> Iterator[list[Any]]:
    """Run the call beside the block, which begins when the call waits for a lock; yields what the call answered."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(call(engine))
        except psycopg.Error as error:
            answer.append(error.sqlstate)

    backend = engine.conn.info.backend_pid
    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while not watch.one("select cardinality(pg_blocking_pids(%s)) > 0", backend):
        assert thread.is_alive() and time.monotonic() < deadline, f"the call did not wait: {answer}"
    yield answer
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def open_one(connect: Connect) -> Engine:
    """An engine whose calls stay uncommitted until the test ends them."""
    return Engine(connect(autocommit=False))


@pytest.fixture
def other(connect: Connect) -> Engine:
    return Engine(connect())


@pytest.mark.parametrize(("end", "expected"), [("commit", "enqueued"), ("rollback", "TK422")])
def test_a_guard_is_checked_under_the_lock(
    engine: Engine, open_one: Engine, other: Engine, end: str, expected: str
) -> None:
    """The dependency is being resolved while somebody enqueues the dependent."""
    first, second = engine.steps(engine.task(chain("first", "second"), start=False)).values()
    open_one.command("resolve_step", first)
    with in_background(engine, other, lambda engine: engine.move_step(second, "enqueue")) as answer:
        getattr(open_one.conn, end)()
    assert answer == [expected]
    engine.assert_consistent()


@pytest.mark.parametrize(("end", "expected"), [("commit", "TK409"), ("rollback", "enqueued")])
def test_a_state_is_read_under_the_lock(
    engine: Engine, open_one: Engine, other: Engine, end: str, expected: str
) -> None:
    step = engine.parked_step("pending")
    open_one.command("cancel_step", step)
    with in_background(engine, other, lambda engine: engine.move_step(step, "enqueue")) as answer:
        getattr(open_one.conn, end)()
    assert answer == [expected]
    engine.assert_consistent()


def test_the_loser_of_a_race_for_a_task_is_told_by_a_code_of_ours(
    engine: Engine, open_one: Engine, other: Engine
) -> None:
    """Never a bare unique violation: seed 004, race condition prevention through database constraints."""
    task = engine.task(chain("only"), start=False)
    open_one.move_task(task, "start")
    with in_background(engine, other, lambda engine: engine.move_task(task, "start")) as answer:
        open_one.conn.commit()
    assert answer == ["TK409"]
    assert [event for _, event, _ in engine.task_log(task)] == ["create", "start"]


def test_ownership_is_checked_under_the_lock(engine: Engine, open_one: Engine, other: Engine) -> None:
    mine, theirs = engine.processor("mine", "1 hour"), engine.processor("theirs", "1 hour")
    task = engine.parked_task("initializing")
    open_one.move_task(task, "ready_steps_found", mine)
    with in_background(engine, other, lambda engine: engine.move_task(task, "timeout", theirs)) as answer:
        open_one.conn.commit()
    assert answer == ["TK403"]


@pytest.mark.parametrize("cancel_first", [True, False])
def test_cancelling_and_completing_at_once_never_both_succeed(
    engine: Engine, open_one: Engine, other: Engine, cancel_first: bool
) -> None:
    """A cancel is never overwritten by a success, and a result never by a cancel that came later."""
    task = engine.task(chain("only"))
    (claimed,) = engine.claim(engine.worker())

    def complete(engine: Engine) -> str:
        return engine.complete(claimed)

    def cancel(engine: Engine) -> str:
        return engine.command("cancel_task", task)

    first, second = (cancel, complete) if cancel_first else (complete, cancel)
    first(open_one)
    with in_background(engine, other, second) as answer:
        open_one.conn.commit()
    if cancel_first:
        assert answer == ["TK412"]
    else:
        assert answer == ["cancelled"], "the result is in the log and the audit; the task is cancelled after it"
        assert engine.one("select count(*) from tasker.get_task_audit_history(%s)", task) == 1
    assert engine.state(task) == "cancelled"
    engine.orchestrate()
    assert engine.states(task) == {"only": "cancelled"}
    with refused("TK409"):
        engine.command("cancel_task", task)
    engine.assert_consistent()


def test_of_many_callers_of_one_event_one_succeeds(engine: Engine, connect: Connect) -> None:
    steps = list(engine.steps(engine.task([{"name": f"s{number}"} for number in range(30)], start=False)).values())
    racers = [Engine(connect()) for _ in range(4)]
    barrier = threading.Barrier(len(racers))
    answers: list[tuple[UUID, str | None]] = []

    def race(racer: Engine) -> None:
        for step in steps:
            barrier.wait(30)
            try:
                answers.append((step, racer.move_step(step, "enqueue")))
            except psycopg.Error as error:
                answers.append((step, error.sqlstate))

    threads = [threading.Thread(target=race, args=(racer,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for step in steps:
        assert sorted(str(answer) for key, answer in answers if key == step) == ["TK409"] * 3 + ["enqueued"]
    engine.assert_consistent()


def test_a_vocabulary_may_grow_while_it_is_at_work(engine: Engine, open_one: Engine, other: Engine) -> None:
    """Defining rules locks nobody out: a task is created and runs while the new rules are not committed yet."""
    engine.one("select tasker.ensure_namespace('default')")
    definition = engine.one("select definition from tasker.vocabularies where vocabulary = 'tasker'")
    definition["description"] = "told differently"
    open_one.one("select tasker.define_vocabulary(%s)", psycopg.types.json.Jsonb(definition))
    other.run("set lock_timeout = '10 s'")
    task = other.task(chain("only"))
    other.finish(other.worker())
    open_one.conn.commit()
    assert engine.state(task) == "complete"
    assert engine.one("select description from tasker.vocabularies where vocabulary = 'tasker'") == "told differently"
