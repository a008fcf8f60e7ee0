"""No wake-up is lost and nothing is done twice, whoever races and whoever dies in the middle."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.workflow.engine import PATIENCE, Engine, Row, graph, in_parallel, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server


class Actor:
    """A session that does one thing after the other in a thread of its own, so that it may wait for a lock."""

    def __init__(self, engine: Engine, watcher: Engine) -> None:
        self.engine = engine
        self._watcher = watcher
        self._pool = ThreadPoolExecutor(1)
        self._call: Future[Any] | None = None

    def is_free(self) -> bool:
        if self._call is not None and self._call.done():
            self._call.result()
            self._call = None
        return self._call is None

    def do(self, action: Callable[[], Any]) -> None:
        """Start it; return as soon as it is done or waits for a lock."""
        self._call = self._pool.submit(action)
        wait_until(lambda: self.is_free() or self._watcher.sees_blocked(self.engine), "an end or a wait")

    def finish(self) -> None:
        if self._call is not None:
            self._call.result(PATIENCE)
        self._pool.shutdown()


def in_open_transaction(session: Engine, call: Callable[[], Any]) -> None:
    session.begin()
    call()


@on_one_server
def test_two_parents_in_every_interleaving(engine: Engine, open_engine: OpenEngine) -> None:
    """Two sessions report and orchestrate the two parents of one child, held open at every point.

    Each does report, commit, orchestrate, commit; all 70 orders of the two are walked. In each the child is queued
    exactly once, without anybody else coming to help.
    """
    sessions = {"A": open_engine(), "B": open_engine()}
    for order in sorted(set(itertools.permutations("AAAABBBB"))):
        task = engine.create(graph(step("a"), step("b"), step("child", "a", "b")))
        claims = engine.claim_by_name()
        actors = {name: Actor(session, engine) for name, session in sessions.items()}

        scripts: dict[str, list[Callable[[], Any]]] = {
            name: [
                partial(in_open_transaction, session, partial(session.complete, [claims[name.lower()]], name)),
                session.commit,
                partial(in_open_transaction, session, session.orchestrate),
                session.commit,
            ]
            for name, session in sessions.items()
        }
        # a session that waits for a lock comes back to its script when the other one has let it go
        pending = list(order)
        while pending:
            name = next(name for name in pending if actors[name].is_free() or len(set(pending)) == 1)
            pending.remove(name)
            wait_until(actors[name].is_free, f"session {name} free in {order}")
            actors[name].do(scripts[name].pop(0))
        for actor in actors.values():
            actor.finish()

        assert engine.states(task)["child"] == "enqueued", order
        (child,) = engine.claim()
        assert child["inputs"] == {"a": "A", "b": "B"}
        engine.complete([child])
        engine.orchestrate()
        assert engine.state(task) == "complete", order
    engine.check()


def report_and_orchestrate(session: Engine, claim: Row) -> None:
    session.complete([claim], claim["name"])
    session.orchestrate()


@on_one_server
def test_random_races_of_many_parents(engine: Engine, open_engine: OpenEngine) -> None:
    """200 rounds: two to five sessions start together, each reports its parent and orchestrates once."""
    sessions = [open_engine() for _ in range(5)]
    draw = random.Random(7)
    done: list[Row] = []
    with ThreadPoolExecutor(len(sessions)) as pool:
        for round_ in range(200):
            parents = [f"p{number}" for number in range(draw.randint(2, 5))]
            engine.create(graph(*map(step, parents), step("child", *parents)))
            claims = engine.claim_by_name()
            order = draw.sample(parents, len(parents))
            calls = [
                pool.submit(report_and_orchestrate, session, claims[name])
                for session, name in zip(sessions, order, strict=False)
            ]
            for call in calls:
                call.result(PATIENCE)
            (child,) = engine.claim()
            assert child["inputs"] == {name: name for name in parents}, round_
            done.append(child)
    engine.complete(done)
    engine.orchestrate()
    assert engine.column("select distinct state from tasker.task_overview") == ["complete"]
    engine.check()


DEATHS = {
    "claim": [
        "tasker.workflow_steps",
        "tasker.step_claims",
        "tasker.workflow_step_transitions",
        "tasker.changes",
    ],
    "report": [
        "tasker.workflow_step_transitions",
        "tasker.changes",
        "tasker.workflow_step_result_audit",
        "tasker.workflow_steps",
        "tasker.step_claims",
        "pgmq.q_orchestration_step_results",
    ],
    "orchestrate": [
        "tasker.timers",
        "tasker.workflow_step_transitions",
        "tasker.tasks",
        "tasker.workflow_steps",
        "tasker.task_transitions",
        "tasker.changes",
        "pgmq.q_worker_default_queue",
        "tasker.work_signals",
    ],
    "tick": [
        "tasker.workflow_step_transitions",
        "tasker.tasks",
        "tasker.task_transitions",
        "pgmq.q_worker_default_queue",
    ],
}


@pytest.mark.parametrize(("call", "table"), [(call, table) for call, tables in DEATHS.items() for table in tables])
def test_whoever_dies_in_the_middle_leaves_it_to_the_next(
    engine: Engine, open_engine: OpenEngine, call: str, table: str
) -> None:
    """The session is killed while it waits to write to a table; it had taken messages and locks by then."""
    task = engine.create(
        graph(step("a"), step("b"), step("c", "a", "b"), step("d", "a"), step("fails", retry={"base_delay": 5}))
    )
    victim, holder = open_engine(), open_engine()
    worker = engine.worker()
    engine.rows("update tasker.work_signals set last_notified_at = '-infinity'")
    claims: list[Row] = []
    if call != "claim":
        claims = engine.claim()
    reports = [report_of(c, **({"success": False} if c["name"] == "fails" else {"result": 1})) for c in claims]
    if call in ("orchestrate", "tick"):
        engine.report(reports)
    if call == "tick":
        engine.orchestrate()
        engine.shift_clock("10 s")
        engine.complete(engine.claim())  # c and d
        engine.orchestrate()
    actions: dict[str, Callable[[], Any]] = {
        "claim": lambda: victim.claim(worker=worker),
        "report": lambda: victim.report(reports),
        "orchestrate": victim.orchestrate,
        "tick": victim.tick,
    }
    holder.begin()
    holder.rows(f"lock table {table} in share mode")
    with ThreadPoolExecutor(1) as pool:
        doomed = pool.submit(actions[call])
        wait_until(lambda: doomed.done() or engine.sees_blocked(victim), "the victim waiting or done")
        assert not doomed.done(), f"{call} does not write to {table}"
        assert engine.one("select pg_terminate_backend(%s)", victim.pid)
        with pytest.raises(psycopg.OperationalError):
            doomed.result(PATIENCE)
    holder.commit()

    engine.check()
    if call == "report":
        engine.report(reports)
    engine.drain()
    engine.shift_clock("1 hour")
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check_completed_once(5)
    engine.check_order()
    engine.check()


def random_dag(size: int, seed: int) -> Row:
    draw = random.Random(seed)
    steps = []
    for number in range(size):
        near = range(max(0, number - 40), number)
        parents = draw.sample(near, min(len(near), draw.choice([0, 1, 1, 2, 3, 5])))
        steps.append(step(f"s{number}", *(f"s{parent}" for parent in parents), max_attempts=50))
    return graph(*steps, name="random")


@on_one_server
def test_eight_threads_drain_a_random_graph(engine: Engine, open_engine: OpenEngine) -> None:
    """500 steps, one in ten attempts fails: the log shows every edge respected and every step completed once."""
    tasks = [engine.create(random_dag(250, seed)) for seed in (1, 2)]
    sessions = [open_engine() for _ in range(8)]

    def work(session: Engine, number: int) -> None:
        draw = random.Random(number)
        while not all(session.task(task)["is_terminal"] for task in tasks):
            claims = session.claim(draw.randint(1, 9), f"w{number}")
            failed = [claim for claim in claims if draw.random() < 0.1]
            session.fail(failed)
            session.complete([claim for claim in claims if claim not in failed])
            session.orchestrate(draw.randint(1, 5))
            session.tick()

    in_parallel([partial(work, session, number) for number, session in enumerate(sessions)])
    assert [engine.state(task) for task in tasks] == ["complete", "complete"]
    engine.check_order()
    engine.check_completed_once(500)
    engine.check()


def test_orchestration_needs_no_orchestrator(engine: Engine, open_engine: OpenEngine) -> None:
    """A worker reports and dies before it orchestrates: whoever comes next, hours later, goes on."""
    task = engine.create(graph(step("a"), step("b", "a")))
    gone = open_engine()
    gone.complete(gone.claim())
    gone.connection.close()
    engine.shift_clock("5 hours")
    assert engine.drain() == 1
    assert engine.state(task) == "complete"


def test_a_stranger_may_orchestrate_what_was_reported_twice(engine: Engine) -> None:
    """An unknown step in a message is nothing, beside a known one."""
    task = engine.create(graph(step("a")))
    engine.complete(engine.claim())
    engine.rows(
        "select pgmq.send('orchestration_step_results', jsonb_build_object('step_uuids', jsonb_build_array(%s::text)))",
        str(uuid.uuid4()),
    )
    assert engine.orchestrate()["steps_settled"] == 1
    assert engine.state(task) == "complete"


def test_steps_that_nobody_mentions_are_found_when_nothing_is_under_way(engine: Engine) -> None:
    """Moved by hand, a task comes into states in which ready steps were never queued: it must not rest there."""
    task = engine.create(graph(step("a"), step("b"), step("c"), step("end", "a", "b", "c")), p_start=False)
    processor = engine.call("register_processor", p_name="p", p_lease="10 s")
    engine.call("transition_task", p_task_uuid=task, p_event="start", p_processor_uuid=processor)
    engine.call("transition_step", p_step_uuid=engine.steps(task)["a"]["workflow_step_uuid"], p_event="enqueue")
    engine.complete(engine.claim())
    engine.shift_clock("11 s")
    engine.orchestrate()  # the lease of the owner is over; only `a` is in the message
    assert engine.drain() == 3
    assert engine.state(task) == "complete"
    engine.check_order()
    engine.check()


STRICTER = ("repeatable read", "serializable")


@pytest.mark.parametrize("isolation", STRICTER)
def test_callers_in_a_stricter_isolation_lose_nothing(engine: Engine, open_engine: OpenEngine, isolation: str) -> None:
    """Their snapshots are older than their locks: a call either fails with 40001 as a whole, to be repeated, or it is right."""
    task = engine.create(random_dag(60, 5))
    sessions = [open_engine() for _ in range(4)]

    def insist(call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except psycopg.errors.SerializationFailure:
                continue

    def work(session: Engine, number: int) -> None:
        worker = session.worker(f"w{number}")
        session.rows(f"set default_transaction_isolation = '{isolation}'")
        while not engine_is_done(session):
            claims = insist(partial(session.claim, 3, worker))
            insist(partial(session.complete, claims))
            insist(session.orchestrate)

    def engine_is_done(session: Engine) -> bool:
        return bool(session.task(task)["is_terminal"])

    in_parallel([partial(work, session, number) for number, session in enumerate(sessions)])
    assert engine.state(task) == "complete"
    engine.check_order()
    engine.check_completed_once(60)
    engine.check()
