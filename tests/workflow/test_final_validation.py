"""Seed 000, executing -> validating -> completed or failed: a verdict on the whole, by whoever is to give it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine

VERDICTS = {"pass_validation": "completed", "fail_validation": "failed"}


def awaited(engine: Engine, *steps: dict[str, Any], **fields: Any) -> UUID:
    """A workstream that has done everything and waits for the verdict on it."""
    flow = graph(*(steps or (step("a"), step("b", "a"))), vocabulary="orchestration", final_validation=True, **fields)
    task = engine.create(flow)
    engine.drain()
    assert engine.state(task) == "validating"
    return task


def refusal(engine: Engine, function: str, **arguments: Any) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as caught:
        engine.call(function, **arguments)
    diagnostics = caught.value.diag
    assert diagnostics.message_hint and json.loads(diagnostics.message_detail or "")
    return caught.value.sqlstate, diagnostics.message_primary or ""


@pytest.mark.parametrize("verdict", VERDICTS)
def test_it_waits_for_the_verdict_and_keeps_who_gave_it(engine: Engine, verdict: str) -> None:
    task = awaited(engine)
    assert engine.table("recover", p_dry_run=False, **BY) == []
    engine.settle()
    assert engine.state(task) == "validating", "nothing but a verdict moves it"
    engine.check()
    assert "final validation is waited for" in engine.call("explain_task", p_task_uuid=task)["summary"]
    assert engine.call(verdict, p_task_uuid=task, **BY) == VERDICTS[verdict]
    row = engine.row("select event, metadata from tasker.task_transitions where task_uuid = %s and most_recent", task)
    assert row["event"] == {"pass_validation": "validation_passed", "fail_validation": "validation_failed"}[verdict]
    assert row["metadata"] == {"reason": "a test", "requested_by": "ada", "manual": True}
    assert engine.task(task)["is_terminal"] and engine.task(task)["completed_at"] is not None
    engine.check()


def test_both_verdicts_are_offered_while_one_is_waited_for(engine: Engine) -> None:
    task = awaited(engine)
    offered = {row["command"] for row in engine.table("allowed_commands", p_kind="task", p_target=str(task))}
    assert set(VERDICTS) <= offered
    engine.call("pass_validation", p_task_uuid=task, **BY)
    assert engine.table("allowed_commands", p_kind="task", p_target=str(task)) == []


def test_without_the_field_it_passes_by_itself(engine: Engine) -> None:
    for field in ({}, {"final_validation": False}, {"final_validation": None}):
        task = engine.create(graph(step("a"), vocabulary="orchestration", **field))
        engine.drain()
        assert engine.walk(task)[-2:] == ["validating", "completed"]


def test_a_template_has_it_too_and_so_has_a_task_with_nothing_to_do(engine: Engine) -> None:
    for steps in ([], [step("a", condition="$.context.wanted")]):
        flow = graph(*steps, name=f"flow-{len(steps)}", vocabulary="orchestration", final_validation=True)
        engine.call("register_template", p_template=flow)
        task = engine.call("create_task", p_name=flow["name"])
        engine.settle()
        assert engine.state(task) == "validating"
        assert engine.call("pass_validation", p_task_uuid=task, **BY) == "completed"
    engine.check()


@pytest.mark.parametrize("verdict", VERDICTS)
def test_too_early_too_late_or_without_a_reason_it_is_refused(engine: Engine, verdict: str) -> None:
    task = engine.create(graph(step("a"), vocabulary="orchestration", final_validation=True))
    code, message = refusal(engine, verdict, p_task_uuid=task, **BY)
    assert (code, message) == ("TK409", f"task {task} is ready: {verdict} is not allowed")
    engine.drain()
    assert refusal(engine, verdict, p_task_uuid=task, p_reason=" ", p_requested_by="ada")[0] == "TK400"
    # the generic door asks the same guard
    if verdict == "pass_validation":
        assert refusal(engine, "transition_task", p_task_uuid=task, p_event="validation_passed")[0] == "TK422"
    assert engine.state(task) == "validating"
    engine.call(verdict, p_task_uuid=task, **BY)
    for late in VERDICTS:
        assert refusal(engine, late, p_task_uuid=task, **BY)[0] == "TK409"


def test_of_two_verdicts_at_once_one_counts(engine: Engine, open_engine: OpenEngine) -> None:
    def give(who: Engine, verdict: str, task: UUID) -> Any:
        try:
            return who.call(verdict, p_task_uuid=task, **BY)
        except psycopg.Error as error:
            return error.sqlstate

    sessions = [open_engine(), open_engine()]
    for _ in range(5):
        task = awaited(engine)
        answers = in_parallel([partial(give, *pair, task) for pair in zip(sessions, VERDICTS, strict=True)])
        assert sorted(answers) in (["TK409", "completed"], ["TK409", "failed"])
        assert engine.state(task) in answers


def test_a_repeated_request_gives_one_verdict(engine: Engine) -> None:
    for verdict, state in VERDICTS.items():
        task = awaited(engine)
        for _ in range(2):
            assert engine.call(verdict, p_task_uuid=task, p_request_id=f"request {task}", **BY) == state


def test_a_verdict_that_never_comes_is_a_failed_one_when_the_time_of_the_task_is_over(engine: Engine) -> None:
    task = awaited(engine, timeout_seconds=60)
    engine.shift_clock("2 minutes")
    engine.settle()
    assert engine.state(task) == "failed"
    assert "took longer" in engine.row(
        "select metadata ->> 'reason' as reason from tasker.task_transitions where task_uuid = %s and most_recent", task
    )["reason"]  # fmt: skip


def test_what_failed_validation_can_be_judged_again_as_a_resumed_task(engine: Engine) -> None:
    task = awaited(engine)
    engine.call("fail_validation", p_task_uuid=task, **BY)
    resumed = engine.call("resume_task", p_task_uuid=task, **BY)
    engine.settle()
    assert engine.state(resumed) == "validating"
    assert engine.call("pass_validation", p_task_uuid=resumed, **BY) == "completed"
    assert engine.state(task) == "failed"


def test_a_step_that_is_not_satisfied_stands_in_the_way(engine: Engine) -> None:
    """Workstream invariant 2: completed only if all tasks are. In a vocabulary where it can be judged before that."""
    definition = engine.one("select definition from tasker.vocabularies where vocabulary = 'orchestration'")
    hasty = json.loads(json.dumps(definition).replace('"orchestration', '"hasty'))
    early = {"from": "ready", "event": "all_tasks_completed", "to": "validating", "fired_by": "command"}
    workstream = hasty["lifecycles"][0]
    workstream["transitions"] = [
        early if (rule["from"], rule["to"]) == ("ready", "validating") else rule for rule in workstream["transitions"]
    ]
    engine.call("define_vocabulary", p_definition=hasty)
    task = engine.create(graph(step("a"), vocabulary="hasty", final_validation=True))
    engine.call("transition_task", p_task_uuid=task, p_event="all_tasks_completed", p_metadata={"reason": "x", "requested_by": "y"})  # fmt: skip
    assert refusal(engine, "pass_validation", p_task_uuid=task, **BY)[0] == "TK422"
    engine.drain()
    assert engine.call("pass_validation", p_task_uuid=task, **BY) == "completed"

    del workstream["transitions"][6]["operation"]
    with pytest.raises(psycopg.Error) as caught:
        engine.call("define_vocabulary", p_definition=json.loads(json.dumps(hasty).replace('"hasty', '"hastier')))
    assert "fail_validation leads out" in (caught.value.diag.message_detail or "")


@pytest.mark.parametrize("vocabulary", ["tasker", "pipeline", "execution", "supervision"])
def test_a_vocabulary_without_such_a_state_refuses_the_field(engine: Engine, vocabulary: str) -> None:
    flow = graph(step("a"), name="judged", vocabulary=vocabulary, final_validation=True)
    code, message = refusal(engine, "register_template", p_template=flow)
    assert code == "TK400" and "final validation" in message
    assert refusal(engine, "create_task_from_graph", p_graph={**flow, "final_validation": "yes"})[0] == "TK400"
    engine.call("register_template", p_template={**flow, "vocabulary": "orchestration"})
    code, message = refusal(engine, "create_task", p_name="judged", p_vocabulary=vocabulary)
    assert code == "TK400" and vocabulary in message
