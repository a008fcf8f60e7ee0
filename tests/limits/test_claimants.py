"""Limits under many who claim at once, and under those who die: judged from the log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pgtasker import Worker
from tests.workflow.engine import PATIENCE, Engine, Row, graph, in_parallel, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

SQL_WORKER = Path(__file__).parent.parent / "workers" / "sql_worker.py"
CLAIMANTS = 32

MOST_AT_ONCE = """
  with moments as (
    select t.created_at, case when x.phase = 'running' then 1 else -1 end as change
      from tasker.workflow_step_transitions t
      join tasker.workflow_steps s on s.workflow_step_uuid = t.workflow_step_uuid
      join tasker.lifecycle_states x on x.lifecycle = t.lifecycle and x.state = t.to_state
      left join tasker.lifecycle_states f on f.lifecycle = t.lifecycle and f.state = t.from_state
     where (x.phase = 'running') is distinct from coalesce(f.phase = 'running', false) and {which}
  )
  select max(n.running) from (select sum(m.change) over (order by m.created_at, m.change) as running from moments m) n
"""
"""How many ran at once, at most: the log knows when each began and when its attempt was over."""


def work_until_done(session: Engine, name: str, chance: random.Random) -> int:
    """Claim and report in all ways until every task has ended; returns how many were claimed."""
    worker = session.worker(name, p_max_concurrent=20)
    claims: list[Row] = []
    done, deadline = 0, time.monotonic() + 4 * PATIENCE
    while session.one("select exists (select from tasker.tasks where completed_at is null)"):
        assert time.monotonic() < deadline, "it never ended"
        claims += session.claim(chance.choice([1, 2, 5]), worker)
        chance.shuffle(claims)
        batch = claims[: chance.randint(1, 5)]
        claims = claims[len(batch) :]
        done += len(batch)
        reports: list[Any] = [
            report_of(c, success=c["attempt"] > 1 or chance.random() < 0.8, category="transient") for c in batch
        ]
        if reports and chance.random() < 0.5:
            claims += session.report_and_claim(reports, chance.choice([0, 2]), worker)[1]
        elif reports:
            session.report(reports)
        session.orchestrate()
        session.tick()
    return done


def crowd(open_engine: OpenEngine) -> None:
    sessions = [open_engine() for _ in range(CLAIMANTS)]
    in_parallel(
        [
            lambda s=s, n=n: work_until_done(s, f"w{n}", random.Random(n))  # type: ignore[misc]
            for n, s in enumerate(sessions)
        ]
    )


def check_ended(engine: Engine) -> None:
    engine.settle()
    assert engine.column("select distinct phase from tasker.task_overview") == ["succeeded"]
    shown = engine.rows("select running, reserved, waiting from tasker.limit_overview")
    assert {tuple(row.values()) for row in shown} == {(0, 0, 0)}
    engine.check()
    assert engine.table("recover") == []


@on_one_server
def test_thirty_two_claimants_never_run_more_than_may(engine: Engine, open_engine: OpenEngine) -> None:
    """A tool, a namespace and a template at once; the steps form chains, so that some are handed over with a report."""
    engine.call("ensure_namespace", p_namespace="north")
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=3)
    engine.call("set_limit", p_scope="namespace", p_name="north", p_concurrency=5)
    engine.call("set_limit", p_scope="template", p_name="flow", p_namespace="north", p_concurrency=4)
    for n in range(30):
        some = [
            step(f"s{i}", *([f"s{i - 2}"] if i > 1 else []), tool="press" if i % 2 else "drill", max_attempts=9)
            for i in range(6)
        ]
        engine.create(graph(*some, name="flow" if n % 2 else "other"), p_namespace="north" if n % 3 else "default")
    crowd(open_engine)
    most = {
        which: engine.one(MOST_AT_ONCE.format(which=which))
        for which in ("s.tool = 'press'", "s.namespace = 'north'", "true")
    }
    assert most["s.tool = 'press'"] == 3
    assert most["s.namespace = 'north'"] <= 5
    assert most["true"] > 5, "who is under no limit is not held up"
    flow = "s.namespace = 'north' and s.task_uuid in (select k.task_uuid from tasker.tasks k where k.name = 'flow')"
    assert engine.one(MOST_AT_ONCE.format(which=flow)) <= 4
    check_ended(engine)


@on_one_server
def test_thirty_two_claimants_never_start_more_than_a_rate_says(engine: Engine, open_engine: OpenEngine) -> None:
    engine.call("set_limit", p_scope="tool", p_name="press", p_rate=4, p_per="200 ms")
    for _ in range(10):
        engine.create(graph(*(step(f"s{n}", tool="press") for n in range(4))))
    sessions = [open_engine() for _ in range(CLAIMANTS)]

    def succeed(session: Engine, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while session.one("select exists (select from tasker.tasks where completed_at is null)"):
            assert time.monotonic() < deadline, "it never ended"
            session.complete(session.claim(2, name))
            session.orchestrate()
            session.tick()

    in_parallel([lambda s=s, n=n: succeed(s, f"w{n}") for n, s in enumerate(sessions)])  # type: ignore[misc]
    gaps = engine.column(
        "select extract(epoch from lead(last_attempted_at, 4) over (order by last_attempted_at) - last_attempted_at)"
        " from tasker.workflow_steps"
    )
    assert min(gap for gap in gaps if gap is not None) >= 0.2, "a fifth start in a stretch of 200 ms"
    check_ended(engine)


@on_one_server
def test_a_limit_changes_under_thirty_two_claimants(engine: Engine, open_engine: OpenEngine) -> None:
    """Set up, down and away and set again while all of them work: nobody waits for ever, no slot is lost."""
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=10)
    for _ in range(20):
        engine.create(graph(*(step(f"s{n}", tool="press", max_attempts=9) for n in range(10))))
    changer, sessions = open_engine(), [open_engine() for _ in range(CLAIMANTS)]

    def change() -> None:
        chance = random.Random(7)
        while changer.one("select exists (select from tasker.tasks where completed_at is null)"):
            if chance.random() < 0.1 and changer.rows("select from tasker.limits"):
                changer.call("remove_limit", p_scope="tool", p_name="press")
            else:
                changer.call("set_limit", p_scope="tool", p_name="press", p_concurrency=chance.choice([1, 3, 10, 20]))
            if chance.random() < 0.05:
                changer.call("set_limit", p_scope="tool", p_name="press", p_concurrency=2, p_rate=50, p_per="100 ms")
        changer.call("set_limit", p_scope="tool", p_name="press", p_concurrency=4)

    in_parallel(
        [change] + [lambda s=s, n=n: work_until_done(s, f"w{n}", random.Random(n)) for n, s in enumerate(sessions)]  # type: ignore[misc]
    )
    check_ended(engine)
    assert engine.column("select number from tasker.limit_slots where kind = 'concurrency' order by 1") == [1, 2, 3, 4]


@on_one_server
def test_workers_in_python_keep_a_limit(engine: Engine, database: str) -> None:
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=2)
    steps = [step(f"s{n}", *([f"s{n - 1}"] if n % 3 else []), tool="press", handler="h") for n in range(9)]
    tasks = [engine.create(graph(*steps)) for _ in range(5)]

    def run(name: str) -> None:
        worker = Worker(database, name=name, concurrency=8)
        worker.step("h")(lambda ctx: ctx.attempt)
        worker.run_until(*tasks, timeout=4 * PATIENCE)

    in_parallel([lambda n=n: run(f"python{n}") for n in range(3)])  # type: ignore[misc]
    assert engine.one(MOST_AT_ONCE.format(which="true")) == 2
    check_ended(engine)


# -- who dies ----------------------------------------------------------------------------------------------------------


def test_a_session_that_dies_with_a_slot_in_hand_leaves_it_to_others(engine: Engine, open_engine: OpenEngine) -> None:
    """Its claim was never committed; who came meanwhile waits for a slot that is free."""
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=1)
    engine.worker(p_heartbeat_interval="1 hour")
    engine.create(graph(step("a", tool="press"), step("b", tool="press")))
    dying = open_engine()
    dying.worker("dying")
    dying.begin()
    (first,) = dying.claim(1, "dying")
    assert engine.claim() == []
    dying.connection.close()
    engine.shift_clock("2 s")
    wait_until(lambda: engine.tick()["timers_fired"] > 0 or engine.queued() != [], "the line being looked at")
    names = [claimed["name"] for claimed in engine.claim()]
    assert len(names) == 1
    assert overview_row(engine) == (1, 1)
    assert first["name"] in ("a", "b")
    engine.check()


def overview_row(engine: Engine) -> tuple[int, int]:
    row = engine.row("select running, waiting from tasker.limit_overview")
    return row["running"], row["waiting"]


def test_two_who_do_not_see_each_other(engine: Engine, open_engine: OpenEngine) -> None:
    """One starts to wait while another gives its slot back: neither knows of the other when it commits."""
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=1)
    engine.create(graph(step("a", tool="press")))
    held = engine.claim()
    engine.create(graph(step("b", tool="press"), name="other"))
    waiting, giving = open_engine(), open_engine()
    waiting.worker("waiting")
    waiting.begin()
    giving.begin()
    assert waiting.claim(1, "waiting") == []
    giving.complete(held)
    giving.commit()
    waiting.commit()
    assert engine.queued() == []
    wait_until(lambda: engine.tick()["timers_fired"] > 0, "the line being looked at")
    assert [claimed["name"] for claimed in engine.claim()] == ["b"]


def test_a_worker_killed_with_slots_in_hand_gives_them_back_with_its_lease(engine: Engine, database: str) -> None:
    """kill -9 of a process."""
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=7)
    names = [f"s{n}" for n in range(60)]
    task = engine.create(graph(*(step(name, tool="press") for name in names)))
    process = subprocess.Popen(
        [sys.executable, os.fspath(SQL_WORKER), database], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.strip() == "hanging":
                break
        else:
            pytest.fail(f"the worker ended by itself with {process.wait()}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    wait_until(
        lambda: engine.one("select count(*) from pg_stat_activity where application_name = 'sql_worker'") == 0,
        "the server noticing that the worker is gone",
    )
    held = engine.one("select count(*) from tasker.workflow_steps where claim_uuid is not null")
    assert held > 0
    assert overview_row(engine)[0] == held
    engine.check()
    engine.shift_clock("31 s")
    assert engine.tick()["leases_expired"] == held
    assert overview_row(engine)[0] == 0
    engine.drain()
    assert engine.state(task) == "complete"
    assert engine.one(MOST_AT_ONCE.format(which="true")) <= 7
    check_ended(engine)
