"""Steps that run a task and wait for its end, held by no worker meanwhile."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.vocabularies.lab import VOCABULARIES
from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine

CHILD = {"name": "child", "context": "$.inputs.a"}


def register(engine: Engine, *steps: Row, name: str = "child", **fields: Any) -> None:
    engine.call("register_template", p_template=graph(*steps, name=name, **fields))


def create(
    engine: Engine, *steps: Row, vocabulary: str = "tasker", fields: Row | None = None, **arguments: Any
) -> UUID:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    return engine.create({**graph(*steps, vocabulary=vocabulary), **(fields or {})}, **arguments)


def children(engine: Engine, task: UUID) -> list[Row]:
    return engine.rows("select * from tasker.task_overview where parent_task_uuid = %s order by task_uuid", task)


def child_of(engine: Engine, task: UUID) -> UUID:
    (child,) = children(engine, task)
    uuid: UUID = child["task_uuid"]
    return uuid


def error_of(engine: Engine, task: UUID, name: str = "sub") -> Any:
    return engine.steps(task)[name]["last_error"]


def run(engine: Engine, handler: Any = None) -> list[str]:
    ran: list[str] = []

    def note(claimed: Row) -> Row:
        ran.append(claimed["name"])
        return handler(claimed) if handler else {"result": {"of": claimed["name"], "context": claimed["context"]}}

    engine.drain(note)
    return ran


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_step_runs_a_workflow_and_gets_the_results_of_its_last_steps(engine: Engine, vocabulary: str) -> None:
    register(engine, step("x"), step("y", "x"), step("z", "x"), vocabulary=vocabulary)
    correlation = UUID(int=7)
    task = create(
        engine, step("a"), step("sub", "a", workflow={"name": "child", "context": "$.inputs.a"}), step("b", "sub"),
        vocabulary=vocabulary, p_correlation_id=correlation, p_priority=3, p_requested_by="anna",
    )  # fmt: skip
    seen: dict[str, Any] = {}

    def handler(claimed: Row) -> Row:
        seen[claimed["name"]] = (claimed["context"], claimed["inputs"])
        return {"result": {"of": claimed["name"]}}

    engine.complete(engine.claim(), {"order": 7})
    engine.settle()
    child = engine.row("select * from tasker.tasks where parent_task_uuid = %s", task)
    assert (child["correlation_id"], child["priority"], child["requested_by"]) == (correlation, 3, "anna")
    assert (child["context"], child["depth"], child["namespace"]) == ({"order": 7}, 1, "default")
    assert engine.rows("select * from tasker.step_claims where worker_uuid is not null") == [], "no worker waits"
    engine.check()
    engine.drain(handler)
    assert seen["y"] == ({"order": 7}, {"x": {"of": "x"}})
    assert seen["b"] == ({}, {"sub": {"y": {"of": "y"}, "z": {"of": "z"}}})
    assert engine.task(task)["phase"] == engine.task(child["task_uuid"])["phase"] == "succeeded"
    assert engine.rows("select * from tasker.step_claims") == []
    engine.check()
    engine.check_order()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_first_step_too_and_a_workflow_without_steps_ends_at_once(engine: Engine, vocabulary: str) -> None:
    register(engine, vocabulary=vocabulary)
    task = create(engine, step("sub", workflow={"name": "child"}), vocabulary=vocabulary)
    engine.settle()
    assert engine.task(task)["phase"] == "succeeded"
    assert engine.steps(task)["sub"]["result"] == {}
    engine.check()


@pytest.mark.parametrize("vocabulary", ["tasker", "execution", "orchestration"])
def test_a_failed_workflow_is_tried_again_as_the_step_says(engine: Engine, vocabulary: str) -> None:
    register(engine, step("x", max_attempts=1))
    task = create(engine, step("sub", workflow={"name": "child"}, max_attempts=2), vocabulary=vocabulary)
    outcomes: list[Row] = [{"success": False, "category": "transient", "error": {"message": "it broke"}}, {"result": 1}]
    engine.settle()
    for outcome in outcomes:
        (claimed,) = engine.claim()
        engine.report(
            [{"step_uuid": str(claimed["workflow_step_uuid"]), "claim_uuid": str(claimed["claim_uuid"]), **outcome}]
        )
        engine.settle()
        failed = next((c for c in children(engine, task) if c["phase"] == "blocked"), None)
        if failed:
            assert engine.task(task)["phase"] not in ("failed", "blocked"), "who mends the child lets its parent go on"
            engine.call("give_up_task", p_task_uuid=failed["task_uuid"], **BY)
        engine.settle()
    assert [c["phase"] for c in children(engine, task)] == ["failed", "succeeded"]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_failure_is_told_with_its_step_error_and_category(engine: Engine) -> None:
    register(engine, step("x", max_attempts=1), vocabulary="supervision")
    engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    task = create(engine, step("sub", workflow={"name": "child"}))
    run(engine, lambda c: {"success": False, "category": "permanent", "error": {"message": "no such order"}})
    child = child_of(engine, task)
    assert error_of(engine, task) == {
        "type": "child_failed", "task_uuid": str(child), "state": "FAILED", "step": "x", "error": {"message": "no such order"},
        "message": f"task {child} (child) ended as FAILED: step x: no such order",
    }  # fmt: skip
    assert engine.state(task) == "blocked_by_failures"
    assert engine.steps(task)["sub"]["attempts"] == 1, "permanent: not tried again"
    engine.check()


def test_a_blocked_child_that_somebody_mends_lets_its_parent_go_on(engine: Engine) -> None:
    register(engine, step("x", max_attempts=1))
    task = create(engine, step("sub", workflow={"name": "child"}))
    run(engine, lambda c: {"success": False, "category": "permanent"})
    child = child_of(engine, task)
    assert (engine.state(child), engine.states(task)) == ("blocked_by_failures", {"sub": "in_progress"})
    engine.call("retry_step", p_step_uuid=engine.steps(child)["x"]["workflow_step_uuid"], **BY)
    assert run(engine) == ["x"]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize(
    ("context", "given"),
    [
        (None, {}), ({"n": None}, {"n": None}), ("$.context", {"order": 7}), ("$.inputs.a", {"deep": {"n": 1}}),
        ("$.inputs.a.deep", {"n": 1}),
    ],
)  # fmt: skip
def test_what_the_child_gets(engine: Engine, context: Any, given: Any) -> None:
    register(engine, step("x"))
    workflow = {"name": "child", **({} if context is None else {"context": context})}
    task = create(engine, step("a"), step("sub", "a", workflow=workflow), p_context={"order": 7})
    engine.complete(engine.claim(), {"deep": {"n": 1}})
    engine.settle()
    assert engine.one("select context from tasker.tasks where parent_task_uuid = %s", task) == given


@pytest.mark.parametrize(
    ("workflow", "kind", "says"),
    [
        ({"name": "child", "context": "$.context.order"}, "no_context", 'which gives no JSON object'),
        ({"name": "child", "context": "$.context.missing"}, "no_context", 'which gives no JSON object'),
        ({"name": "nobody"}, "child_not_created", "there is no template default.nobody"),
        ({"name": "child", "version": "9"}, "child_not_created", "there is no template default.child version 9"),
        ({"name": "child", "namespace": "elsewhere"}, "child_not_created", "there is no template elsewhere.child"),
    ],
)  # fmt: skip
def test_a_child_that_can_not_be_created_fails_its_step_and_no_other(
    engine: Engine, workflow: Row, kind: str, says: str
) -> None:
    register(engine, step("x"))
    engine.begin()
    bad = create(engine, step("sub", workflow=workflow), p_context={"order": 7})
    good = create(engine, step("sub", workflow={"name": "child"}))
    engine.commit()
    engine.settle()
    error = error_of(engine, bad)
    assert error["type"] == kind and says in error["message"]
    assert (engine.states(bad), engine.state(bad)) == ({"sub": "error"}, "blocked_by_failures")
    assert len(children(engine, good)) == 1
    engine.check()


def test_workflows_that_run_themselves_end_at_a_depth(engine: Engine) -> None:
    register(engine, step("sub", workflow={"name": "child"}))
    task = engine.call("create_task", p_name="child")
    for _ in range(30):
        engine.settle()
    assert engine.one("select max(depth) from tasker.tasks") == 20
    deepest = engine.one("select task_uuid from tasker.tasks order by depth desc limit 1")
    assert error_of(engine, deepest) == {
        "type": "too_deep", "message": "workflows that run workflows are at most 20 deep, and this one would be the next",
    }  # fmt: skip
    engine.check()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    assert engine.column("select distinct phase from tasker.task_overview") == ["cancelled"]
    engine.check()


# ---------------------------------------------------------------------------------------------------- ends of parents


@pytest.mark.parametrize("rule", ["cancel", "leave"])
@pytest.mark.parametrize("how", ["cancel_task", "cancel_step", "resolve_step", "timeout", "step_timeout"])
def test_what_becomes_of_a_child_whose_parent_ends_before_it(engine: Engine, how: str, rule: str) -> None:
    register(engine, step("x"))
    task = create(
        engine, step("sub", workflow={"name": "child", "on_parent_cancel": rule}, max_attempts=1,
                     timeout_seconds=600 if how == "step_timeout" else None),
        fields={"timeout_seconds": 600} if how == "timeout" else {},
    )  # fmt: skip
    engine.settle()
    child = child_of(engine, task)
    grandchild = engine.create(graph(step("y")), p_parent_task_uuid=child)
    sub = engine.steps(task)["sub"]["workflow_step_uuid"]
    if how == "cancel_task":
        engine.call("cancel_task", p_task_uuid=task, **BY)
    elif "timeout" in how:
        engine.shift_clock("11 minutes")
    else:
        engine.call(how, p_step_uuid=sub, **BY)
    engine.settle()
    phases = ["cancelled"] * 2 if rule == "cancel" else ["running"] * 2
    assert [engine.task(child)["phase"], engine.task(grandchild)["phase"]] == phases
    if how == "step_timeout":
        assert error_of(engine, task)["type"] == "timeout"
    engine.check()
    engine.drain()
    assert engine.task(child)["phase"] == ("cancelled" if rule == "cancel" else "succeeded")
    engine.check()


def test_without_a_timeout_of_its_own_a_step_waits_for_years(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    engine.settle()
    engine.shift_clock("5 years")
    engine.settle()
    assert engine.states(task) == {"sub": "in_progress"}
    engine.check()


def test_a_step_that_took_too_long_starts_its_next_attempt_with_another_child(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}, max_attempts=2, timeout_seconds=600))
    engine.settle()
    engine.shift_clock("11 minutes")
    engine.settle()
    assert [c["phase"] for c in children(engine, task)] == ["cancelled", "running"]
    assert run(engine) == ["x"]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_child_that_somebody_cancels_fails_its_step_for_good(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    engine.settle()
    child = child_of(engine, task)
    engine.call("cancel_task", p_task_uuid=child, **BY)
    engine.settle()
    assert error_of(engine, task)["type"] == "child_cancelled"
    assert engine.state(task) == "blocked_by_failures"
    resumed = engine.call("resume_task", p_task_uuid=child, **BY)  # a task of its own: its step has gone on
    assert run(engine) == ["x"]
    assert engine.task(resumed)["phase"] == "succeeded"
    assert engine.state(task) == "blocked_by_failures"
    engine.call("retry_step", p_step_uuid=engine.steps(task)["sub"]["workflow_step_uuid"], **BY)
    assert run(engine) == ["x"]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_resumed_parent_runs_its_workflow_again(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("a"), step("sub", "a", workflow={"name": "child", "context": "$.inputs.a"}))
    engine.complete(engine.claim(), {"n": 1})
    engine.settle()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    new = engine.call("resume_task", p_task_uuid=task, **BY)
    assert run(engine) == ["x"]
    assert engine.task(new)["phase"] == "succeeded"
    assert [c["context"] for c in children(engine, new)] == [{"n": 1}]
    engine.check()


# ------------------------------------------------------------------------------------------------------------- races


def test_messages_that_are_lost_or_seen_twice(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    sub = engine.steps(task)["sub"]["workflow_step_uuid"]
    engine.begin()
    engine.orchestrate()
    assert len(children(engine, task)) == 1
    engine.rollback()
    assert children(engine, task) == []
    for _ in range(2):
        engine.rows("select tasker.wake_engine(array[%s::uuid])", sub)
        engine.settle()
    child = child_of(engine, task)
    engine.complete(engine.claim(), 1)
    engine.begin()
    engine.settle()
    engine.rollback()
    for _ in range(2):
        engine.rows("select tasker.wake_parents(array[%s::uuid])", child)
        engine.settle()
    assert engine.walk(sub) == ["pending", "enqueued", "in_progress", "enqueued_for_orchestration", "complete"]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_message_that_somebody_took_out_of_the_queue_is_sent_again(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    engine.settle()
    engine.complete(engine.claim(), 1)
    engine.orchestrate()
    engine.check()
    engine.rows("select pgmq.purge_queue('orchestration_step_results')")
    assert engine.column("select finding from tasker.check_consistency()") == ["waits_for_what_is_there"]
    assert [r["problem"] for r in engine.table("recover", p_dry_run=False, **BY)] == ["waits_for_what_is_there"]
    engine.settle()
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_parent_is_cancelled_while_its_child_ends(engine: Engine, open_engine: OpenEngine) -> None:
    """Whoever holds the child never waits for the parent."""
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    sub = engine.steps(task)["sub"]["workflow_step_uuid"]
    engine.settle()
    child = child_of(engine, task)
    claims = engine.claim()
    other = open_engine()
    other.begin()
    other.call("cancel_step", p_step_uuid=sub, **BY)
    engine.complete(claims, 1)
    engine.orchestrate()
    assert engine.task(child)["phase"] == "succeeded"
    looking = Background(engine.orchestrate)  # at the parent, which somebody holds
    other.wait_until_blocked(engine)
    other.commit()
    looking.result()
    engine.settle()
    assert engine.states(task) == {"sub": "cancelled"}
    engine.check()


def test_many_parents_at_once(engine: Engine, open_engine: OpenEngine) -> None:
    register(engine, step("x"), name="child")
    register(engine, step("sub", workflow={"name": "child"}), name="parent")
    engine.rows(
        "select tasker.create_tasks((select jsonb_agg(jsonb_build_object('name', 'parent')) from generate_series(1, 400)))"
    )
    others = [open_engine() for _ in range(3)]
    in_parallel([others[0].settle, others[1].settle])
    in_parallel([lambda e=e, n=n: e.drain(worker=e.worker(f"w{n}")) for n, e in enumerate(others)])  # type: ignore[misc]
    engine.drain()
    assert engine.rows("select name, phase, count(*) from tasker.task_overview group by 1, 2 order by 1") == [
        {"name": "child", "phase": "succeeded", "count": 400}, {"name": "parent", "phase": "succeeded", "count": 400},
    ]  # fmt: skip
    engine.check()


# --------------------------------------------------------------------------------------------------- what people read


def test_parents_and_children_are_told_of_each_other(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(engine, step("sub", workflow={"name": "child"}))
    engine.settle()
    child = child_of(engine, task)
    assert engine.steps(task)["sub"]["waits_for"] == f"task {child}"
    (reason,) = engine.call("explain_task", p_task_uuid=task)["reasons"]
    assert reason["why"] == f"waits for task {child} (child), which is steps_in_process"
    assert reason["call"] == f"select tasker.explain_task('{child}')"
    assert engine.column("select task_uuid from tasker.find_stuck('0 s')") == [child]


def test_sensitive_results_stay_hidden_unless_the_step_hides_its_own(engine: Engine) -> None:
    register(engine, step("x", sensitive_result=True))
    flow = graph(
        step("open", workflow={"name": "child"}), step("closed", workflow={"name": "child"}, sensitive_result=True),
        step("end", "open", "closed"),
    )  # fmt: skip
    task = engine.create(flow)
    inputs: dict[str, Any] = {}

    def handler(claimed: Row) -> Row:
        inputs[claimed["name"]] = claimed["inputs"]
        return {"result": "secret"}

    engine.drain(handler)
    assert inputs["end"] == {"open": {"x": "[sensitive]"}, "closed": {"x": "secret"}}
    assert engine.steps(task)["closed"]["result"] == "[sensitive]"


def test_big_results_and_contexts_are_whole(engine: Engine) -> None:
    register(engine, step("x"))
    task = create(
        engine, step("a"), step("sub", "a", workflow={"name": "child", "context": "$.inputs.a"}), step("end", "sub")
    )
    big = {"data": "y" * 100_000}
    inputs: dict[str, Any] = {}

    def handler(claimed: Row) -> Row:
        inputs[claimed["name"]] = claimed["context"] if claimed["name"] == "x" else claimed["inputs"]
        return {"result": big}

    engine.drain(handler)
    assert inputs["x"] == big
    sub = engine.steps(task)["sub"]["workflow_step_uuid"]
    assert engine.call("load_result", p_uuid=sub) == {"x": big}
    assert inputs["end"]["sub"]["size"] > 100_000
    engine.rows("select tasker.set_payload_limits('default', 4096, 4096)")
    task = create(engine, step("sub", workflow={"name": "child", "context": {"data": "z" * 3000, "more": "z" * 3000}}))
    engine.settle()
    assert error_of(engine, task)["code"] == "TK413"
    engine.check()


def test_families_are_archived_together(engine: Engine) -> None:
    register(engine, step("x"))
    create(engine, step("sub", workflow={"name": "child"}))
    run(engine)
    engine.rows("select tasker.set_retention_policy('all', '1 hour', '1 day', 'test')")
    engine.rows("alter table tasker.tasks disable trigger all")
    engine.rows("update tasker.tasks set created_at = created_at - interval '2 hours', started_at = started_at - interval '2 hours',"
                " completed_at = completed_at - interval '2 hours'")  # fmt: skip
    engine.rows("alter table tasker.tasks enable trigger all")
    assert engine.row("select * from tasker.archive_tasks('all', 'ada')")["tasks"] == 2
    assert engine.rows("select * from tasker.child_tasks") == []
    assert (
        engine.one("select count(*) from tasker.archived_tasks where content -> 'run_by' ->> 'claim_uuid' is not null")
        == 1
    )


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"workflow": 5}, ".workflow", "workflow must be an object"),
        ({"workflow": {}}, ".workflow.name", "a workflow needs the name of a template"),
        ({"workflow": {"name": "c", "version": 1}}, ".workflow.version", "a version is a string"),
        ({"workflow": {"name": "c", "namespace": "!"}}, ".workflow.namespace", "a namespace has 1 to 63"),
        ({"workflow": {"name": "c", "context": 1}}, ".workflow.context", "a context is a JSON object, or an SQL/JSON path"),
        ({"workflow": {"name": "c", "context": "$.x >"}}, ".workflow.context", "a context is a JSON object, or an SQL/JSON path"),
        ({"workflow": {"name": "c", "on_parent_cancel": "stop"}}, ".workflow.on_parent_cancel", "on_parent_cancel must be cancel or leave"),
        ({"workflow": {"name": "c", "wait": True}}, ".workflow.wait", "unknown field; known are name, version, namespace, context"),
        ({"workflow": {"name": "c"}, "handler": "h"}, ".handler", "a step runs a workflow or a handler"),
        ({"workflow": {"name": "c"}, "acceptance": [{"type": "custom"}]}, ".acceptance", "a workflow checks its results itself"),
    ],
)  # fmt: skip
def test_what_can_not_be_run_is_refused(engine: Engine, fields: Row, path: str, message: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(step("a", **fields)))
    assert refused.value.sqlstate == "TK400"
    problems = json.loads(refused.value.diag.message_detail or "{}")["problems"]
    assert [p["path"] for p in problems if p["message"].startswith(message)] == [f"steps[0]{path}"], problems


def test_an_event_is_waited_for_before_the_workflow_is_run(engine: Engine) -> None:
    register(engine, step("x"))
    wait = {"event": "paid", "value": "7"}
    task = create(engine, step("sub", wait_for=wait, workflow={"name": "child", "context": "$.inputs.paid"}))
    engine.settle()
    assert children(engine, task) == []
    engine.rows("""select tasker.emit_event('paid', '7', '{"amount": 5}')""")
    assert run(engine) == ["x"]
    assert [c["context"] for c in children(engine, task)] == [{"amount": 5}]
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()
