"""Steps with a condition: seed 002 SKIPPED, "Conditional not met"."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, step
from tests.workflow.fixtures import OpenEngine

CAN_LEAVE_OUT = ["tasker", "orchestration", "execution", "supervision"]
"""Vocabularies with a way out of the first state of a step; seed 001 has none."""

LEFT_OUT = {"tasker": "cancelled", "orchestration": "cancelled", "execution": "SKIPPED", "supervision": "cancelled"}


def create(engine: Engine, vocabulary: str, *steps: dict[str, Any], **arguments: Any) -> Any:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
        return engine.create(graph(*steps, vocabulary=vocabulary), **arguments)
    return engine.create(graph(*steps, vocabulary=vocabulary), **arguments)


def result_of(results: dict[str, Any]) -> Any:
    return lambda claimed: {"result": results.get(claimed["name"], claimed["name"])}


def left_out(engine: Engine, task: Any) -> set[str]:
    return {
        r["name"] for r in engine.rows("select name from tasker.workflow_steps where task_uuid = %s and left_out", task)
    }


@pytest.mark.parametrize("vocabulary", CAN_LEAVE_OUT)
@pytest.mark.parametrize("score", [0.3, 0.9])
def test_a_step_runs_only_if_its_condition_holds_over_the_results_it_depends_on(
    engine: Engine, vocabulary: str, score: float
) -> None:
    task = create(
        engine, vocabulary,
        step("check"),
        step("approve", "check", condition="$.inputs.check.score > 0.8"),
        step("reject", "check", condition="$.inputs.check.score <= 0.8"),
        step("tell", "approve", "reject"),
    )  # fmt: skip
    seen: dict[str, Any] = {}

    def handler(claimed: dict[str, Any]) -> dict[str, Any]:
        seen[claimed["name"]] = claimed["inputs"]
        return {"result": {"score": score} if claimed["name"] == "check" else claimed["name"]}

    engine.drain(handler)
    ran, other = ("approve", "reject") if score > 0.8 else ("reject", "approve")
    assert set(seen) == {"check", ran, "tell"}
    assert seen["tell"] == {ran: ran, other: None}, "what was left out has no result"
    assert engine.states(task)[other] == LEFT_OUT[vocabulary]
    assert left_out(engine, task) == {other}
    assert engine.task(task)["phase"] == "succeeded"
    last = engine.row(
        "select t.metadata from tasker.workflow_step_transitions t join tasker.workflow_steps s using (workflow_step_uuid)"
        " where s.task_uuid = %s and s.name = %s and t.most_recent",
        task, other,
    )["metadata"]  # fmt: skip
    assert last == {"reason": "its condition does not hold, or that of a step it depends on", "left_out": True}
    engine.check()


@pytest.mark.parametrize("vocabulary", CAN_LEAVE_OUT)
def test_what_depends_on_a_step_left_out_goes_with_it_where_it_says_so(engine: Engine, vocabulary: str) -> None:
    task = create(
        engine, vocabulary,
        step("a"), step("b"),
        step("maybe", "a", condition="$.context.wanted", when_unmet="skip_dependents"),
        step("after", "maybe", "b"), step("later", "after"), step("end", "b"),
        p_context={"wanted": False},
    )  # fmt: skip
    (a,) = [c for c in engine.claim() if c["name"] == "a"]
    engine.complete([a])
    engine.settle()
    assert left_out(engine, task) == {"maybe", "after", "later"}, "at once, although b is not done"
    engine.check()
    for claimed in engine.rows(
        "select workflow_step_uuid, claim_uuid from tasker.workflow_steps where claim_uuid is not null"
    ):
        engine.complete([claimed])
    engine.settle()
    engine.drain()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("vocabulary", CAN_LEAVE_OUT)
def test_first_steps_are_judged_when_the_task_starts(engine: Engine, vocabulary: str) -> None:
    first = step("first", condition="$.context.n == 1")
    task = create(engine, vocabulary, first, step("second", "first"), p_context={"n": 2})
    (claimed,) = engine.claim()
    assert claimed["name"] == "second"
    engine.complete([claimed])
    engine.settle()
    assert engine.task(task)["phase"] == "succeeded"
    nothing = create(engine, vocabulary, first, step("other", condition="$.context.n == 1"), p_context={"n": 2})
    assert engine.task(nothing)["phase"] == "succeeded", "every step is left out: there is nothing to do"
    both = create(engine, vocabulary, first, p_context={"n": 1})
    assert [c["name"] for c in engine.claim()] == ["first"]
    assert engine.task(both)["phase"] == "running"
    engine.check()


@pytest.mark.parametrize(
    "condition",
    [
        "$.context.missing > 1",
        "$.context.word > 1",
        "$.context.word",
        "$.context.list[5].x",
        "$.context.word.double() > 1",
    ],
)
def test_what_is_missing_or_of_another_type_is_not_true(engine: Engine, condition: str) -> None:
    task = engine.create(graph(step("a", condition=condition)), p_context={"word": "one", "list": []})
    assert left_out(engine, task) == {"a"}
    assert engine.state(task) == "complete"


def test_a_condition_is_judged_before_the_first_attempt_only(engine: Engine) -> None:
    """A step that ran is retried, although an operator changed the result it was judged by."""
    task = engine.create(graph(step("a"), step("b", "a", condition="$.inputs.a == 1", max_attempts=3)))
    engine.drain(lambda claimed: {"result": 1} if claimed["name"] == "a" else {"success": False})
    assert engine.states(task)["b"] == "error"
    b = engine.one("select workflow_step_uuid from tasker.workflow_steps where task_uuid = %s and name = 'b'", task)
    engine.call("retry_step", p_step_uuid=b, **BY)
    assert [c["name"] for c in engine.claim()] == ["b"]


def test_an_optional_failure_and_a_condition(engine: Engine) -> None:
    """The result of a step that failed is null, so a condition can ask for it."""
    task = engine.create(
        graph(
            step("try", on_failure="continue", max_attempts=1),
            step("use", "try", condition="$.inputs.try != null"),
            step("repair", "try", condition="$.inputs.try == null"),
            step("end", "use", "repair"),
        )
    )
    engine.drain(lambda claimed: {"success": False} if claimed["name"] == "try" else {"result": 1})
    assert engine.states(task) == {"try": "error", "use": "cancelled", "repair": "complete", "end": "complete"}
    assert engine.state(task) == "complete"
    engine.check()


@pytest.mark.parametrize("vocabulary", [*CAN_LEAVE_OUT, "pipeline"])
def test_a_step_whose_condition_must_hold_fails_by_it_without_a_worker(engine: Engine, vocabulary: str) -> None:
    def handler(claimed: dict[str, Any]) -> dict[str, Any]:
        ran.append(claimed["name"])
        if claimed["name"] == "gate":
            return {"success": False, "category": "permanent", "error": {"message": "no"}}
        return {"result": {"score": 0.3}}

    ran: list[str] = []
    states = []
    for condition in ({}, {"condition": "$.inputs.check.score > 0.8", "when_unmet": "fail"}):
        task = create(engine, vocabulary, step("check"), step("gate", "check", **condition), step("tell", "gate"))
        engine.drain(handler)
        states.append((engine.states(task), engine.call("task_state", p_task_uuid=task)))
    assert ran == ["check", "gate", "check"]
    assert states[0] == states[1], "as when a worker reports that it failed for good"
    [report] = engine.rows(
        "select t.metadata from tasker.workflow_step_transitions t join tasker.workflow_steps s"
        " on s.result_transition_uuid = t.workflow_step_transition_uuid where s.task_uuid = %s and s.name = 'gate'",
        task,
    )
    assert report["metadata"]["error"] == {
        "type": "condition_not_met", "message": 'its condition does not hold: strict ($."inputs"."check"."score" > 0.8)',
    }  # fmt: skip
    audited = engine.rows("select a.success, a.worker_uuid from tasker.workflow_step_result_audit a join tasker.workflow_steps s"
                          " using (workflow_step_uuid) where a.task_uuid = %s and s.name = 'gate'", task)  # fmt: skip
    assert audited == [{"success": False, "worker_uuid": None}], "the engine has no worker's key"
    assert engine.rows("select * from tasker.check_consistency()") == []


def test_a_long_chain_of_steps_left_out_is_one_call(engine: Engine) -> None:
    """Each makes the next one ready, which is judged in turn."""
    names = [f"s{n}" for n in range(60)]
    task = engine.create(
        graph(*(step(name, *names[max(0, n - 1) : n], condition="$.context.go") for n, name in enumerate(names)))
    )
    assert left_out(engine, task) == set(names)
    assert engine.state(task) == "complete"
    engine.check()


def test_two_reports_at_once_judge_a_condition_once(engine: Engine, open_engine: OpenEngine) -> None:
    """Two dependencies end in two transactions: the step behind them is left out once, and its dependent is handed out once."""
    task = engine.create(
        graph(step("a"), step("b"), step("c", "a", "b", condition="$.inputs.a == $.inputs.b"), step("d", "c"))
    )
    held = engine.claim_by_name(limit=1) | engine.claim_by_name(limit=1)
    other = open_engine()
    engine.begin()
    engine.complete([held["a"]], 1)
    engine.orchestrate()
    other.complete([held["b"]], 2)
    engine.commit()
    other.settle()
    assert engine.states(task) == {"a": "complete", "b": "complete", "c": "cancelled", "d": "enqueued"}
    engine.check()


@pytest.mark.parametrize(
    ("fields", "vocabulary", "problem"),
    [
        ({"condition": "$.a >"}, None, "a condition is an SQL/JSON path that goes through one list at most, for example $.inputs.check.score > 0.8"),
        ({"condition": 5}, None, "a condition is an SQL/JSON path that goes through one list at most, for example $.inputs.check.score > 0.8"),
        ({"condition": "$.a", "when_unmet": "stop"}, None, "when_unmet must be skip, skip_dependents or fail, and belongs to a condition"),
        ({"when_unmet": "skip"}, None, "when_unmet must be skip, skip_dependents or fail, and belongs to a condition"),
        ({"condition": "$.a"}, "pipeline", "vocabulary pipeline has no state for a step that is left out"),
    ],
)  # fmt: skip
def test_a_condition_that_can_not_be_judged_is_refused(
    engine: Engine, fields: dict[str, Any], vocabulary: str | None, problem: str
) -> None:
    flow = graph(step("a", **fields), **({"vocabulary": vocabulary} if vocabulary else {}))
    with pytest.raises(psycopg.Error) as refused:
        engine.create(flow)
    assert refused.value.sqlstate == "TK400"
    assert problem in [p["message"] for p in json.loads(refused.value.diag.message_detail or "{}")["problems"]]


@pytest.mark.parametrize(
    "condition",
    [
        "exists($.context.x[*] ? (@ == $.context.x[*] + 0.5))",
        "$.context.x[0 to last] == $.context.y[*]",
        "lax $.context.x == $.context.y",
        "exists($.context.x.keyvalue() ? (@.value == $.context.y.*))",
    ],
)
def test_a_condition_goes_through_one_list_at_most(engine: Engine, condition: str) -> None:
    """Two lists of 20,000 compared with each other would hold up whoever orchestrates."""
    with pytest.raises(psycopg.Error, match="goes through one list at most") as refused:
        engine.create(graph(step("a", condition=condition)))
    assert refused.value.sqlstate == "TK400"


def test_a_long_list_is_gone_through_once(engine: Engine) -> None:
    numbers = list(range(20_000))
    flow = graph(
        step("some", condition="exists($.context.x[*] ? (@ > 19998))"), step("none", condition="$.context.x[*] > 19999")
    )
    task = engine.create(flow, p_context={"x": numbers, "to": "[*] to [*]"})
    assert left_out(engine, task) == {"none"}
    engine.create(graph(step("a", condition='$.context."to" == "[*] to [*]"')), p_context={"to": "[*] to [*]"})


def test_the_vocabulary_of_one_task_must_know_leaving_out_too(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a", condition="$.context.x"), name="conditional"))
    with pytest.raises(psycopg.Error) as refused:
        engine.call("create_task", p_name="conditional", p_vocabulary="pipeline")
    assert refused.value.sqlstate == "TK400"
    assert engine.rows("select from tasker.tasks") == []
