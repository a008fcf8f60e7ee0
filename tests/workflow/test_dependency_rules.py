"""When a step may start: all it depends on satisfied, the first of it, or all of it ended, however."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, report_of, step

ANY = {"run_when": "any_satisfied"}
CLEANUP = {"run_when": "all_finished"}
ONCE = {"max_attempts": 1}
VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]
RESTS_IN_CIRCUIT = {"execution"}
"""Vocabularies in which a step whose attempts are used up rests and is tried again by itself."""


def create(engine: Engine, vocabulary: str, *steps: Row, **arguments: Any) -> UUID:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    return engine.create(graph(*steps, vocabulary=vocabulary), **arguments)


def key(engine: Engine, task: UUID, name: str) -> UUID:
    uuid: UUID = engine.steps(task)[name]["workflow_step_uuid"]
    return uuid


def outcome(engine: Engine, fails: set[str], seen: dict[str, Any]) -> None:
    """Work until nothing is left; the inputs of each step that ran stand in `seen`, in the order in which they ran."""

    def handler(claimed: Row) -> Row:
        seen[claimed["name"]] = claimed["inputs"]
        return {"success": False, "category": "permanent"} if claimed["name"] in fails else {"result": claimed["name"]}

    engine.drain(handler)


def phases(engine: Engine, task: UUID) -> dict[str, str]:
    return {name: row["phase"] for name, row in engine.steps(task).items()}


# -- the first of its dependencies is enough ---------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_first_result_is_enough(engine: Engine, vocabulary: str) -> None:
    task = create(engine, vocabulary, step("a"), step("b"), step("c", "a", "b", **ANY))
    held = engine.claim_by_name()
    engine.complete([held["b"]], 2)
    engine.settle()
    (c,) = engine.claim()
    assert (c["name"], c["inputs"]) == ("c", {"a": None, "b": 2}), "what is not there yet is null"
    engine.check()
    engine.complete([c, held["a"]])
    engine.settle()
    assert engine.claim() == [], "the second one changes nothing"
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_both_at_once_hand_it_out_once(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b"), step("c", "a", "b", **ANY)))
    engine.complete(engine.claim())
    engine.settle()
    assert [c["name"] for c in engine.claim()] == ["c"]
    assert engine.steps(task)["c"]["unmet_dependencies"] < 0
    engine.check()


def test_one_may_fail_as_long_as_another_can_satisfy_it(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b"), step("c", "a", "b", **ANY)))
    held = engine.claim_by_name()
    engine.fail([held["a"]], category="permanent")
    engine.settle()
    assert engine.claim() == []
    engine.complete([held["b"]], 2)
    engine.settle()
    (c,) = engine.claim()
    assert c["inputs"] == {"a": None, "b": 2}
    engine.complete([c])
    engine.settle()
    assert engine.state(task) == "blocked_by_failures", "a failed step still is one"
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_when_all_of_them_fail_it_never_starts(engine: Engine, vocabulary: str) -> None:
    task = create(engine, vocabulary, step("a", **ONCE), step("b", **ONCE), step("c", "a", "b", **ANY))
    seen: dict[str, Any] = {}
    outcome(engine, {"a", "b"}, seen)
    assert "c" not in seen
    assert engine.task(task)["phase"] not in ("succeeded", "resolved")
    assert phases(engine, task)["c"] in ("pending", "cancelled", "skipped")
    engine.check()
    if vocabulary == "tasker":
        assert engine.state(task) == "blocked_by_failures"
        why = engine.call("explain_task", p_task_uuid=task)["reasons"]
        assert [r["why"] for r in why if r["step"] == "c"] == [
            "can't start: none of its dependencies is left that could satisfy it: a (error), b (error)"
        ]
        engine.call("resolve_step", p_step_uuid=key(engine, task, "b"), **BY)
        assert [c["name"] for c in engine.claim()] == ["c"]
        engine.check()


def test_optional_failures_and_what_is_left_out_excuse_but_do_not_satisfy(engine: Engine) -> None:
    """A race of mirrors: the first that has the file wins, and if none has it the step looks at nothing."""
    race = [
        step("a", on_failure="continue"),
        step("b", condition="$.context.b"),
        step("c", on_failure="continue"),
        step("use", "a", "b", "c", **ANY),
    ]
    task = engine.create(graph(*race))
    assert engine.states(task)["b"] == "cancelled"
    held = engine.claim_by_name()
    assert set(held) == {"a", "c"}, "what was left out is no result"
    engine.fail([held["a"]], category="permanent")
    engine.settle()
    assert engine.claim() == []
    engine.check()
    engine.complete([held["c"]], "file")
    engine.settle()
    (use,) = engine.claim()
    assert use["inputs"] == {"a": None, "b": None, "c": "file"}
    engine.complete([use])
    engine.settle()
    assert engine.state(task) == "complete"
    engine.check()

    none = engine.create(graph(*race))
    engine.fail(engine.claim(), category="permanent")
    engine.settle()
    (use,) = engine.claim()
    assert use["inputs"] == {"a": None, "b": None, "c": None}
    engine.complete([use])
    engine.settle()
    assert engine.state(none) == "complete"
    engine.check()


def test_a_step_sent_back_is_counted_out_again(engine: Engine) -> None:
    """An optional one that failed and is retried by hand excuses no more; ready is still the first real result."""
    flow = graph(step("a", on_failure="continue"), step("b"), step("c", "a", "b", **ANY))
    task = engine.create(flow)
    held = engine.claim_by_name()
    engine.fail([held["a"]], category="permanent")
    engine.settle()
    assert engine.steps(task)["c"]["unmet_dependencies"] == 1
    engine.call("retry_step", p_step_uuid=key(engine, task, "a"), **BY)
    assert engine.steps(task)["c"]["unmet_dependencies"] == 2
    engine.check()
    engine.complete([held["b"]])
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_resumed_it_counts_what_was_done_before(engine: Engine) -> None:
    flow = graph(step("a"), step("b"), step("c", "a", "b", **ANY, **ONCE))
    task = engine.create(flow)
    outcome(engine, {"b", "c"}, {})
    engine.call("give_up_task", p_task_uuid=task, **BY)
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    engine.check()
    held = engine.claim_by_name()
    assert set(held) == {"b", "c"}, "a was done in the first one: c needs no more"
    assert held["c"]["inputs"] == {"a": "a", "b": None}
    engine.complete(held.values())
    engine.settle()
    assert engine.state(resumed) == "complete"
    engine.check()


# -- finished, however -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("fails", [set(), {"work"}])
def test_a_cleanup_runs_however_the_others_ended(engine: Engine, vocabulary: str, fails: set[str]) -> None:
    """Also behind what can't start since what it depends on failed, and the task ends as it would have without it."""
    steps = [step("open"), step("work", "open", **ONCE), step("more", "work")]
    task = create(
        engine, vocabulary, *steps, step("close", "open", "more", **CLEANUP), step("tell", "close", **CLEANUP)
    )
    without = create(engine, vocabulary, *steps)
    seen: dict[str, Any] = {}
    outcome(engine, fails, seen)
    assert list(seen)[-2:] == ["close", "tell"]
    assert seen["close"] == {"open": "open", "more": None if fails else "more"}
    assert engine.state(task) == engine.state(without)
    assert (engine.task(task)["phase"] == "succeeded") is (not fails)
    assert {
        name: state for name, state in engine.states(task).items() if name not in ("close", "tell")
    } == engine.states(without)
    engine.check()


