"""Map steps: one step for each element of a list, and their results in order."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, step

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


def create(engine: Engine, vocabulary: str, *steps: Row, **arguments: Any) -> UUID:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    return engine.create(graph(*steps, vocabulary=vocabulary), **arguments)


def work(engine: Engine, seen: dict[str, Row], fails: frozenset[str] | set[str] = frozenset(), **results: Any) -> None:
    """Work until nothing is left: an element answers ten times its item, others what is said here or their name."""

    def handler(claimed: Row) -> Row:
        seen[claimed["name"]] = claimed
        if claimed["name"] in fails:
            return {"success": False, "category": "permanent", "error": {"message": "it broke"}}
        if "item" in claimed["arguments"]:
            return {"result": claimed["arguments"]["item"] * 10}
        return {"result": results.get(claimed["name"], claimed["name"])}

    engine.drain(handler)


def key(engine: Engine, task: UUID, name: str) -> UUID:
    uuid: UUID = engine.steps(task)[name]["workflow_step_uuid"]
    return uuid


FLOW = (
    step("find"),
    step("each", "find", for_each="$.inputs.find[*]", arguments={"unit": "cm"}, handler="measure"),
    step("sum", "each"),
)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_one_step_for_each_element_and_their_results_in_order(engine: Engine, vocabulary: str) -> None:
    task = create(engine, vocabulary, *FLOW)
    seen: dict[str, Row] = {}
    work(engine, seen, find=[3, 1, 2])
    assert set(seen) == {"find", "each[0]", "each[1]", "each[2]", "sum"}
    assert seen["each[1]"]["arguments"] == {"unit": "cm", "item": 1, "index": 1}
    assert seen["each[1]"]["inputs"] == {}, "not the list once more with each of its elements"
    assert seen["each[1]"]["handler"] == "measure"
    assert seen["sum"]["inputs"] == {"each": [30, 10, 20]}
    assert engine.task(task)["phase"] == "succeeded"
    assert engine.task(task)["total_steps"] == 6
    assert engine.steps(task)["each"]["result"] == [30, 10, 20]
    assert engine.one("select count(*) from tasker.workflow_step_result_audit") == 6
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("path", ["$.context.items[*]", "$.context.items"])
def test_a_first_step_maps_the_context(engine: Engine, vocabulary: str, path: str) -> None:
    task = create(engine, vocabulary, step("each", for_each=path), p_context={"items": [1, 2]})
    work(engine, {})
    assert engine.steps(task)["each"]["result"] == [10, 20]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_no_elements_are_done_at_once(engine: Engine, vocabulary: str) -> None:
    task = create(engine, vocabulary, *FLOW)
    seen: dict[str, Row] = {}
    work(engine, seen, find=[])
    assert seen["sum"]["inputs"] == {"each": []}
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_the_path_may_filter_and_pick(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("big", for_each="$.context.items[*] ? (@.n > 1)"),
            step("names", for_each="$.context.items[*].n"),
            step("lists", for_each="$.context.lists[*]"),
        ),
        p_context={"items": [{"n": 1}, {"n": 2}], "lists": [[1], [2, 3]]},
    )
    items = engine.rows(
        "select name, arguments -> 'item' as item from tasker.workflow_steps where task_uuid = %s and options ? 'element' order by name",
        task,
    )
    assert [(row["name"], row["item"]) for row in items] == [
        ("big[0]", {"n": 2}), ("lists[0]", [1]), ("lists[1]", [2, 3]), ("names[0]", 1), ("names[1]", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("found", [{"a": 1}, "text", None, 5])
def test_what_is_no_list_fails_in_words(engine: Engine, vocabulary: str, found: Any) -> None:
    task = create(engine, vocabulary, *FLOW)
    seen: dict[str, Row] = {}
    work(engine, seen, find=found)
    assert set(seen) == {"find"}
    assert engine.task(task)["phase"] != "succeeded"
    assert engine.steps(task)["each"]["last_error"] == {
        "type": "no_list",
        "message": 'for_each: there is no list at strict $."inputs"."find"[*]',
    }
    engine.check()


def test_too_many_elements_fail_in_words(engine: Engine) -> None:
    task = engine.create(graph(step("each", for_each="$.context.x")), p_context={"x": [0] * 100_001})
    engine.settle()
    assert "100001 elements" in engine.steps(task)["each"]["last_error"]["message"]
    assert engine.task(task)["total_steps"] == 1
    engine.check()


def test_a_failed_map_that_is_mended_looks_again(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, find="nothing")
    assert engine.state(task) == "blocked_by_failures"
    engine.call("retry_step", p_step_uuid=key(engine, task, "each"), **BY)
    work(engine, {})
    assert engine.steps(task)["each"]["last_error"]["type"] == "no_list", "it was looked for once more"
    engine.call("resolve_step", p_step_uuid=key(engine, task, "each"), **BY)
    work(engine, {})
    assert engine.state(task) == "complete"
    engine.check()


def test_one_element_that_failed_is_retried_alone(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, fails={"each[1]"}, find=[1, 2, 3])
    assert engine.state(task) == "blocked_by_failures"
    why = {r["step"]: r["why"] for r in engine.call("explain_task", p_task_uuid=task)["reasons"]}
    assert why["each"] == "waits for 1 of its 3 elements: each[1] (error)"
    engine.call("retry_step", p_step_uuid=key(engine, task, "each[1]"), **BY)
    seen: dict[str, Row] = {}
    work(engine, seen)
    assert set(seen) == {"each[1]", "sum"}
    assert seen["sum"]["inputs"] == {"each": [10, 20, 30]}
    assert engine.state(task) == "complete"
    engine.check()


def test_an_element_may_fail_where_the_map_is_optional_and_be_resolved_or_left_out(engine: Engine) -> None:
    task = engine.create(
        graph(step("each", for_each="$.context.x", on_failure="continue"), step("sum", "each")), p_context={"x": [1, 2]}
    )
    seen: dict[str, Row] = {}
    work(engine, seen, fails={"each[0]"})
    assert seen["sum"]["inputs"] == {"each": [None, 20]}
    assert engine.state(task) == "complete"
    engine.check()


def test_a_critical_map_stops_the_task_with_its_element(engine: Engine) -> None:
    task = engine.create(
        graph(step("each", for_each="$.context.x", on_failure="stop"), step("b"), step("c", "b")),
        p_context={"x": [1, 2]},
    )
    held = engine.claim_by_name()
    engine.fail([held["each[0]"]], category="permanent")
    engine.complete([held["b"]])
    engine.settle()
    assert engine.claim() == []
    engine.complete([held["each[1]"]])
    engine.settle()
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


def test_elements_take_after_their_map(engine: Engine) -> None:
    task = engine.create(
        graph(
            step(
                "each",
                for_each="$.context.x",
                max_attempts=7,
                retryable=False,
                timeout_seconds=11,
                tool="press",
                requires=["gpu"],
                delay_seconds=60,
                acceptance=[{"type": "custom"}],
            )
        ),
        p_context={"x": [1]},
    )
    row = engine.row("select * from tasker.workflow_steps where task_uuid = %s and name = 'each[0]'", task)
    assert (row["max_attempts"], row["retryable"], row["tool"], row["requires"]) == (7, False, "press", ["gpu"])
    assert (row["timeout"].total_seconds(), row["delay"].total_seconds(), row["acceptance"]) == (
        11,
        60,
        [{"type": "custom"}],
    )
    assert engine.claim() == [], "it has its delay, and no worker has its capability"
    engine.shift_clock("2 minutes")
    engine.settle()
    (claimed,) = engine.claim(worker=engine.worker("gpu", p_capabilities=["gpu"]))
    assert claimed["acceptance"] == [{"type": "custom"}]
    engine.check()


def test_a_condition_decides_over_the_whole_and_reads_what_was_gathered(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("each", for_each="$.context.x"),
            step("big", "each", condition="$.inputs.each[*] > 15"),
            step("never", for_each="$.context.x", condition="$.context.go"),
            step("after", "never"),
        ),
        p_context={"x": [1, 2]},
    )
    seen: dict[str, Row] = {}
    work(engine, seen)
    assert set(seen) == {"each[0]", "each[1]", "big", "after"}
    assert seen["after"]["inputs"] == {"never": None}
    assert engine.state(task) == "complete"
    engine.check()


def test_a_map_of_the_first_result_waits_for_all_its_elements(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("a"),
            step("b"),
            step("each", "a", "b", run_when="any_satisfied", for_each="$.inputs.b[*]"),
            step("end", "each"),
        )
    )
    held = engine.claim_by_name()
    engine.complete([held["a"]], [1, 2])
    engine.settle()
    assert "no list" in engine.steps(task)["each"]["last_error"]["message"], "b has no list yet"
    other = engine.create(
        graph(
            step("a"),
            step("b"),
            step("each", "a", "b", run_when="any_satisfied", for_each="$.inputs.a[*]"),
            step("end", "each"),
        )
    )
    held = engine.claim_by_name()
    engine.complete([held["a"], held["b"]], [1, 2])
    engine.settle()
    assert engine.steps(other)["each"]["unmet_dependencies"] == 2
    engine.check()
    work(engine, {})
    assert engine.state(other) == "complete"
    engine.check()


def test_a_map_over_what_a_map_gathered(engine: Engine) -> None:
    task = engine.create(
        graph(step("one", for_each="$.context.x"), step("two", "one", for_each="$.inputs.one[*]")),
        p_context={"x": [1, 2]},
    )
    work(engine, {})
    assert engine.steps(task)["two"]["result"] == [100, 200]
    assert engine.state(task) == "complete"
    engine.check()


def test_cancelled_with_its_elements_and_resumed_with_those_that_are_left(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    (find,) = engine.claim()
    engine.complete([find], [1, 2, 3])
    engine.settle()
    held = engine.claim_by_name()
    engine.complete([held["each[1]"]], 20)
    engine.settle()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    assert {s for n, s in engine.states(task).items() if n.startswith("each")} == {"cancelled", "complete"}
    engine.check()
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    engine.check()
    seen: dict[str, Row] = {}
    work(engine, seen)
    assert set(seen) == {"each[0]", "each[2]", "sum"}
    assert seen["each[2]"]["arguments"] == {"unit": "cm", "item": 3, "index": 2}
    assert seen["each[2]"]["inputs"] == {}
    assert seen["sum"]["inputs"] == {"each": [10, 20, 30]}
    assert engine.state(resumed) == "complete"
    engine.check()


def test_reset_keeps_the_elements_that_are_done(engine: Engine) -> None:
    task = engine.create(graph(*FLOW))
    work(engine, {}, fails={"each[1]"}, find=[1, 2])
    engine.call("give_up_task", p_task_uuid=task, **BY)
    engine.call("reset_task", p_task_uuid=task, **BY)
    seen: dict[str, Row] = {}
    work(engine, seen)
    assert set(seen) == {"each[1]", "sum"}
    assert engine.state(task) == "complete"
    engine.check()


@pytest.mark.parametrize("named", [True, False])
def test_items_of_something_sensitive_are_seen_by_workers_only(engine: Engine, named: bool) -> None:
    flow = graph(
        step("find", sensitive_result=True),
        step("each", "find", for_each="$.inputs.find[*]", arguments={"auth": {"key": "pin-7"}}, sensitive=["/auth/key"], sensitive_result=True),
        step("sum", "each", sensitive_result=True),
        name="secret",
    )  # fmt: skip
    if named:
        engine.call("register_template", p_template=flow)
        task = engine.call("create_task", p_name="secret")
    else:
        task = engine.create(flow)
    seen: dict[str, Row] = {}
    work(engine, seen, find=["red", "blue"])
    assert seen["each[0]"]["arguments"] == {"auth": {"key": "pin-7"}, "item": "red", "index": 0}
    assert seen["sum"]["inputs"] == {"each": ["red" * 10, "blue" * 10]}
    assert engine.state(task) == "complete"
    everything = str(
        engine.rows("select to_jsonb(s) from tasker.workflow_steps s")
        + engine.rows("select to_jsonb(t) from tasker.workflow_step_transitions t")
    )
    assert not any(word in everything for word in ("red", "blue", "pin-7"))
    engine.check()


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([step("a", for_each=5)], "for_each is an SQL/JSON path to a list that goes through one list at most, for example $.inputs.find.files[*]"),
        ([step("a", for_each="$.x[*].y[*]")], "for_each is an SQL/JSON path to a list that goes through one list at most, for example $.inputs.find.files[*]"),
        ([step("a", for_each="$.context.x", arguments={"item": 1})], "each element has its own item"),
        ([step("a", for_each="$.context.x"), step("a[7]")], "'a[7]' is what an element of step 'a' is called"),
    ],
)  # fmt: skip
def test_a_map_that_can_not_be_made_is_refused(engine: Engine, steps: list[Row], problem: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(*steps))
    assert refused.value.sqlstate == "TK400"
    assert problem in [p["message"] for p in json.loads(refused.value.diag.message_detail or "{}")["problems"]]


def test_thousands_of_elements_are_made_in_one_call_and_gathered_in_order(engine: Engine) -> None:
    task = engine.create(graph(step("each", for_each="$.context.x[*]")), p_context={"x": list(range(5_000))})
    assert engine.task(task)["in_flight_steps"] == 5_000
    work(engine, {})
    assert engine.steps(task)["each"]["result"] == [n * 10 for n in range(5_000)]
    assert engine.state(task) == "complete"
    engine.check()


@pytest.mark.parametrize(
    ("path", "inputs", "context"),
    [
        ("$.inputs.find.files[*]", {"find": {"unit": "cm"}, "other": "other"}, {"a": {"items": [1], "b": 2}}),
        ("$.inputs.find.files", {"find": {"unit": "cm"}, "other": "other"}, {"a": {"items": [1], "b": 2}}),
        ("$.context.a.items[*]", {"find": {"files": [1], "unit": "cm"}, "other": "other"}, {"a": {"b": 2}}),
        (
            '$.inputs.find."files"[*] ? (@ > 0)',
            {"find": {"unit": "cm"}, "other": "other"},
            {"a": {"items": [1], "b": 2}},
        ),
    ],
)
def test_an_element_sees_what_its_map_sees_but_the_list(engine: Engine, path: str, inputs: Row, context: Row) -> None:
    task = engine.create(
        graph(step("find"), step("other"), step("each", "find", "other", for_each=path)),
        p_context={"a": {"items": [1], "b": 2}},
    )
    seen: dict[str, Row] = {}
    work(engine, seen, find={"files": [1], "unit": "cm"})
    assert (seen["each[0]"]["inputs"], seen["each[0]"]["context"]) == (inputs, context)
    assert engine.state(task) == "complete"


def test_results_that_are_too_large_together_fail_the_map_in_words(engine: Engine) -> None:
    engine.call("ensure_namespace", p_namespace="default")
    engine.call("set_payload_limits", p_namespace="default", p_threshold=5_000, p_limit=20_000)
    flow = graph(step("each", for_each="$.context.x"), step("end", "each"))
    task = engine.create(flow, p_context={"x": [1, 2, 3]})
    engine.drain(
        lambda claimed: (
            {"result": "x" * 6_000} if "item" in claimed["arguments"] else {"result": len(str(claimed["inputs"]))}
        )
    )
    assert engine.state(task) == "complete", "big ones are gathered whole"
    task = engine.create(flow, p_context={"x": [1, 2, 3, 4]})
    engine.drain(lambda _: {"result": "x" * 6_000})
    assert engine.steps(task)["each"]["last_error"]["type"] == "results_too_large"
    assert engine.state(task) == "blocked_by_failures"
    engine.check()
