"""One command for many: shown first, each with its log row, whatever is refused meanwhile."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine


def commanded(engine: Engine, command: str, dry_run: bool = False, limit: int = 1000, **filters: Any) -> list[Row]:
    return engine.table(
        "command_all", p_command=command, p_filter=json.dumps(filters), p_dry_run=dry_run, p_limit=limit, **BY
    )


def made(engine: Engine, count: int, **arguments: Any) -> list[UUID]:
    return [engine.create(graph(step("a"), step("b", "a")), **arguments) for _ in range(count)]


def test_what_a_filter_finds_is_shown_and_then_done(engine: Engine) -> None:
    tasks = made(engine, 3, p_tags={"customer": "x", "kind": "big"})
    others = made(engine, 2, p_tags={"customer": "y"})
    shown = commanded(engine, "cancel_task", dry_run=True, tags={"customer": "x"})
    assert [row["task_uuid"] for row in shown] == sorted(tasks)
    assert {row["after"] for row in shown} == {None} and {engine.state(task) for task in tasks} == {"steps_in_process"}
    done = commanded(engine, "cancel_task", tags={"customer": "x"})
    assert [(row["task_uuid"], row["before"], row["after"], row["code"]) for row in done] == [
        (task, "steps_in_process", "cancelled", None) for task in sorted(tasks)
    ]
    assert {engine.state(task) for task in others} == {"steps_in_process"}
    for task in tasks:
        row = engine.row("select metadata from tasker.task_transitions where task_uuid = %s and most_recent", task)
        assert row["metadata"].items() >= {"reason": "a test", "requested_by": "ada", "manual": True}.items()
    assert commanded(engine, "cancel_task", tags={"customer": "x"}) == [], "nothing is left for the command"
    engine.check()


def test_each_filter_narrows(engine: Engine) -> None:
    engine.call("ensure_namespace", p_namespace="other")
    (task,) = made(engine, 1, p_namespace="other", p_requested_by="bob", p_tags={"a": 1})
    made(engine, 2)
    row = engine.row("select correlation_id, created_at from tasker.tasks where task_uuid = %s", task)
    after, before = (engine.one("select %s::timestamptz + %s::interval", row["created_at"], by) for by in ("0", "1 us"))
    for filters in (
        {"namespace": "other"}, {"requested_by": "bob"}, {"tags": {"a": 1}}, {"correlation_id": str(row["correlation_id"])},
        {"created_after": after.isoformat(), "created_before": before.isoformat()},
        {"name": "flow", "namespace": "other", "state": "steps_in_process", "phase": "running"},
    ):  # fmt: skip
        assert [found["task_uuid"] for found in commanded(engine, "cancel_task", dry_run=True, **filters)] == [task], (
            filters
        )
    assert commanded(engine, "cancel_task", dry_run=True, namespace="other", state="complete") == []


def test_steps_that_failed_are_retried_together(engine: Engine) -> None:
    tasks = [engine.create(graph(step("a", max_attempts=1), step("c", max_attempts=1, handler="h"))) for _ in range(3)]
    engine.fail(engine.claim())
    engine.settle()
    assert len(commanded(engine, "retry_step", dry_run=True, name="flow")) == 6
    done = commanded(engine, "retry_step", name="flow", handler="h", step_state="error")
    assert [(row["task_uuid"], row["name"], row["before"], row["code"]) for row in done] == [
        (task, "c", "error", None) for task in sorted(tasks)
    ]
    assert len(commanded(engine, "retry_step", name="flow", step="a")) == 3
    engine.drain()
    assert {engine.state(task) for task in tasks} == {"complete"}
    engine.check()


def test_children_that_go_with_their_parents_are_no_refusals(engine: Engine) -> None:
    (parent,) = made(engine, 1)
    made(engine, 2, p_parent_task_uuid=parent)
    done = commanded(engine, "cancel_task", name="flow")
    assert [(row["after"], row["code"]) for row in done] == [("cancelled", None)] * 3
    assert engine.rejections() == []


def test_the_limit_is_told_by_as_many_rows(engine: Engine) -> None:
    made(engine, 5)
    assert [len(commanded(engine, "cancel_task", limit=2, namespace="default")) for _ in range(4)] == [2, 2, 1, 0]


def test_two_at_once_and_work_beside_them(engine: Engine, open_engine: OpenEngine) -> None:
    """Nobody deadlocks and every task ends once."""
    tasks = made(engine, 30)
    for parent in tasks[::3]:
        made(engine, 1, p_parent_task_uuid=parent)
    sessions = [open_engine() for _ in range(4)]

    def work(session: Engine) -> list[Row]:
        session.drain(worker=session.worker(f"w{session.pid}"), limit=3)
        return []

    calls = [partial(commanded, session, "cancel_task", namespace="default") for session in sessions[:2]]
    answers = in_parallel([*calls, *(partial(work, session) for session in sessions[2:])])
    assert not [row for answer in answers for row in answer if row["code"] not in (None, "TK409")]
    ends = set(engine.column("select state from tasker.task_overview"))
    assert ends <= {"cancelled", "complete"}
    engine.check()


@pytest.mark.parametrize(
    ("command", "filters"),
    [
        ("drop_task", {"namespace": "default"}), (None, {"namespace": "default"}), ("cancel_task", {}), ("cancel_task", []),
        ("cancel_task", {"colour": "red"}), ("cancel_task", {"name": 5}), ("cancel_task", {"tags": "x"}), ("cancel_task", {"step": "a"}),
        ("cancel_task", {"created_after": "yesterday"}), ("cancel_task", {"correlation_id": "x"}),
    ],
)  # fmt: skip
def test_what_is_no_command_or_no_filter_is_refused(engine: Engine, command: str | None, filters: Any) -> None:
    made(engine, 1)
    with pytest.raises(psycopg.Error) as caught:
        engine.table("command_all", p_command=command, p_filter=json.dumps(filters), p_dry_run=False, **BY)
    assert caught.value.sqlstate == "TK400" and caught.value.diag.message_detail
    for arguments in ({"p_limit": 0}, {"p_limit": 10_001}, {"p_reason": ""}):
        with pytest.raises(psycopg.Error) as caught:
            engine.table("command_all", **{"p_command": "cancel_task", "p_filter": {"name": "flow"}, **BY, **arguments})
        assert caught.value.sqlstate == "TK400"
    assert engine.one("select count(*) from tasker.task_overview where is_terminal") == 0


def test_who_may_not_give_the_command_may_not_give_it_to_many(engine: Engine, open_engine: OpenEngine) -> None:
    made(engine, 1)
    client = open_engine(role="tasker_client")
    with pytest.raises(psycopg.Error) as caught:
        commanded(client, "give_up_task", namespace="default")
    assert caught.value.sqlstate == "TK403"
    assert len(commanded(client, "cancel_task", namespace="default")) == 1