def test_a_cleanup_waits_for_everything_that_still_moves(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("a"),
            step("behind", "a"),
            step("slow"),
            step("close", "behind", **CLEANUP),
            step("other", "a", **CLEANUP),
        )
    )
    held = engine.claim_by_name()
    engine.fail([held["a"]], category="permanent")
    engine.settle()
    (other,) = engine.claim()
    assert other["name"] == "other", "a has ended; behind might still start, if somebody mends a"
    engine.complete([other])
    engine.settle()
    assert engine.claim() == []
    engine.complete([held["slow"]])
    engine.settle()
    (close,) = engine.claim()
    assert (close["name"], close["inputs"]) == ("close", {"behind": None})
    engine.complete([close])
    engine.settle()
    assert engine.state(task) == "blocked_by_failures"
    engine.check()
    # mended all the same: the rest runs, and what was cleaned up is not cleaned up twice
    engine.call("resolve_step", p_step_uuid=key(engine, task, "a"), **BY)
    assert engine.drain() == 1
    assert engine.state(task) == "complete"
    engine.check()


def test_a_cleanup_that_is_sent_back_waits_again(engine: Engine) -> None:
    task = engine.create(graph(step("a", **ONCE), step("b", "a"), step("close", "b", **CLEANUP, **ONCE)))
    outcome(engine, {"a", "close"}, {})
    assert engine.states(task) == {"a": "error", "b": "pending", "close": "error"}
    engine.call("give_up_task", p_task_uuid=task, **BY)
    engine.call("reset_task", p_task_uuid=task, **BY)
    engine.check()
    seen: dict[str, Any] = {}
    outcome(engine, set(), seen)
    assert list(seen) == ["a", "b", "close"]
    assert engine.state(task) == "complete"
    engine.check()


