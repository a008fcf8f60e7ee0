"""Leases: a step comes back from a worker that is gone, and a worker that is late changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, graph, in_parallel, step, wait_until
from tests.workflow.fixtures import OpenEngine

SQL_WORKER = Path(__file__).with_name("sql_worker.py")


def one_step(engine: Engine, **fields: object) -> UUID:
    return engine.create(graph(step("a", **fields)))


# -- the end of a lease ----------------------------------------------------------------------------------------------


def test_a_step_whose_lease_ended_goes_to_another_worker(engine: Engine) -> None:
    """Its attempt is counted, the late report is refused and recorded, and its result is kept nowhere."""
    task = one_step(engine, max_attempts=3)
    (zombie,) = engine.claim(worker="slow", lease="5 s")
    engine.shift_clock("6 s")
    assert engine.tick()["leases_expired"] == 1
    assert engine.column("select * from tasker.held_claims(%s)", engine.worker("slow")) == []
    engine.settle()
    (taken,) = engine.claim(worker="quick")
    assert (taken["attempt"], taken["max_attempts"]) == (2, 3)
    assert taken["claim_uuid"] != zombie["claim_uuid"]

    (outcome,) = engine.complete([zombie], "late")
    assert (outcome["code"], outcome["state"]) == ("TK412", None)
    assert engine.complete([taken], "right")[0]["code"] is None
    (outcome,) = engine.complete([zombie], "later still")
    assert outcome["code"] == "TK412"
    engine.settle()
    row = engine.steps(task)["a"]
    assert (row["state"], row["result"], row["worker_uuid"]) == ("complete", "right", engine.worker("quick"))
    assert [r["code"] for r in engine.rejections()] == ["TK412", "TK412"]
    assert engine.one("select count(*) from tasker.workflow_step_transitions where metadata::text like '%%late%%'") == 0
    engine.check_completed_once(1)
    engine.check()


@pytest.mark.parametrize("late", ["complete_step", "fail_step"])
def test_a_late_report_is_refused_before_anybody_else_has_the_step(engine: Engine, late: str) -> None:
    """The lease ended and the step waits for its retry: the claim is over all the same."""
    one_step(engine, retry={"base_delay": 100})
    (zombie,) = engine.claim(lease="5 s")
    engine.shift_clock("6 s")
    engine.tick()
    engine.orchestrate()
    key = {"p_step_uuid": zombie["workflow_step_uuid"], "p_claim_uuid": zombie["claim_uuid"]}
    with pytest.raises(psycopg.Error) as caught:
        engine.call(late, **key, **({"p_error": {}} if late == "fail_step" else {}))
    assert caught.value.sqlstate == "TK412"
    engine.check()


def test_the_attempt_that_ended_stands_in_the_audit_under_its_worker(engine: Engine) -> None:
    one_step(engine)
    (zombie,) = engine.claim(worker="slow", lease="5 s")
    engine.shift_clock("6 s")
    engine.tick()
    (audit,) = engine.rows("select * from tasker.get_audit_by_worker(%s)", engine.worker("slow"))
    assert (audit["success"], audit["workflow_step_uuid"]) == (False, zombie["workflow_step_uuid"])
    assert audit["metadata"]["lease_expired"] is True
    assert audit["metadata"]["error"]["type"] == "lease_expired"


def test_a_poison_step_ends_after_its_attempts(engine: Engine) -> None:
    """B09: a step that kills every worker consumes an attempt each time; the others of the task go on."""
    task = engine.create(graph(step("poison", max_attempts=3), step("good"), step("after", "good")))
    crashes = 0
    while claims := engine.claim(10, lease="5 s"):
        crashes += sum(claim["name"] == "poison" for claim in claims)
        engine.complete([claim for claim in claims if claim["name"] != "poison"])
        engine.shift_clock(f"{crashes * 10} s")
        engine.settle()
    assert crashes == 3
    assert engine.states(task) == {"poison": "error", "good": "complete", "after": "complete"}
    assert engine.steps(task)["poison"]["last_error"]["type"] == "lease_expired"
    assert engine.state(task) == "blocked_by_failures"
    assert engine.queued() == []
    engine.check()


def test_only_what_is_still_held_comes_back(engine: Engine) -> None:
    """A batch of which a part was reported in time."""
    engine.create(graph(*(step(f"s{n}") for n in range(10))))
    claims = engine.claim(lease="5 s")
    engine.complete(claims[:4])
    engine.fail(claims[4:6], category="permanent")
    engine.shift_clock("6 s")
    assert engine.tick()["leases_expired"] == 4
    assert engine.one("select count(*) from tasker.step_claims") == 0
    engine.settle()
    assert sorted(c["name"] for c in engine.claim()) == sorted(c["name"] for c in claims[6:])
    engine.check()


def test_a_lease_that_ended_but_was_not_taken_away_is_still_good(engine: Engine) -> None:
    """B03: one rule for all calls. The claim is over when tick takes it, not when the clock passes."""
    engine.worker(p_heartbeat_interval="1 hour")
    task = engine.create(graph(step("a", timeout_seconds=7200), step("b", timeout_seconds=7200)))
    claims = engine.claim(lease="5 s")
    engine.shift_clock("1 hour")
    assert engine.complete(claims[:1])[0]["code"] is None
    assert engine.call("extend_leases", p_worker_uuid=engine.worker(), p_lease="30 s") == 1
    assert engine.tick()["leases_expired"] == 0
    assert engine.complete(claims[1:])[0]["code"] is None
    engine.settle()
    assert engine.state(task) == "complete"
    engine.check()


def test_the_row_of_a_worker_stays(engine: Engine) -> None:
    """B05: orphans that nobody finds, since the row of their worker was deleted. Its log keeps it."""
    one_step(engine)
    engine.claim(worker="gone", lease="5 s")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        engine.rows("delete from tasker.workers where name = 'gone'")
    engine.shift_clock("6 s")
    assert engine.tick()["leases_expired"] == 1
    engine.settle()
    assert len(engine.claim(worker="other")) == 1
    engine.check()


def test_a_restarted_worker_does_not_keep_the_old_one_alive(engine: Engine) -> None:
    """B05: the same name, another start, another identity: its heartbeats extend nothing of the old one."""
    one_step(engine)
    first = engine.call("register_worker", p_name="pod-0")
    engine.claim(worker=first, lease="5 s")
    second = engine.call("register_worker", p_name="pod-0")
    engine.shift_clock("4 s")
    assert engine.call("extend_leases", p_worker_uuid=second, p_lease="60 s") == 0
    assert engine.call("worker_heartbeat", p_worker_uuid=second) == "idle"
    engine.shift_clock("6 s")
    assert engine.tick()["leases_expired"] == 1


def test_a_worker_that_shut_down_may_report_what_it_holds(engine: Engine) -> None:
    task = one_step(engine)
    claims = engine.claim()
    assert engine.call("shutdown_worker", p_worker_uuid=engine.worker(), p_reason="SIGTERM") == "busy"
    assert engine.call("shutdown_worker", p_worker_uuid=engine.worker(), p_reason="again") == "busy"
    assert engine.call("worker_heartbeat", p_worker_uuid=engine.worker()) == "busy", "it holds work"
    assert engine.call("extend_leases", p_worker_uuid=engine.worker()) == 1
    engine.complete(claims)
    assert engine.call("worker_heartbeat", p_worker_uuid=engine.worker()) == "shutdown"
    engine.settle()
    assert engine.state(task) == "complete"


@pytest.mark.parametrize("function", ["worker_heartbeat", "shutdown_worker", "processor_heartbeat"])
def test_who_is_not_registered_is_told(engine: Engine, function: str) -> None:
    name = "p_processor_uuid" if function.startswith("processor") else "p_worker_uuid"
    with pytest.raises(psycopg.Error) as caught:
        engine.call(function, **{name: UUID(int=7)})
    assert caught.value.sqlstate == "TK404"


def test_held_claims_tell_a_worker_what_was_taken_away(engine: Engine) -> None:
    engine.create(graph(step("a"), step("b"), step("c"), step("d")))
    first, second = engine.claim(2), engine.claim(2)
    assert engine.one("select count(*) from tasker.held_claims(%s)", engine.worker()) == 4
    engine.call("cancel_step", p_step_uuid=first[0]["workflow_step_uuid"], p_reason="x", p_requested_by="ada")
    engine.complete(second[:1])
    held = engine.column("select * from tasker.held_claims(%s)", engine.worker())
    assert sorted(held) == sorted([first[1]["workflow_step_uuid"], second[1]["workflow_step_uuid"]])
    assert engine.column("select * from tasker.held_claims(%s)", engine.worker("other")) == []


# -- the clock -------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_hours_ahead_loses_nothing(engine: Engine) -> None:
    """Every lease and backoff is over at once; every step still runs to its end, once."""
    task = engine.create(
        graph(*(step(f"s{n}", retry={"base_delay": 10}) for n in range(20)), step("end", *(f"s{n}" for n in range(20))))
    )
    claims = engine.claim(15, worker="a")
    engine.fail(claims[:5])
    engine.orchestrate()
    engine.shift_clock("7 hours")
    ticked = engine.tick()
    assert (ticked["timers_fired"], ticked["leases_expired"]) == (5, 10)
    engine.complete(claims[5:], "too late")
    engine.drain()
    engine.shift_clock("14 hours")
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check_completed_once(21)
    engine.check_order()
    engine.check()


def test_a_clock_that_jumps_back_only_makes_things_later(engine: Engine) -> None:
    """A lease from the future can be given back by an extension; nothing breaks and nothing is lost."""
    engine.shift_clock("5 hours")
    task = engine.create(graph(step("a"), step("b", retry={"base_delay": 10, "jitter": 0})))
    claims = engine.claim_by_name(lease="30 s")
    engine.fail([claims["b"]])
    engine.orchestrate()
    engine.shift_clock("-1 hour")
    ticked = engine.tick()
    assert (ticked["timers_fired"], ticked["leases_expired"]) == (0, 0)
    assert engine.call("extend_leases", p_worker_uuid=engine.worker(), p_lease="30 s") == 1
    engine.shift_clock("-59 minutes")
    assert engine.tick()["leases_expired"] == 1, "the extension brought it back to the clock of now"
    engine.drain()
    engine.shift_clock("6 hours")
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_the_audit_never_reads_the_shifted_clock(engine: Engine) -> None:
    engine.shift_clock("3 years")
    one_step(engine)
    engine.drain()
    for table in ("task_transitions", "workflow_step_transitions", "workflow_step_result_audit"):
        assert engine.one(f"select max(created_at) <= clock_timestamp() from tasker.{table}"), table


# -- races -----------------------------------------------------------------------------------------------------------


def test_an_extension_that_came_first_keeps_the_lease(engine: Engine, open_engine: OpenEngine) -> None:
    """The extension is not committed yet when tick looks: tick waits or passes by, and takes nothing away."""
    one_step(engine)
    claims = engine.claim(lease="5 s")
    engine.shift_clock("6 s")
    worker, ticker = open_engine(), open_engine()
    worker.begin()
    assert worker.call("extend_leases", p_worker_uuid=engine.worker(), p_lease="30 s") == 1
    tick = Background(ticker.tick)
    wait_until(lambda: tick.is_done() or engine.sees_blocked(ticker), "tick done or waiting")
    worker.commit()
    assert tick.result()["leases_expired"] == 0
    assert engine.tick()["leases_expired"] == 0
    assert engine.complete(claims)[0]["code"] is None
    engine.check()


def test_an_extension_that_came_second_extends_nothing(engine: Engine, open_engine: OpenEngine) -> None:
    one_step(engine)
    claims = engine.claim(lease="5 s")
    engine.shift_clock("6 s")
    worker, ticker = open_engine(), open_engine()
    ticker.begin()
    assert ticker.tick()["leases_expired"] == 1
    extension = Background(lambda: worker.call("extend_leases", p_worker_uuid=engine.worker(), p_lease="30 s"))
    engine.wait_until_blocked(worker)
    ticker.commit()
    assert extension.result() == 0
    assert engine.complete(claims)[0]["code"] == "TK412"
    engine.check()


def test_a_report_that_came_first_is_not_overwritten_by_the_end_of_its_lease(
    engine: Engine, open_engine: OpenEngine
) -> None:
    """B01: a rescuer that looked before the report committed must look again."""
    task = one_step(engine)
    claims = engine.claim(lease="5 s")
    engine.shift_clock("6 s")
    worker, ticker = open_engine(), open_engine()
    worker.begin()
    assert worker.complete(claims, "in time")[0]["code"] is None
    tick = Background(ticker.tick)
    wait_until(lambda: tick.is_done() or engine.sees_blocked(ticker), "tick done or waiting")
    worker.commit()
    assert tick.result()["leases_expired"] == 0
    engine.settle()
    assert engine.steps(task)["a"]["result"] == "in time"
    assert engine.steps(task)["a"]["attempts"] == 1
    engine.check()


def test_a_report_that_came_second_is_refused(engine: Engine, open_engine: OpenEngine) -> None:
    one_step(engine)
    claims = engine.claim(lease="5 s")
    engine.shift_clock("6 s")
    worker, ticker = open_engine(), open_engine()
    ticker.begin()
    assert ticker.tick()["leases_expired"] == 1
    report = Background(lambda: worker.complete(claims))
    engine.wait_until_blocked(worker)
    ticker.commit()
    assert report.result()[0]["code"] == "TK412"
    engine.drain()
    engine.check_completed_once(1)
    engine.check()


def test_a_step_that_was_rescued_and_claimed_again_is_not_rescued_twice(
    engine: Engine, open_engine: OpenEngine
) -> None:
    """B01, second half: the other reaper was faster and another worker has the step by now."""
    task = one_step(engine)
    engine.claim(worker="first", lease="5 s")
    engine.shift_clock("6 s")
    slow, holder = open_engine(), open_engine()
    holder.begin()
    holder.tick()
    tick = Background(slow.tick)
    wait_until(lambda: tick.is_done() or engine.sees_blocked(slow), "the slow reaper done or waiting")
    holder.orchestrate()
    holder.tick()
    (again,) = holder.rows("select * from tasker.claim_steps(%s, null, 1, '1 hour')", engine.worker("second"))
    holder.commit()
    assert tick.result()["leases_expired"] == 0
    assert engine.states(task) == {"a": "in_progress"}
    assert engine.steps(task)["a"]["attempts"] == 2
    assert engine.complete([again])[0]["code"] is None
    engine.check()


def test_eight_reapers_take_every_claim_once(engine: Engine, open_engine: OpenEngine) -> None:
    engine.create(graph(*(step(f"s{n}", max_attempts=2) for n in range(200))))
    while engine.claim(3, lease="5 s"):
        pass
    engine.shift_clock("6 s")
    sessions = [open_engine() for _ in range(8)]

    def tick_on(session: Engine) -> int:
        return sum(session.tick(9)["leases_expired"] for _ in range(12))

    expired = in_parallel([partial(tick_on, s) for s in sessions])
    assert sum(expired) == 200
    assert engine.one("select count(*) from tasker.workflow_step_result_audit") == 200
    engine.check()


def test_extending_and_ending_leases_take_claims_in_one_order(engine: Engine, open_engine: OpenEngine) -> None:
    """No deadlock between a worker that extends all its claims and a tick that ends them."""
    engine.create(graph(*(step(f"s{n}") for n in range(6))))
    worker = engine.worker()
    claims = [engine.claim(1, lease="5 s") for _ in range(6)]
    # the rows come to lie the other way round than their keys
    for (claimed,) in reversed(claims):
        engine.rows(
            "update tasker.step_claims set open_steps = open_steps where claim_uuid = %s", claimed["claim_uuid"]
        )
    engine.rows("vacuum full tasker.step_claims")
    for (claimed,) in reversed(claims):
        engine.rows(
            "with gone as (delete from tasker.step_claims where claim_uuid = %s returning *)"
            " insert into tasker.step_claims select * from gone",
            claimed["claim_uuid"],
        )
    engine.shift_clock("6 s")
    extender, ticker, holder = open_engine(), open_engine(), open_engine()
    lowest = min(claimed["claim_uuid"] for (claimed,) in claims)
    holder.begin()
    holder.rows("select from tasker.step_claims where claim_uuid = %s for update", lowest)
    extension = Background(lambda: extender.call("extend_leases", p_worker_uuid=worker))
    engine.wait_until_blocked(extender)
    tick = Background(ticker.tick)
    wait_until(lambda: tick.is_done() or engine.sees_blocked(ticker), "tick done or waiting")
    holder.commit()
    assert extension.result() + tick.result()["leases_expired"] == 6
    engine.check()


def test_cancel_and_the_end_of_a_lease_at_once(engine: Engine, open_engine: OpenEngine) -> None:
    """60 rounds: whoever comes second finds the step gone; the task is cancelled either way."""
    sessions = [open_engine(), open_engine()]
    for round_ in range(60):
        task = engine.create(graph(step("a"), step("b")))
        engine.claim(lease="5 s")
        engine.shift_clock(f"{6 * (round_ + 1)} s")
        in_parallel(
            [
                partial(sessions[0].call, "cancel_task", p_task_uuid=task, **BY),
                sessions[1].tick,
            ]
        )
        assert set(engine.states(task).values()) == {"cancelled"}
    engine.settle()
    engine.check()


# -- a real process --------------------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_of_100_steps_loses_none(engine: Engine, database: str) -> None:
    """kill -9 of a process that speaks plain SQL: every step runs to its end and is completed once in the log."""
    names = [f"s{n}" for n in range(100)]
    task = engine.create(graph(*map(step, names), step("end", *names)))
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
    assert held == 5, "it was killed with half a batch in its hands"
    engine.check()
    assert engine.tick()["leases_expired"] == 0, "its lease is still alive"
    engine.shift_clock("31 s")
    assert engine.tick()["leases_expired"] == held
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check_completed_once(101)
    engine.check_order()
    assert engine.one("select count(*) from tasker.workflow_step_result_audit where not success") == held
    engine.check()
