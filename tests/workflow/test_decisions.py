"""Decisions: steps that are created only if the result of another one says so."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.workflow.engine import BY, Engine, Row, graph, step

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]
FLOW = (
    step("check"),
    step("decide", "check"),
    step("approve", "check", created_by="decide"),
    step("notify", "approve", created_by="decide", arguments={"by": "mail", "cc": None}),
    step("close", "approve", "notify"),
)


def create(engine: Engine, vocabulary: str, *steps: Row, **arguments: Any) -> UUID:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    return engine.create(graph(*steps, vocabulary=vocabulary), **arguments)


def work(engine: Engine, seen: dict[str, Row], decided: Any, fails: frozenset[str] | set[str] = frozenset()) -> None:
    def handler(claimed: Row) -> Row:
        seen[claimed["name"]] = claimed
        if claimed["name"] in fails:
            return {"success": False, "category": "permanent"}
        return {"result": decided if claimed["name"] == "decide" else claimed["name"]}

    engine.drain(handler)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("chosen", [["approve", "notify"], ["notify"], []])
def test_only_what_is_decided_is_created_and_waited_for(engine: Engine, vocabulary: str, chosen: list[str]) -> None:
    task = create(engine, vocabulary, *FLOW)
    assert set(engine.states(task)) == {"check", "decide", "close"}
    seen: dict[str, Row] = {}
    work(engine, seen, {"create": chosen, "why": "score"})
    assert list(seen) == ["check", "decide", *chosen, "close"]
    assert set(seen["close"]["inputs"]) == {"decide", *chosen}
    if "approve" in chosen:
        assert seen["approve"]["inputs"] == {"check": "check", "decide": {"create": chosen, "why": "score"}}
    if "notify" in chosen:
        assert seen["notify"]["arguments"] == {"by": "mail", "cc": None}
        assert set(seen["notify"]["inputs"]) == {"decide", *chosen} - {"notify"}
    assert engine.task(task)["phase"] == "succeeded"
    assert engine.task(task)["total_steps"] == 3 + len(chosen)
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"create": ["approve", "pay"]}, "it may not create pay; it may create approve, notify"),
        ({"create": "approve"}, 'a decision answers {"create": [...]} with names of steps'),
        ({"create": [1]}, 'a decision answers {"create": [...]} with names of steps'),
        (None, 'a decision answers {"create": [...]} with names of steps'),
    ],
)
def test_another_answer_fails_the_decision_in_words(engine: Engine, vocabulary: str, result: Any, message: str) -> None:
    task = create(engine, vocabulary, *FLOW)
    seen: dict[str, Row] = {}
    work(engine, seen, result)
    assert set(seen) == {"check", "decide"}
    assert engine.steps(task)["decide"]["last_error"] == {"type": "no_decision", "message": message}
    assert engine.task(task)["phase"] != "succeeded"
    engine.check()


def test_a_registered_template_decides_for_each_of_its_tasks(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(*FLOW, name="orders"))
    assert engine.one("select count(*) from tasker.named_steps") == 3
    for chosen in (["approve"], ["notify"]):
        task = engine.call("create_task", p_name="orders")
        seen: dict[str, Row] = {}
        work(engine, seen, {"create": chosen})
        assert list(seen) == ["check", "decide", *chosen, "close"]
        assert engine.state(task) == "complete"
    engine.check()


def test_a_created_step_that_fails_blocks_what_waits_for_it(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, {"create": ["approve"]}, fails={"approve"})
    assert engine.state(task) == "blocked_by_failures"
    uuid = engine.steps(task)["approve"]["workflow_step_uuid"]
    engine.call("retry_step", p_step_uuid=uuid, **BY)
    work(engine, {}, None)
    assert engine.state(task) == "complete"
    engine.check()


def test_decided_by_hand(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, None)
    uuid = engine.steps(task)["decide"]["workflow_step_uuid"]
    with pytest.raises(psycopg.Error, match="it may not create pay") as refused:
        engine.call("resolve_step", p_step_uuid=uuid, p_result=Jsonb({"create": ["pay"]}), **BY)
    assert refused.value.sqlstate == "TK400"
    engine.call("resolve_step", p_step_uuid=uuid, p_result=Jsonb({"create": ["approve"]}), **BY)
    seen: dict[str, Row] = {}
    work(engine, seen, None)
    assert list(seen) == ["approve", "close"]
    assert engine.state(task) == "complete"
    engine.check()


def test_resumed_it_decides_in_the_new_task(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, None)
    engine.call("give_up_task", p_task_uuid=task, **BY)
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    seen: dict[str, Row] = {}
    work(engine, seen, {"create": ["approve"]})
    assert list(seen) == ["decide", "approve", "close"]
    assert seen["approve"]["inputs"] == {"check": "check", "decide": {"create": ["approve"]}}
    assert engine.state(resumed) == "complete"
    engine.check()


def test_a_decision_may_create_a_map_and_be_an_event(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("decide", handler=None, wait_for={"event": "chosen", "value": "1"}),
            step("each", created_by="decide", for_each="$.inputs.decide.items[*]"),
            step("end", "each"),
        )
    )
    engine.rows("select * from tasker.emit_event('chosen', '1', %s)", Jsonb({"create": ["each"], "items": [1, 2]}))
    seen: dict[str, Row] = {}
    engine.shift_clock("1 minute")
    work(engine, seen, None)
    assert list(seen) == ["each[0]", "each[1]", "end"]
    assert seen["end"]["inputs"]["each"] == ["each[0]", "each[1]"]
    assert engine.state(task) == "complete"
    engine.check()


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([step("a", created_by=5)], "created_by names the step whose result says whether this one is created"),
        ([step("a", created_by="b")], "there is no step 'b'"),
        ([step("d"), step("a", created_by="d"), step("b", created_by="a")], "'a' is there from the beginning only if nothing creates it, and is one step that runs a handler or waits"),
        ([step("d", "c"), step("a", created_by="d"), step("c", "a")], "these steps wait for each other in a circle: d, a, c"),
        ([step("d"), step("a", created_by="d", sensitive=["x"])], "a step that a decision creates has no sensitive arguments"),
        ([step("d"), step("e"), step("a", created_by="d"), step("b", "a", created_by="e")], "step 'b' depends on 'a', which another decision creates"),
        ([step("d"), step("a", created_by="d"), step("b", "a", run_when="any_satisfied")], "any_satisfied and what a decision creates do not go together"),
    ],
)  # fmt: skip
def test_a_decision_that_can_not_be_made_is_refused(engine: Engine, steps: list[Row], problem: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(*steps))
    assert refused.value.sqlstate == "TK400"
    assert problem in [p["message"] for p in json.loads(refused.value.diag.message_detail or "{}")["problems"]]