def test_a_failed_cleanup_fails_and_an_optional_one_does_not(engine: Engine) -> None:
    for fields, state in (({}, "blocked_by_failures"), ({"on_failure": "continue"}, "complete")):
        task = engine.create(graph(step("a"), step("close", "a", **CLEANUP, **ONCE, **fields)))
        outcome(engine, {"close"}, {})
        assert engine.state(task) == state
        engine.check()


def test_a_critical_failure_and_a_cancellation_stop_cleanups_too(engine: Engine) -> None:
    task = engine.create(graph(step("a", on_failure="stop", **ONCE), step("close", "a", **CLEANUP)))
    seen: dict[str, Any] = {}
    outcome(engine, {"a"}, seen)
    assert list(seen) == ["a"]
    assert engine.state(task) == "blocked_by_failures"
    engine.check()
    engine.call("retry_step", p_step_uuid=key(engine, task, "a"), **BY)
    outcome(engine, set(), seen)
    assert list(seen) == ["a", "close"]
    cancelled = engine.create(graph(step("a"), step("close", "a", **CLEANUP)))
    engine.call("cancel_task", p_task_uuid=cancelled, **BY)
    assert engine.claim() == []
    engine.check()


def test_cancelled_and_left_out_by_hand_is_finished(engine: Engine) -> None:
    task = create(engine, "execution", step("a"), step("b"), step("close", "a", "b", **CLEANUP))
    engine.call("cancel_step", p_step_uuid=key(engine, task, "a"), **BY)
    engine.call("skip_step", p_step_uuid=key(engine, task, "b"), **BY)
    assert [c["name"] for c in engine.claim()] == ["close"]
    engine.check()


def test_leaving_out_all_that_depends_on_a_step_ends_at_a_cleanup(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("maybe", condition="$.context.wanted", when_unmet="skip_dependents"),
            step("after", "maybe"),
            step("close", "after", **CLEANUP),
            step("first", "after", **ANY),
        )
    )
    assert {c["name"] for c in engine.claim()} == {"close", "first"}
    assert engine.states(task)["after"] == "cancelled"
    engine.check()


def test_what_rests_with_its_circuit_open_does_not_hold_a_cleanup_up_for_ever(engine: Engine) -> None:
    task = create(engine, "execution", step("a", **ONCE), step("b", "a"), step("close", "a", "b", **CLEANUP))
    seen: dict[str, Any] = {}
    outcome(engine, {"a"}, seen)
    assert list(seen) == ["a", "close"]
    assert engine.task(task)["is_terminal"]
    engine.check()


def test_a_task_of_only_one_failure_and_its_cleanup_in_one_report(engine: Engine) -> None:
    """Reports that settle at once and hand over what became ready take the same way."""
    task = engine.create(graph(step("a", **ONCE), step("close", "a", **CLEANUP)))
    (a,) = engine.claim()
    outcomes, claims = engine.report_and_claim([report_of(a, success=False, category="permanent")])
    assert outcomes[0]["code"] is None
    engine.settle()
    claims += engine.claim()
    assert [c["name"] for c in claims] == ["close"]
    engine.check(task)


