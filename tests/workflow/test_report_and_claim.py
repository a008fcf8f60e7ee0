"""A report that goes on: it settles its step, drives the task, and takes what became ready, in one transaction."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, report_of, step
from tests.workflow.fixtures import OpenEngine, on_one_server

WHOLE_WALK = ["pending", "enqueued", "in_progress", "enqueued_for_orchestration", "complete"]


def chain(length: int, **fields: Any) -> Row:
    return graph(*(step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(length)), **fields)


def reports(claims: list[Row], **fields: Any) -> list[Row]:
    return [report_of(claimed, result=claimed["name"], **fields) for claimed in claims]


def waiting_results(engine: Engine) -> int:
    count: int = engine.one("select count(*) from pgmq.q_orchestration_step_results")
    return count


def test_a_chain_is_walked_without_queue_or_orchestration(engine: Engine) -> None:
    """Every state stands in the log and every result in the audit, though no step but the first was ever queued."""
    task = engine.create(chain(4))
    claims = engine.claim()
    inputs: list[Any] = []
    for length in range(4):
        assert [claimed["name"] for claimed in claims] == [f"s{length}"]
        inputs.append(claims[0]["inputs"])
        outcomes, claims = engine.report_and_claim(reports(claims))
        assert [(o["state"], o["code"], o["awaits_orchestration"]) for o in outcomes] == [("complete", None, False)]
        engine.check()
    assert inputs == [{}, {"s0": "s0"}, {"s1": "s1"}, {"s2": "s2"}]
    assert (claims, engine.queued(), waiting_results(engine)) == ([], [], 0)
    assert engine.task(task)["phase"] == "succeeded"
    for row in engine.steps(task).values():
        assert engine.walk(row["workflow_step_uuid"]) == WHOLE_WALK
        assert row["attempts"] == 1
    records = engine.table("get_task_audit_history", p_task_uuid=task)
    assert [(r["success"], r["worker_uuid"]) for r in records] == [(True, engine.worker())] * 4
    assert engine.one("select count(*) from tasker.step_claims") == 0
    engine.check_order()


def test_it_logs_what_report_and_orchestrate_log(engine: Engine) -> None:
    """The same rows but for keys and times, whichever way a result takes."""
    flow = graph(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    one, other = engine.create(flow), engine.create(flow)
    claims = {claimed["task_uuid"]: claimed for claimed in engine.claim()}
    ours, held = [claims[one]], [claims[other]]
    while ours:
        _, ours = engine.report_and_claim(reports(ours))
    while held:
        engine.report(reports(held))
        engine.orchestrate()
        held = engine.claim()
    logs = [
        engine.rows(
            "select kind, name, event, from_state, to_state, sort_key, metadata - array['claim_uuid', 'correlation_id'] as said"
            "  from tasker.timeline where task_uuid = %s order by kind, name, sort_key",
            task,
        )
        for task in (one, other)
    ]
    # two results of one call make one move of the task, those of two calls two
    assert [row for row in logs[0] if row["kind"] == "step"] == [row for row in logs[1] if row["kind"] == "step"]


def test_what_there_is_no_room_for_is_queued(engine: Engine) -> None:
    engine.create(graph(step("a"), *(step(f"b{n}", "a") for n in range(5))))
    _, taken = engine.report_and_claim(reports(engine.claim()), limit=2)
    assert len(taken) == 2
    assert len({claimed["claim_uuid"] for claimed in taken}) == 1
    others = engine.claim(worker="v")
    assert sorted(c["name"] for c in taken + others) == [f"b{n}" for n in range(5)]
    engine.report_and_claim(reports(taken))
    engine.report_and_claim(reports(others), worker="v")
    engine.check()


def test_no_more_than_the_worker_may_hold(engine: Engine) -> None:
    engine.worker(p_max_concurrent=2)
    engine.create(graph(step("a"), *(step(f"b{n}", "a") for n in range(5))))
    _, taken = engine.report_and_claim(reports(engine.claim()), limit=100)
    assert len(taken) == 2
    assert engine.report_and_claim([], limit=100) == ([], [])
    assert engine.claim() == []


def test_none_for_a_worker_that_is_to_end(engine: Engine) -> None:
    engine.create(chain(2))
    claims = engine.claim()
    engine.call("shutdown_worker", p_worker_uuid=engine.worker())
    (outcome,), taken = engine.report_and_claim(reports(claims))
    assert (outcome["state"], taken, len(engine.queued())) == ("complete", [], 1)


def test_none_of_what_the_worker_can_not_do_or_does_not_serve(engine: Engine) -> None:
    engine.create(graph(step("a"), step("b", "a", requires=["gpu"])))
    assert engine.report_and_claim(reports(engine.claim()))[1] == []
    assert engine.claim() == []
    engine.worker("able", p_capabilities=["gpu"])
    assert [c["name"] for c in engine.claim(worker="able")] == ["b"]
    engine.create(chain(2))
    assert engine.report_and_claim(reports(engine.claim()), namespaces=["elsewhere"])[1] == []
    assert len(engine.queued()) == 1


def test_a_task_that_somebody_else_is_at_is_left_to_orchestration(engine: Engine, open_engine: OpenEngine) -> None:
    """Nobody waits: the result is safe, and whoever orchestrates next settles it."""
    task, free = engine.create(chain(2)), engine.create(chain(2))
    claims = engine.claim()
    other = open_engine()
    other.begin()
    other.rows("select from tasker.tasks where task_uuid = %s for no key update", task)
    outcomes, taken = engine.report_and_claim(reports(claims))
    assert {o["state"]: o["awaits_orchestration"] for o in outcomes} == {
        "enqueued_for_orchestration": True,
        "complete": False,
    }
    assert [str(claimed["task_uuid"]) for claimed in taken] == [str(free)]
    engine.report_and_claim(reports(taken))
    assert engine.task(free)["phase"] == "succeeded"
    waiting = Background(engine.orchestrate)
    other.wait_until_blocked(engine)
    other.commit()
    assert waiting.result()["steps_settled"] == 1
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_failure_goes_the_long_way(engine: Engine) -> None:
    """It may end the task and takes more locks for that; so does what comes after it in the same task."""
    task = engine.create(graph(step("a"), step("b"), step("c", "b")))
    claims = {claimed["name"]: claimed for claimed in engine.claim()}
    failed = report_of(claims["a"], success=False, category="permanent", error={"message": "no"})
    (outcome,), _ = engine.report_and_claim([failed])
    assert (outcome["state"], outcome["awaits_orchestration"]) == ("enqueued_as_error_for_orchestration", True)
    engine.orchestrate()
    (outcome,), taken = engine.report_and_claim(reports([claims["b"]]))
    assert (outcome["awaits_orchestration"], taken) == (True, [])
    engine.drain()
    assert engine.task(task)["phase"] == "blocked"
    engine.check()


def test_a_task_of_a_processor_is_left_to_it(engine: Engine) -> None:
    task = engine.create(chain(2), p_start=False)
    processor = engine.call("register_processor", p_name="p", p_lease="30 s")
    for event in ("start", "ready_steps_found", "steps_enqueued"):
        engine.call("transition_task", p_task_uuid=task, p_event=event, p_processor_uuid=processor)
    (outcome,), taken = engine.report_and_claim(reports(engine.claim()))
    assert (outcome["awaits_orchestration"], taken) == (True, [])


def test_refused_and_repeated_reports_disturb_nobody(engine: Engine) -> None:
    engine.create(chain(2))
    engine.create(chain(2))
    claims = engine.claim()
    stale = {**report_of(claims[0]), "claim_uuid": str(uuid4())}
    outcomes, taken = engine.report_and_claim([stale, {"step_uuid": 1}, *reports(claims)])
    assert [o["code"] for o in outcomes] == ["TK412", "TK400", None, None]
    assert len(taken) == 2
    again, more = engine.report_and_claim(reports(claims))
    assert ([o["state"] for o in again], more) == (["complete", "complete"], [])
    engine.check()


def test_conditions_are_judged_and_breakers_have_their_word(engine: Engine) -> None:
    flow = graph(step("a"), step("b", "a", condition='$.inputs.a == "no"'), step("c", "b"))
    task = engine.create(flow)
    _, taken = engine.report_and_claim(reports(engine.claim()))
    assert [claimed["name"] for claimed in taken] == ["c"]
    assert engine.states(task)["b"] == "cancelled"
    engine.report_and_claim(reports(taken))
    engine.call("configure_breaker", p_tool="h")
    engine.create(chain(2))
    assert engine.report_and_claim(reports(engine.claim()))[1] == []
    assert len(engine.queued()) == 1
    engine.check()


def test_pauses_delays_and_priorities_hold(engine: Engine) -> None:
    """Whatever a claim would not give the worker now, a report does not give it either."""
    engine.create(graph(step("a"), step("b", "a", delay_seconds=3600)))
    assert engine.report_and_claim(reports(engine.claim()))[1] == []
    engine.create(chain(2))
    claims = engine.claim()
    engine.call("pause_namespace", p_namespace="default", **BY)
    assert engine.report_and_claim(reports(claims))[1] == []
    engine.call("resume_namespace", p_namespace="default", **BY)
    engine.report_and_claim(reports(engine.claim()))
    engine.create(chain(2), p_priority=3)
    urgent = engine.claim()
    engine.create(chain(2))
    (plain,) = engine.claim()
    assert engine.report_and_claim(reports([plain]))[1] == []
    assert [claimed["name"] for claimed in engine.report_and_claim(reports(urgent))[1]] == ["s1"]
    engine.check()


@pytest.mark.parametrize("vocabulary", ["orchestration", "pipeline", "execution", "supervision"])
def test_other_vocabularies_go_on_as_they_do(engine: Engine, vocabulary: str) -> None:
    task = engine.create(chain(3, vocabulary=vocabulary))
    claims = engine.claim()
    for _ in range(3):
        _, taken = engine.report_and_claim(reports(claims))
        engine.orchestrate()
        claims = taken or engine.claim()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_senseless_limit_is_refused(engine: Engine) -> None:
    for limit in (-1, 10_001):
        with pytest.raises(psycopg.Error) as caught:
            engine.report_and_claim([], limit=limit)
        assert caught.value.sqlstate == "TK400"


@on_one_server
def test_eight_workers_on_the_same_fans_run_every_step_once(engine: Engine, open_engine: OpenEngine) -> None:
    """Some meet at a task and leave it to orchestration, some do not: every step runs once and every task ends."""
    flow = graph(
        step("a"), *(step(f"b{n}", "a") for n in range(12)), step("c", *(f"b{n}" for n in range(12))), step("d", "c")
    )
    tasks = [engine.create(flow) for _ in range(6)]
    done: list[str] = []

    def work(name: str) -> None:
        session = open_engine()
        held: list[Row] = []
        while session.one("select exists (select from tasker.tasks where completed_at is null)"):
            held += session.claim(3, name)
            done.extend(str(claimed["workflow_step_uuid"]) for claimed in held)
            _, held = session.report_and_claim(reports(held), 3, name)
            session.orchestrate()

    in_parallel([partial(work, f"w{number}") for number in range(8)])
    assert len(done) == len(set(done)) == 15 * len(tasks)
    engine.check()
    engine.check_order()
    assert engine.one("select max(attempts) from tasker.workflow_steps") == 1
