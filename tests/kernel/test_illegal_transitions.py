"""An illegal transition can't be stored: not through a function, not by SQL of any kind, not by any role."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from tests.kernel.engine import STEP_ROUTES, Engine, Row, chain, refused

TASK_STATES = [
    "pending", "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results", "waiting_for_dependencies",
    "waiting_for_retry", "blocked_by_failures", "complete", "error", "cancelled", "resolved_manually",
]  # fmt: skip
ROLES = ["tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"]
LOGS = {"task_transitions": "task_uuid", "workflow_step_transitions": "workflow_step_uuid"}
NOBODY = UUID(int=0)


def edges(engine: Engine, lifecycle: str, state: str) -> set[tuple[str, str]]:
    """(event, to_state) of every rule from this state."""
    rows = engine.rows(
        "select event, to_state from tasker.lifecycle_transitions where lifecycle = %s and from_state = %s",
        lifecycle,
        state,
    )
    return {(row["event"], row["to_state"]) for row in rows}


def events(engine: Engine, lifecycle: str) -> list[str]:
    return engine.values("select event from tasker.lifecycle_events where lifecycle = %s order by event", lifecycle)


def states(engine: Engine, lifecycle: str) -> list[str]:
    return engine.values("select state from tasker.lifecycle_states where lifecycle = %s order by ordinal", lifecycle)


def log_of(engine: Engine, table: str, uuid: UUID) -> list[Row]:
    return engine.rows(f"select * from tasker.{table} where {LOGS[table]} = %s order by sort_key", uuid)


# -- through the functions


@pytest.mark.parametrize("state", TASK_STATES)
def test_no_function_makes_an_illegal_transition_of_a_task(engine: Engine, state: str) -> None:
    processor = engine.processor()
    task = engine.parked_task(state, processor)
    legal = edges(engine, "tasker.task", state)
    before = log_of(engine, "task_transitions", task)

    for to_state in states(engine, "tasker.task"):
        if to_state in {target for _, target in legal}:
            continue
        with refused("TK409") as refusal:
            engine.one(
                "select tasker.transition_with_ownership(%s, %s, %s, %s)", task, state, to_state, processor
            )
        assert refusal.detail["from_state"] == state
        assert refusal.detail["to_state"] == to_state
    for event in events(engine, "tasker.task"):
        if event in {event for event, _ in legal}:
            continue
        with refused("TK409") as refusal:
            engine.move_task(task, event, processor, reason="test", requested_by="somebody")
        assert f"{state}: {event} is not allowed" in refusal.message
        assert set(refusal.detail["allowed"]) == {event for event, _ in legal}
        assert all(f"{allowed} (to {target})" in refusal.hint for allowed, target in legal)
        assert legal or "terminal" in refusal.hint

    assert log_of(engine, "task_transitions", task) == before
    engine.assert_consistent()


@pytest.mark.parametrize("state", STEP_ROUTES)
def test_no_function_makes_an_illegal_transition_of_a_step(engine: Engine, state: str) -> None:
    step = engine.parked_step(state)
    legal = edges(engine, "tasker.workflow_step", state)
    before = log_of(engine, "workflow_step_transitions", step)
    for event in [*events(engine, "tasker.workflow_step"), "no_such_event", ""]:
        if event in {event for event, _ in legal}:
            continue
        with refused("TK409") as refusal:
            engine.move_step(step, event, reason="test", requested_by="somebody")
        assert f"{state}: {event} is not allowed" in refusal.message
        assert set(refusal.detail["allowed"]) == {event for event, _ in legal}
        assert all(f"{allowed} (to {target})" in refusal.hint for allowed, target in legal)
    assert log_of(engine, "workflow_step_transitions", step) == before
    engine.assert_consistent()


COMMANDS = {
    "cancel_task": "cancel_task",
    "give_up_task": "give_up_task",
    "resolve_task": "resolve_task",
    "reset_task": "reset_task",
}
STEP_COMMANDS = {
    "cancel_step": {"cancel_step"},
    "resolve_step": {"resolve_step"},
    "retry_step": {"retry_step", "retry_due"},
    "reset_step": {"retry_step", "retry_due"},
    "skip_step": {"skip_step"},
}


@pytest.mark.parametrize("state", TASK_STATES)
def test_a_command_that_the_lifecycle_does_not_know_from_here_is_refused(engine: Engine, state: str) -> None:
    task = engine.parked_task(state)
    known = set(
        engine.values(
            "select operation from tasker.lifecycle_transitions where lifecycle = 'tasker.task' and from_state = %s",
            state,
        )
    )
    before = log_of(engine, "task_transitions", task)
    for function, operation in COMMANDS.items():
        if operation not in known:
            with refused("TK409"):
                engine.command(function, task)
    assert log_of(engine, "task_transitions", task) == before


@pytest.mark.parametrize("state", STEP_ROUTES)
def test_a_step_command_that_the_lifecycle_does_not_know_from_here_is_refused(engine: Engine, state: str) -> None:
    step = engine.parked_step(state)
    known = set(
        engine.values(
            "select operation from tasker.lifecycle_transitions"
            " where lifecycle = 'tasker.workflow_step' and from_state = %s",
            state,
        )
    )
    before = log_of(engine, "workflow_step_transitions", step)
    for function, operations in STEP_COMMANDS.items():
        if not operations & known:
            with refused("TK409"):
                engine.command(function, step)
    assert log_of(engine, "workflow_step_transitions", step) == before
    assert engine.one("select attempts from tasker.workflow_steps where workflow_step_uuid = %s", step) <= 1


# -- by direct SQL: every triple of state, event and state

_TRY_ALL = """
do $try$
declare
  v_event text; v_to text; v_code text;
