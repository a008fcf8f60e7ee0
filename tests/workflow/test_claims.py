"""Claims and reports: never more than asked, never twice, never somebody else's, and no bad row disturbs a good one."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.workflow.engine import Background, Engine, Row, graph, in_parallel, report_of, step
from tests.workflow.fixtures import OpenEngine, on_one_server

NESTED_LOOPS = [
    f"set enable_{way} = off"
    for way in ("hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize", "indexscan")
]


def fan(engine: Engine, width: int, **arguments: Any) -> uuid.UUID:
    return engine.create(graph(*(step(f"s{number}") for number in range(width))), **arguments)


# -- taking ----------------------------------------------------------------------------------------------------------


@on_one_server
def test_50_sessions_claim_2000_steps_and_none_twice(engine: Engine, open_engine: OpenEngine) -> None:
    for _ in range(4):
        fan(engine, 500)
    sessions = [open_engine() for _ in range(50)]

    def claim_all(session: Engine) -> list[Row]:
        taken: list[Row] = []
        while claims := session.claim(7):
            assert len(claims) <= 7
            assert len({claim["claim_uuid"] for claim in claims}) == 1, "one namespace, one fence"
            taken += claims
        return taken

    claims = [claim for taken in in_parallel([partial(claim_all, s) for s in sessions]) for claim in taken]
    assert len(claims) == 2000
    assert len({claim["workflow_step_uuid"] for claim in claims}) == 2000
    assert engine.column("select count(*) from tasker.workflow_step_transitions where to_state = 'in_progress'") == [
        2000
    ]
    assert engine.queued() == []
    engine.check()


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_plan_claims_more_than_asked(engine: Engine, open_engine: OpenEngine, analyzed: bool) -> None:
    """B17: under a nested loop `where id in (select ... limit n)` takes more rows than n and strands them."""
    fan(engine, 400)
    if analyzed:
        engine.rows("analyze")
    sessions = [open_engine() for _ in range(4)]
    for session in sessions:
        for setting in NESTED_LOOPS:
            session.rows(setting)

    def claim_some(session: Engine) -> None:
        for limit in (1, 1, 1, 1, 1, 1, 1, 10, 10, 3):
            claims = session.claim(limit)
            assert len(claims) == limit

    in_parallel([partial(claim_some, s) for s in sessions])
    assert engine.one("select count(*) from tasker.workflow_steps where claim_uuid is not null") == 4 * 30
    assert len(engine.queued()) == 400 - 4 * 30
    engine.check()


def test_a_claim_tells_all_that_a_worker_needs(engine: Engine) -> None:
    task = engine.create(
        graph(step("a", handler="h", arguments={"x": 1}, max_attempts=3, timeout_seconds=7), name="flow"),
        p_context={"tenant": "t"},
    )
    (claimed,) = engine.claim(lease="90 s")
    row = engine.steps(task)["a"]
    assert claimed["workflow_step_uuid"] == row["workflow_step_uuid"]
    assert claimed["claim_uuid"] == row["claim_uuid"]
    assert claimed["lease_expires_at"] == row["lease_expires_at"]
    assert claimed["task_uuid"] == task
    assert (claimed["task_name"], claimed["name"], claimed["handler"]) == ("flow", "a", "h")
    assert (claimed["attempt"], claimed["max_attempts"]) == (1, 3)
    assert (claimed["arguments"], claimed["context"], claimed["inputs"]) == ({"x": 1}, {"tenant": "t"}, {})
    assert claimed["timeout"].total_seconds() == 7
    assert row["worker_uuid"] == engine.worker()


RESULTS = [None, 0, False, "", [], {}, {"result": None}, "null", -1.5, 12345678901234567890, [None], "é🙂"]


def test_inputs_are_the_results_of_the_dependencies(engine: Engine) -> None:
    """Whatever a step answered, also what looks like nothing."""
    parents = [f"p{number}" for number in range(len(RESULTS))]
    engine.create(graph(*map(step, parents), step("aside"), step("child", *parents)))
    claims = engine.claim_by_name()
    engine.report([report_of(claims[name], result=result) for name, result in zip(parents, RESULTS, strict=True)])
    engine.report([report_of(claims["aside"], result="not mine")])
    engine.orchestrate()
    (child,) = engine.claim()
    assert child["inputs"] == dict(zip(parents, RESULTS, strict=True))


def test_a_report_without_a_result_is_a_null_result(engine: Engine) -> None:
    engine.create(graph(step("a"), step("b", "a")))
    engine.report([report_of(claim) for claim in engine.claim()])
    engine.orchestrate()
    assert engine.claim()[0]["inputs"] == {"a": None}


def test_a_senseless_limit_or_lease_is_refused(engine: Engine) -> None:
    fan(engine, 1)
    calls: list[tuple[str, list[Any]]] = [
        ("select * from tasker.claim_steps(%s, null, %s)", [0, -1, 10_001, None]),
        ("select * from tasker.orchestrate(%s, %s)", [0, -1, 10_001, None]),
        ("select * from tasker.tick(case when %s is null then 1 else %s end)", [0, -1, 100_001, None]),
        ("select * from tasker.claim_steps(%s, null, 1, %s)", ["0 s", "-1 s", None]),
        ("select tasker.extend_leases(%s, %s)", ["0 s", "-1 s", None]),
    ]
    for query, values in calls:
        for value in values:
            with pytest.raises(psycopg.Error) as caught:
                engine.rows(query, engine.worker(), value)
            assert caught.value.sqlstate == "TK400", (query, value)
    assert len(engine.queued()) == 1


def test_only_a_registered_worker_claims(engine: Engine) -> None:
    fan(engine, 1)
    with pytest.raises(psycopg.Error) as caught:
        engine.claim(worker=uuid.uuid4())
    assert caught.value.sqlstate == "TK404"
    engine.call("shutdown_worker", p_worker_uuid=engine.worker(), p_reason="done")
    with pytest.raises(psycopg.Error) as caught:
        engine.claim()
    assert caught.value.sqlstate == "TK409"
    assert len(engine.queued()) == 1, "nothing was taken"


def test_a_claim_that_is_rolled_back_never_was(engine: Engine, open_engine: OpenEngine) -> None:
    """Message, state, attempt and lease are one commit."""
    fan(engine, 3)
    engine.worker()
    engine.begin()
    assert len(engine.claim(2)) == 2
    assert len(open_engine().claim(10)) == 1, "the others stand there for others meanwhile"
    engine.rollback()
    claims = engine.claim()
    assert [claim["attempt"] for claim in claims] == [1, 1]
    engine.check()


def test_a_lease_counts_from_when_the_claim_got_through(engine: Engine, open_engine: OpenEngine) -> None:
    """B49: now() stands still while a claim waits for a lock; a lease counted from it is born old."""
    task = fan(engine, 1)
    worker, waiter, watcher = engine.worker(), open_engine(), open_engine()
    engine.begin()
    engine.rows("select from tasker.workflow_steps where task_uuid = %s for update", task)
    waiting = Background(lambda: waiter.claim(worker=worker, lease="3 s"))
    watcher.wait_until_blocked(waiter)
    engine.rows("select pg_sleep(0.3)")
    released = engine.one("select clock_timestamp()")
    engine.commit()
    (claimed,) = waiting.result()
    assert (claimed["lease_expires_at"] - released).total_seconds() >= 3


# -- namespaces ------------------------------------------------------------------------------------------------------


def test_a_worker_claims_from_its_namespaces_only(engine: Engine) -> None:
    for namespace in ("a", "b", "c"):
        fan(engine, 2, p_namespace=namespace)
    tied = engine.worker("tied", p_namespaces=["a", "b"])
    assert {claim["namespace"] for claim in engine.claim(worker=tied)} == {"a", "b"}
    assert engine.claim(namespaces=["nowhere"]) == []
    assert engine.claim(namespaces=[]) == []
    free = engine.claim()
    assert {claim["namespace"] for claim in free} == {"c"}


def test_one_call_over_many_namespaces_keeps_the_limit(engine: Engine) -> None:
    for namespace in ("a", "b", "c"):
        fan(engine, 5, p_namespace=namespace)
    claims = engine.claim(12)
    assert len(claims) == 12
    fences = {(claim["namespace"], claim["claim_uuid"]) for claim in claims}
    assert len(fences) == 3, "each namespace its own fence"
    engine.complete(claims)
    engine.settle()
    assert len(engine.claim()) == 3
    engine.check()


def test_a_busy_namespace_starves_nobody(engine: Engine) -> None:
    """The order of namespaces is drawn anew for every claim."""
    fan(engine, 300, p_namespace="busy")
    fan(engine, 1, p_namespace="quiet")
    for _ in range(60):
        if engine.claim(5)[0]["namespace"] == "quiet":
            return
    pytest.fail("60 claims and the quiet namespace had no turn")


# -- garbage ---------------------------------------------------------------------------------------------------------

GARBAGE = [
    "null",
    "[]",
    "5",
    '"text"',
    "{}",
    '{"step_uuid": null}',
    '{"step_uuid": 5}',
    '{"step_uuid": "x"}',
    '[{"a": 1}]',
]


def test_garbage_in_a_queue_is_recorded_and_gone(engine: Engine) -> None:
    """B15: a message that nobody of ours sent neither loops nor stops the steps beside it."""
    queue = engine.call("queue_name", p_namespace=engine.call("ensure_namespace", p_namespace="default"))
    for message in GARBAGE[:5]:
        engine.rows("select pgmq.send(%s, %s::jsonb)", queue, message)
    fan(engine, 2)
    for message in [*GARBAGE[5:], f'{{"step_uuid": "{uuid.uuid4()}"}}']:
        engine.rows("select pgmq.send(%s, %s::jsonb)", queue, message)
    engine.rows("select pgmq.send(%s, null::jsonb)", queue)
    assert len(engine.claim()) == 2
    assert engine.queued() == []
    recorded = engine.rejections()
    assert {row["code"] for row in recorded} == {"TK400"}
    assert len(recorded) == len(GARBAGE) + 1
    assert {row["entity_kind"] for row in recorded} == {"message"}
    engine.check()


def test_garbage_in_the_orchestration_queue_is_recorded_and_gone(engine: Engine) -> None:
    task = fan(engine, 1)
    engine.complete(engine.claim())
    messages = [
        '{"step_uuids": 5}',
        '{"step_uuids": ["x", null, 7, {}]}',
        f'{{"step_uuids": ["{uuid.uuid4()}"]}}',
        '{"step_uuids": []}',
    ]
    for message in [*GARBAGE, *messages]:
        engine.rows("select pgmq.send('orchestration_step_results', %s::jsonb)", message)
    drained = engine.orchestrate()
    assert drained["messages"] == 1 + len(GARBAGE) + len(messages)
    assert drained["steps_settled"] == 1
    assert engine.state(task) == "complete"
    assert len(engine.rejections()) >= len(GARBAGE)
    assert engine.orchestrate()["messages"] == 0


def test_a_step_that_stands_twice_in_the_queue_is_claimed_once(engine: Engine) -> None:
    task = fan(engine, 2)
    queue = engine.call("queue_name", p_namespace="default")
    for row in engine.steps(task).values():
        for _ in range(2):
            engine.rows("select pgmq.send(%s, %s)", queue, Jsonb({"step_uuid": str(row["workflow_step_uuid"])}))
    claims = engine.claim(5)
    assert len(claims) == 2
    assert engine.claim() == []
    engine.complete(claims)
    engine.rows("select pgmq.send(%s, %s)", queue, Jsonb({"step_uuid": str(claims[0]["workflow_step_uuid"])}))
    assert engine.claim() == [], "a message of a step that is done already is nothing"
    engine.settle()
    assert engine.state(task) == "complete"
    engine.check_completed_once(2)


def test_a_result_that_stands_twice_in_the_orchestration_queue_counts_once(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b", "a")))
    engine.complete(engine.claim())
    for message in engine.column("select message from pgmq.q_orchestration_step_results"):
        for _ in range(2):
            engine.rows("select pgmq.send('orchestration_step_results', %s)", Jsonb(message))
    assert engine.orchestrate(2)["steps_settled"] == 1
    assert engine.orchestrate(2)["steps_settled"] == 0
    assert engine.drain() == 1
    assert engine.state(task) == "complete"
    engine.check()


# -- reporting -------------------------------------------------------------------------------------------------------


def test_a_report_under_a_foreign_claim_is_refused(engine: Engine) -> None:
    """The fence: the step key alone moves nothing."""
    task = fan(engine, 2)
    mine, other = engine.claim(1), engine.claim(1)
    with pytest.raises(psycopg.Error) as caught:
        engine.call(
            "complete_step",
            p_step_uuid=mine[0]["workflow_step_uuid"],
            p_claim_uuid=other[0]["claim_uuid"],
            p_result={"x": 1},
        )
    assert caught.value.sqlstate == "TK412"
    assert set(engine.states(task).values()) == {"in_progress"}
    assert engine.complete(mine)[0]["code"] is None
    engine.check()


def test_a_repeated_report_says_what_is_and_changes_nothing(engine: Engine) -> None:
    """The answer to the first report was lost: the worker may say it again, at any later time."""
    task = engine.create(graph(step("a"), step("b", "a")))
    claims = engine.claim()
    key = {"p_step_uuid": claims[0]["workflow_step_uuid"], "p_claim_uuid": claims[0]["claim_uuid"]}
    assert engine.call("complete_step", **key, p_result={"x": 1}) == "enqueued_for_orchestration"
    assert engine.call("complete_step", **key, p_result={"x": 1}) == "enqueued_for_orchestration"
    engine.orchestrate()
    assert engine.call("complete_step", **key, p_result={"x": 2}) == "complete"
    assert engine.call("fail_step", **key, p_error={"x": 2}) == "complete"
    assert engine.claim()[0]["inputs"] == {"a": {"x": 1}}, "the first report stands"
    assert engine.one("select count(*) from tasker.workflow_step_result_audit") == 1
    assert engine.rejections() == []
    engine.check(task)


def test_every_bad_row_is_answered_and_the_good_ones_are_taken(engine: Engine) -> None:
    """One answer a row, in the order of the rows; every refusal is recorded in the same commit."""
    task = fan(engine, 6)
    engine.shift_clock("-1 hour")
    stale = engine.claim(1, lease="1 s")
    engine.shift_clock("0")
    engine.tick()
    good = engine.claim(4)
    unknown, step_uuid = str(uuid.uuid4()), str(good[2]["workflow_step_uuid"])
    batch: list[tuple[Any, str | None]] = [
        ("garbage", "TK400"),
        (None, "TK400"),
        ([], "TK400"),
        ({}, "TK400"),
        ({"step_uuid": 5, "claim_uuid": unknown}, "TK400"),
        ({"step_uuid": unknown}, "TK400"),
        (report_of(good[0], result=1), None),
        ({"step_uuid": unknown, "claim_uuid": unknown}, "TK404"),
        (report_of(stale[0], result="zombie"), "TK412"),
        # a foreign report first, the right one behind it: the right one must not be lost
        ({"step_uuid": str(good[1]["workflow_step_uuid"]), "claim_uuid": unknown}, "TK412"),
        (report_of(good[1], result=2), None),
        (report_of(good[0], result="again"), None),
        ({"step_uuid": step_uuid, "claim_uuid": str(good[2]["claim_uuid"]), "success": "no"}, "TK400"),
        (report_of(good[2], category="weather"), "TK400"),
        (report_of(good[2], execution_time_ms=-1), "TK400"),
        (report_of(good[2], execution_time_ms=1.5), "TK400"),
        (report_of(good[2], retry_after=-1), "TK400"),
        (report_of(good[2], success=False, retry_after="soon"), "TK400"),
        (report_of(good[2], success=False, error={"x": 1}, category="permanent"), None),
        (report_of(good[3], execution_time_ms=12), None),
    ]
    outcomes = engine.report([row for row, _ in batch])
    assert [outcome["code"] for outcome in outcomes] == [code for _, code in batch]
    for outcome, (_, code) in zip(outcomes, batch, strict=True):
        assert (outcome["state"] is None) == (code is not None)
        assert (outcome["message"] is None) == (code is None)
    assert outcomes[6]["state"] == outcomes[11]["state"] == "enqueued_for_orchestration"
    assert outcomes[18]["state"] == "enqueued_as_error_for_orchestration"
    assert outcomes[6]["workflow_step_uuid"] == good[0]["workflow_step_uuid"]

    refusals = engine.rejections()
    assert sorted(row["code"] for row in refusals) == sorted(code for _, code in batch if code)
    (late,) = [row for row in refusals if row["entity_uuid"] == stale[0]["workflow_step_uuid"]]
    assert (late["code"], late["task_uuid"], late["namespace"]) == ("TK412", task, "default")
    assert late["detail"]["claim_uuid"] == str(stale[0]["claim_uuid"])
    engine.settle()
    results = {name: row["result"] for name, row in engine.steps(task).items() if row["state"] == "complete"}
    assert results == {good[0]["name"]: 1, good[1]["name"]: 2, good[3]["name"]: None}
    engine.check()


def test_a_report_that_is_no_array_is_refused(engine: Engine) -> None:
    answers: list[Any] = [None, {}, "x", 5]
    for results in answers:
        with pytest.raises(psycopg.Error) as caught:
            engine.rows("select * from tasker.complete_steps(%s)", Jsonb(results))
        assert caught.value.sqlstate == "TK400", results


def test_too_many_reports_in_one_call_are_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as caught:
        engine.report([{}] * 10_001)
    assert caught.value.sqlstate == "TK429"
    assert engine.report([]) == []


def test_one_batch_may_span_claims_tasks_and_namespaces(engine: Engine) -> None:
    tasks = [fan(engine, 3, p_namespace=namespace) for namespace in ("a", "b", "a")]
    claims = engine.claim(2) + engine.claim(3) + engine.claim(9)
    assert [outcome["code"] for outcome in engine.complete(claims)] == [None] * 9
    assert engine.one("select count(*) from tasker.step_claims") == 0
    engine.settle()
    assert {engine.state(task) for task in tasks} == {"complete"}
    engine.check()


def test_a_part_of_a_batch_may_be_reported(engine: Engine) -> None:
    fan(engine, 3)
    claims = engine.claim()
    engine.complete(claims[:1])
    held = engine.column("select * from tasker.held_claims(%s)", engine.worker())
    assert sorted(held) == sorted(claim["workflow_step_uuid"] for claim in claims[1:])
    engine.complete(claims[1:])
    assert engine.column("select * from tasker.held_claims(%s)", engine.worker()) == []
    engine.check()


def test_a_zero_byte_in_a_result_is_refused_and_the_failure_can_still_be_reported(engine: Engine) -> None:
    """U+0000 can't live in jsonb: the call fails as a whole, the claim stays, so the worker can say what happened."""
    fan(engine, 1)
    (claimed,) = engine.claim()
    with pytest.raises(psycopg.Error):
        engine.rows(
            "select tasker.complete_step(%s, %s, %s::jsonb)",
            claimed["workflow_step_uuid"],
            claimed["claim_uuid"],
            '"a\\u0000b"',
        )
    assert engine.fail([claimed], category="permanent")[0]["code"] is None
    engine.check()


def test_reports_are_one_commit(engine: Engine, open_engine: OpenEngine) -> None:
    """State, audit row, claim and wake-up leave together or not at all."""
    task = fan(engine, 2)
    claims = engine.claim()
    engine.begin()
    engine.complete(claims)
    engine.rollback()
    assert set(engine.states(task).values()) == {"in_progress"}
    assert engine.one("select count(*) from tasker.workflow_step_result_audit") == 0
    assert engine.orchestrate()["messages"] == 0
    engine.check()
    engine.complete(claims)
    assert open_engine().orchestrate()["steps_settled"] == 2
    assert engine.one("select count(*) from tasker.workflow_step_result_audit") == 2
