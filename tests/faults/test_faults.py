"""Servers that crash, connections that are cut, clocks that jump, while real worker processes run: judged from the logs."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgtasker import migrate
from pgtasker.server import EmbeddedServer
from tests.conftest import SETTINGS
from tests.workflow.engine import Engine, Row, graph, step, wait_until
from tests.workflow.fixtures import on_one_server

PLAIN_WORKER = Path(__file__).with_name("plain_worker.py")
VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


@contextlib.contextmanager
def workers(dsn: str, how_many: int = 3) -> Iterator[list[subprocess.Popen[str]]]:
    """Worker processes over this database; they are gone at the end, whatever happens."""
    running = [
        subprocess.Popen(
            [sys.executable, os.fspath(PLAIN_WORKER), dsn], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(how_many)
    ]
    try:
        yield running
        for process in running:
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0, output
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.communicate()


def diamond(vocabulary: str) -> Row:
    """Ten steps in three layers; attempts never run out, since lost leases count as attempts."""
    some = {"max_attempts": 1000}
    middle = [step(f"m{n}", "s0", **some) for n in range(8)]
    return graph(step("s0", **some), *middle, step("end", *(f"m{n}" for n in range(8)), **some), vocabulary=vocabulary)


def fill(engine: Engine, tasks: int) -> None:
    for n in range(tasks):
        engine.create(diamond(VOCABULARIES[n % len(VOCABULARIES)]))


SUCCEEDED = """
  select count(*) from tasker.workflow_step_transitions t
    join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
   where s.phase = 'succeeded'
"""


def check_everything(engine: Engine, steps: int) -> None:
    """Every step reached success exactly once in its log, every task succeeded, nothing contradicts itself or is left."""
    engine.settle()
    assert engine.column(f"{SUCCEEDED} group by workflow_step_uuid") == [1] * steps
    assert engine.column("select distinct phase from tasker.task_overview") == ["succeeded"]
    assert engine.rows("select * from tasker.check_consistency()") == []
    assert engine.table("recover") == []
    engine.check_order()


@pytest.fixture
def own_server(server_folder: Path) -> Iterator[EmbeddedServer]:
    """A server that a test may crash. Commits are written before they are answered, as in life."""
    with EmbeddedServer(server_folder / "faults", settings={**SETTINGS, "synchronous_commit": "on"}) as server:
        yield server


def test_the_server_crashes_twice_in_the_middle(own_server: EmbeddedServer) -> None:
    """stop -m immediate: no shutdown checkpoint, sessions torn off, recovery from the write-ahead log."""
    dsn = own_server.ensure_database("crash")
    migrate.upgrade(dsn)
    tasks = 30

    def progress() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            done: int = Engine(connection).one(SUCCEEDED)
            return done

    with psycopg.connect(dsn, autocommit=True) as connection:
        fill(Engine(connection), tasks)
    with workers(dsn):
        for share in (0.15, 0.4):
            wait_until(lambda share=share: progress() >= tasks * 10 * share, "progress")  # type: ignore[misc]
            own_server.stop("immediate")
            own_server.start()
        wait_until(lambda: progress() >= tasks * 5, "the rest being worked on")
        # what the dead sessions held comes back with its lease; nobody waits for that here
        with psycopg.connect(dsn, autocommit=True) as connection:
            Engine(connection).shift_clock("2 hours")
    with psycopg.connect(dsn, autocommit=True) as connection:
        check_everything(Engine(connection), tasks * 10)


@on_one_server
def test_connections_are_cut_at_random_moments(engine: Engine, database: str) -> None:
    """pg_terminate_backend in the middle of whatever a worker does."""
    tasks, chance = 25, random.Random(5)
    fill(engine, tasks)
    with workers(database):
        cut = 0

        def sessions() -> list[int]:
            return engine.column(
                "select pid from pg_stat_activity where application_name = 'plain_worker' and datname = current_database()"
            )

        while engine.one("select exists (select from tasker.tasks where completed_at is null)"):
            if cut < 40:
                wait_until(lambda: bool(sessions()) or not _left(engine), "a session")
                if pids := sessions():
                    cut += engine.one("select pg_terminate_backend(%s)::int", chance.choice(pids))
            engine.shift_clock(f"{cut * 10} s")  # what the dead sessions held comes back
    assert cut >= 10
    check_everything(engine, tasks * 10)


@on_one_server
def test_the_clock_jumps_hours_both_ways(engine: Engine, database: str) -> None:
    tasks, chance = 25, random.Random(7)
    fill(engine, tasks)
    with workers(database):
        jumps = 0
        done = -1
        while _left(engine):
            now_done = engine.one(SUCCEEDED)
            if now_done == done and jumps < 30:
                continue
            done = now_done
            jumps += 1
            engine.shift_clock(chance.choice(["-5 hours", "3 hours", "0", "9 hours"]) if jumps < 30 else "12 hours")
    assert jumps >= 5
    check_everything(engine, tasks * 10)


def _left(engine: Engine) -> bool:
    return bool(engine.one("select exists (select from tasker.tasks where completed_at is null)"))


@on_one_server
@pytest.mark.parametrize("lost", ["tick", "orchestrate", "claim", "report"])
def test_a_call_that_was_cancelled_changed_nothing(engine: Engine, database: str, lost: str) -> None:
    """A statement that is cancelled while it waits for a lock leaves all as it was; the next caller does it."""
    engine.worker(p_heartbeat_interval="1 hour")
    task = engine.create(graph(step("a", max_attempts=5), vocabulary="execution"))
    held = engine.claim(lease="5 s") if lost != "claim" else []
    if lost == "orchestrate":
        engine.create(graph(step("b"), name="other"))
        engine.complete(engine.claim())
    if lost == "tick":
        engine.fail(held, retry_after=1)
        engine.shift_clock("10 s")
    worker = engine.worker()
    with psycopg.connect(database, autocommit=True) as holder, psycopg.connect(database, autocommit=True) as victim:
        holder.execute("begin")
        holder.execute("select from tasker.tasks for update")
        victim.execute("set statement_timeout = '300 ms'")
        calls: dict[str, Callable[[], object]] = {
            "tick": lambda: victim.execute("select tasker.tick()"),
            "orchestrate": lambda: victim.execute("select tasker.orchestrate()"),
            "claim": lambda: victim.execute("select tasker.claim_steps(%s, null, 5)", [worker]),
            "report": lambda: Engine(victim).complete(held),
        }
        with pytest.raises(psycopg.errors.QueryCanceled):
            calls[lost]()
        holder.execute("rollback")
    engine.check()
    assert engine.table("recover") == []
    engine.shift_clock("1 hour")
    engine.settle()
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