begin
  for v_event in select e.event from tasker.lifecycle_events e where e.lifecycle = {lifecycle}
                 union all values ('create'), ('forged') loop
    for v_to in select s.state from tasker.lifecycle_states s where s.lifecycle = {lifecycle}
                union all values ('forged') loop
      begin
        with ended as (
          update tasker.{log} set most_recent = false where {key} = {uuid} and most_recent returning *
        )
        insert into tasker.{log} ({columns}, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select {columns}, lifecycle, to_state, v_event, v_to, sort_key + 1, true from ended;
        raise exception using errcode = 'OK000';
      exception when others then
        v_code := sqlstate;
      end;
      insert into tried values (v_event, v_to, v_code);
    end loop;
  end loop;
end
$try$
"""


def try_every_transition(engine: Engine, log: str, uuid: UUID) -> dict[tuple[str, str], str]:
    """Append each (event, to_state) to the log by plain SQL and undo it; what came of it: OK000 or an SQLSTATE."""
    columns = {"task_transitions": "task_uuid, namespace", "workflow_step_transitions": "workflow_step_uuid, task_uuid, namespace"}[log]
    lifecycle = {"task_transitions": "tasker.task", "workflow_step_transitions": "tasker.workflow_step"}[log]
    engine.run("create temp table if not exists tried (event text, to_state text, code text)")
    engine.run("grant all on tried to public")
    engine.run("delete from tried")
    statement = sql.SQL(_TRY_ALL).format(
        log=sql.Identifier(log), key=sql.Identifier(LOGS[log]), uuid=sql.Literal(uuid), columns=sql.SQL(columns),
        lifecycle=sql.Literal(lifecycle),
    )  # fmt: skip
    engine.conn.execute(statement)
    return {(row["event"], row["to_state"]): row["code"] for row in engine.rows("select * from tried")}


@pytest.mark.parametrize("replica", [False, True], ids=["origin", "replica"])
@pytest.mark.parametrize("state", TASK_STATES)
def test_direct_sql_by_a_superuser_stores_exactly_the_legal_transitions_of_tasks(
    engine: Engine, state: str, replica: bool
) -> None:
    """The triggers are ENABLE ALWAYS: session_replication_role = replica does not get past them."""
    task = engine.parked_task(state)
    before = log_of(engine, "task_transitions", task)
    if replica:
        engine.run("set session_replication_role = replica")
    outcome = try_every_transition(engine, "task_transitions", task)
    assert len(outcome) == 22 * 13
    assert {triple for triple, code in outcome.items() if code == "OK000"} == edges(engine, "tasker.task", state)
    assert set(outcome.values()) <= {"OK000", "TK409"}
    assert log_of(engine, "task_transitions", task) == before


@pytest.mark.parametrize("replica", [False, True], ids=["origin", "replica"])
@pytest.mark.parametrize("state", STEP_ROUTES)
def test_direct_sql_by_a_superuser_stores_exactly_the_legal_transitions_of_steps(
    engine: Engine, state: str, replica: bool
) -> None:
    step = engine.parked_step(state)
    before = log_of(engine, "workflow_step_transitions", step)
    if replica:
        engine.run("set session_replication_role = replica")
    outcome = try_every_transition(engine, "workflow_step_transitions", step)
    assert len(outcome) == 11 * 11
    legal = edges(engine, "tasker.workflow_step", state)
    assert {triple for triple, code in outcome.items() if code == "OK000"} == legal
    assert set(outcome.values()) <= {"OK000", "TK409"}
    assert log_of(engine, "workflow_step_transitions", step) == before


@pytest.mark.parametrize("role", ["tasker_owner", "pg_write_all_data"])
def test_whoever_may_write_the_tables_is_held_to_the_same_rules(engine: Engine, role: str) -> None:
    """The owner of the schema, and a member of the predefined role that may write every table."""
    task = engine.parked_task("pending")
    step = engine.parked_step("in_progress")
    engine.run("create temp table tried (event text, to_state text, code text)")
    engine.run("grant all on tried to public")
    engine.run(f"grant select on all tables in schema tasker to {role}")
    engine.run(f"set role {role}")
    for log, uuid, lifecycle, state in (
        ("task_transitions", task, "tasker.task", "pending"),
        ("workflow_step_transitions", step, "tasker.workflow_step", "in_progress"),
    ):
        engine.run("reset role")
        engine.run("delete from tried")
        engine.run(f"set role {role}")
        outcome = try_every_transition_as(engine, log, uuid)
        assert {triple for triple, code in outcome.items() if code == "OK000"} == edges(engine, lifecycle, state)
        assert set(outcome.values()) <= {"OK000", "TK409"}


def try_every_transition_as(engine: Engine, log: str, uuid: UUID) -> dict[tuple[str, str], str]:
    """As the current role, which can't make temporary tables."""
    columns = {"task_transitions": "task_uuid, namespace", "workflow_step_transitions": "workflow_step_uuid, task_uuid, namespace"}[log]
    lifecycle = {"task_transitions": "tasker.task", "workflow_step_transitions": "tasker.workflow_step"}[log]
    engine.conn.execute(
        sql.SQL(_TRY_ALL).format(
            log=sql.Identifier(log), key=sql.Identifier(LOGS[log]), uuid=sql.Literal(uuid), columns=sql.SQL(columns),
            lifecycle=sql.Literal(lifecycle),
        )
    )  # fmt: skip
    return {(row["event"], row["to_state"]): row["code"] for row in engine.rows("select * from tried")}