def test_a_task_nobody_started_is_not_cleaned_up(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b", "a"), step("close", "b", **CLEANUP)), p_start=False)
    engine.call("cancel_step", p_step_uuid=key(engine, task, "a"), **BY)
    assert engine.state(task) == "pending"
    assert engine.steps(task)["close"]["unmet_dependencies"] == 1
    engine.call("transition_task", p_task_uuid=task, p_event="start")
    engine.settle()
    assert [c["name"] for c in engine.claim()] == ["close"]
    engine.check()


def test_what_it_waits_for_is_told(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b"), step("c", "a", "b", **ANY), step("close", "a", "b", **CLEANUP)))
    (a,) = [c for c in engine.claim() if c["name"] == "a"]
    why = {r["step"]: r["why"] for r in engine.call("explain_task", p_task_uuid=task)["reasons"]}
    assert why["c"] == "waits for the first of its dependencies: a (in_progress), b (in_progress)"
    assert why["close"] == "waits for 2 of its dependencies to end: a (in_progress), b (in_progress)"
    engine.fail([a], category="permanent")
    engine.settle()
    why = {r["step"]: r["why"] for r in engine.call("explain_task", p_task_uuid=task)["reasons"]}
    assert why["c"] == "waits for the first of its dependencies: a (error), b (in_progress)"
    assert why["close"] == "waits for 1 of its dependencies to end: b (in_progress)"
    ready = {r["name"]: r for r in engine.table("get_step_readiness_status", p_task_uuid=task)}
    assert [(ready[n]["total_parents"], ready[n]["completed_parents"]) for n in ("c", "close")] == [(2, 0), (2, 1)]
    assert not ready["c"]["dependencies_satisfied"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"run_when": "some"}, "run_when must be all_satisfied, any_satisfied or all_finished"),
        ({"run_when": 5}, "run_when must be all_satisfied, any_satisfied or all_finished"),
        (ANY, "any_satisfied speaks of dependencies, and the step has none"),
        (CLEANUP, "all_finished speaks of dependencies, and the step has none"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(engine: Engine, fields: Row, problem: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(step("a", **fields)))
    assert refused.value.sqlstate == "TK400"
    assert problem in [p["message"] for p in json.loads(refused.value.diag.message_detail or "{}")["problems"]]


def test_the_default_may_be_spelled_out(engine: Engine) -> None:
    task = engine.create(graph(step("a", run_when="all_satisfied"), step("b", "a", run_when=None)))
    assert engine.rows("select from tasker.workflow_steps where task_uuid = %s and options is not null", task) == []
    engine.drain()
    assert engine.state(task) == "complete"


def test_thousands_of_dependencies_settled_one_batch_after_another(engine: Engine) -> None:
    """Counted, not looked up: each result costs the same."""
    names = [f"s{n}" for n in range(3_000)]
    task = engine.create(
        graph(*map(step, names), step("first", *names, **ANY), step("close", *names, **CLEANUP), name="wide")
    )
    assert engine.drain(limit=1_000) == 3_002
    assert engine.state(task) == "complete"
    assert engine.steps(task)["first"]["unmet_dependencies"] == 3_000 - 3_000 * 3_000
    engine.check()


def test_a_cleanup_waits_for_what_waits_for_an_event(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("bad", **ONCE),
            step("behind", "bad"),
            step("x", wait_for={"event": "go", "value": "1"}),
            step("close", "behind", "x", **CLEANUP),
        )
    )
    seen: dict[str, Any] = {}
    outcome(engine, {"bad"}, seen)
    assert list(seen) == ["bad"], "x may still run"
    engine.check()
    engine.rows("select * from tasker.emit_event('go', '1')")
    engine.shift_clock("1 minute")
    outcome(engine, set(), seen)
    assert list(seen) == ["bad", "x", "close"]
    assert engine.state(task) == "blocked_by_failures"
    engine.check()
