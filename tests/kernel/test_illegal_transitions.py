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
def test_no_function_makes_an_illegal_transition_of_a_task(tenant: Engine, state: str) -> None:
    processor = tenant.processor()
    task = tenant.parked_task(state, processor)
    legal = edges(tenant, "tasker.task", state)
    before = log_of(tenant, "task_transitions", task)

    for to_state in states(tenant, "tasker.task"):
        if to_state in {target for _, target in legal}:
            continue
        with refused("TK409") as refusal:
            tenant.one("select tasker.transition_with_ownership(%s, %s, %s, %s)", task, state, to_state, processor)
        assert refusal.detail["from_state"] == state
        assert refusal.detail["to_state"] == to_state
    for event in events(tenant, "tasker.task"):
        if event in {event for event, _ in legal}:
            continue
        with refused("TK409") as refusal:
            tenant.move_task(task, event, processor, reason="test", requested_by="somebody")
        assert f"{state}: {event} is not allowed" in refusal.message
        assert set(refusal.detail["allowed"]) == {event for event, _ in legal}
        assert all(f"{allowed} (to {target})" in refusal.hint for allowed, target in legal)
        assert legal or "terminal" in refusal.hint

    assert log_of(tenant, "task_transitions", task) == before
    tenant.assert_consistent()


@pytest.mark.parametrize("state", STEP_ROUTES)
def test_no_function_makes_an_illegal_transition_of_a_step(tenant: Engine, state: str) -> None:
    step = tenant.parked_step(state)
    legal = edges(tenant, "tasker.workflow_step", state)
    before = log_of(tenant, "workflow_step_transitions", step)
    for event in [*events(tenant, "tasker.workflow_step"), "no_such_event", ""]:
        if event in {event for event, _ in legal}:
            continue
        with refused("TK409") as refusal:
            tenant.move_step(step, event, reason="test", requested_by="somebody")
        assert f"{state}: {event} is not allowed" in refusal.message
        assert set(refusal.detail["allowed"]) == {event for event, _ in legal}
        assert all(f"{allowed} (to {target})" in refusal.hint for allowed, target in legal)
    assert log_of(tenant, "workflow_step_transitions", step) == before
    tenant.assert_consistent()


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
def test_a_command_that_the_lifecycle_does_not_know_from_here_is_refused(tenant: Engine, state: str) -> None:
    task = tenant.parked_task(state)
    known = set(
        tenant.values(
            "select operation from tasker.lifecycle_transitions where lifecycle = 'tasker.task' and from_state = %s",
            state,
        )
    )
    before = log_of(tenant, "task_transitions", task)
    for function, operation in COMMANDS.items():
        if operation not in known:
            with refused("TK409"):
                tenant.command(function, task)
    assert log_of(tenant, "task_transitions", task) == before


@pytest.mark.parametrize("state", STEP_ROUTES)
def test_a_step_command_that_the_lifecycle_does_not_know_from_here_is_refused(tenant: Engine, state: str) -> None:
    step = tenant.parked_step(state)
    known = set(
        tenant.values(
            "select operation from tasker.lifecycle_transitions"
            " where lifecycle = 'tasker.workflow_step' and from_state = %s",
            state,
        )
    )
    before = log_of(tenant, "workflow_step_transitions", step)
    for function, operations in STEP_COMMANDS.items():
        if not operations & known:
            with refused("TK409"):
                tenant.command(function, step)
    assert log_of(tenant, "workflow_step_transitions", step) == before
    assert tenant.one("select attempts from tasker.workflow_steps where workflow_step_uuid = %s", step) <= 1


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
        insert into tasker.{log} ({log_key}, {columns}, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select gen_random_uuid(), {columns}, lifecycle, to_state, v_event, v_to, sort_key + 1, true from ended;
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


_COLUMNS = {
    "task_transitions": "task_uuid, namespace",
    "workflow_step_transitions": "workflow_step_uuid, task_uuid, namespace",
}
_LIFECYCLES = {"task_transitions": "tasker.task", "workflow_step_transitions": "tasker.workflow_step"}


def try_every_transition(
    engine: Engine, log: str, uuid: UUID, role: str | None = None, replica: bool = False
) -> dict[tuple[str, str], str]:
    """Append each (event, to_state) to the log by plain SQL and undo it; what came of it: OK000 or an SQLSTATE."""
    engine.run("create temp table tried (event text, to_state text, code text)")
    engine.run("grant all on tried to public")
    if role is not None:
        engine.run(f"set role {role}")
    if replica:
        engine.run("set session_replication_role = replica")
    engine.conn.execute(
        sql.SQL(_TRY_ALL).format(
            log=sql.Identifier(log),
            key=sql.Identifier(LOGS[log]),
            log_key=sql.Identifier(f"{log.removesuffix('s')}_uuid"),
            uuid=sql.Literal(uuid),
            columns=sql.SQL(_COLUMNS[log]),
            lifecycle=sql.Literal(_LIFECYCLES[log]),
        )
    )
    engine.run("reset role")
    engine.run("reset session_replication_role")
    outcome = {(row["event"], row["to_state"]): row["code"] for row in engine.rows("select * from tried")}
    engine.run("drop table tried")
    return outcome


@pytest.mark.parametrize("replica", [False, True], ids=["origin", "replica"])
@pytest.mark.parametrize("state", TASK_STATES)
def test_direct_sql_by_a_superuser_stores_exactly_the_legal_transitions_of_tasks(
    tenant: Engine, state: str, replica: bool
) -> None:
    """The triggers are ENABLE ALWAYS: session_replication_role = replica does not get past them."""
    task = tenant.parked_task(state)
    before = log_of(tenant, "task_transitions", task)
    outcome = try_every_transition(tenant, "task_transitions", task, replica=replica)
    assert len(outcome) == 22 * 13
    assert {triple for triple, code in outcome.items() if code == "OK000"} == edges(tenant, "tasker.task", state)
    assert set(outcome.values()) <= {"OK000", "TK409"}
    assert log_of(tenant, "task_transitions", task) == before


@pytest.mark.parametrize("replica", [False, True], ids=["origin", "replica"])
@pytest.mark.parametrize("state", STEP_ROUTES)
def test_direct_sql_by_a_superuser_stores_exactly_the_legal_transitions_of_steps(
    tenant: Engine, state: str, replica: bool
) -> None:
    step = tenant.parked_step(state)
    before = log_of(tenant, "workflow_step_transitions", step)
    outcome = try_every_transition(tenant, "workflow_step_transitions", step, replica=replica)
    assert len(outcome) == 11 * 11
    legal = edges(tenant, "tasker.workflow_step", state)
    assert {triple for triple, code in outcome.items() if code == "OK000"} == legal
    assert set(outcome.values()) <= {"OK000", "TK409"}
    assert log_of(tenant, "workflow_step_transitions", step) == before


@pytest.mark.parametrize("role", ["tasker_owner", "pg_write_all_data"])
def test_whoever_may_write_the_tables_is_held_to_the_same_rules(engine: Engine, role: str) -> None:
    """The owner of the schema is held to the rules; row security lets the role that may write every table write nothing."""
    task = engine.parked_task("pending")
    step = engine.parked_step("in_progress")
    engine.run("grant select on all tables in schema tasker to pg_write_all_data")
    for log, uuid, state in (
        ("task_transitions", task, "pending"),
        ("workflow_step_transitions", step, "in_progress"),
    ):
        outcome = try_every_transition(engine, log, uuid, role)
        legal = edges(engine, _LIFECYCLES[log], state) if role == "tasker_owner" else set()
        assert {triple for triple, code in outcome.items() if code == "OK000"} == legal
        assert set(outcome.values()) == ({"OK000", "TK409"} if role == "tasker_owner" else {"42501"})


# -- by direct SQL: everything else that could put an entity into a wrong state

_NEXT = (
    "insert into tasker.task_transitions"
    " (task_uuid, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent) "
)
ATTACKS = {
    "update the state": "update tasker.task_transitions set to_state = 'complete' where task_uuid = %(task)s",
    "update the state of the current row": "update tasker.task_transitions set to_state = 'complete', most_recent = false"
    " where task_uuid = %(task)s and most_recent",
    "update the start": "update tasker.task_transitions set from_state = 'error' where sort_key = 2",
    "update the event": "update tasker.task_transitions set event = 'cancel' where sort_key = 2",
    "update the metadata": "update tasker.task_transitions set metadata = '{\"reason\": \"forged\"}'",
    "update the order": "update tasker.task_transitions set sort_key = sort_key + 10 where task_uuid = %(task)s",
    "update the time": "update tasker.task_transitions set created_at = '2000-01-01'",
    "update the owner": "update tasker.task_transitions set processor_uuid = task_uuid",
    "give the row to another task": "update tasker.task_transitions set task_uuid = %(other)s where sort_key = 2",
    "leave no current row": "update tasker.task_transitions set most_recent = false where most_recent",
    "make an old row current": "update tasker.task_transitions set most_recent = true where sort_key = 1",
    "touch it": "update tasker.task_transitions set updated_at = clock_timestamp()",
    "delete": "delete from tasker.task_transitions where task_uuid = %(task)s",
    "delete the newest": "delete from tasker.task_transitions where most_recent",
    "truncate": "truncate tasker.task_transitions",
    "truncate everything": "truncate tasker.tasks cascade",
    "truncate steps": "truncate tasker.workflow_steps cascade",
    "delete a step's log": "delete from tasker.workflow_step_transitions",
    "truncate a step's log": "truncate tasker.workflow_step_transitions cascade",
    "update a step's state": "update tasker.workflow_step_transitions set to_state = 'complete'",
    "update a step's result": "update tasker.workflow_step_transitions set metadata = '{\"success\": true}'",
    "two current rows": _NEXT + "values (%(task)s, 'default', 'tasker.task', 'initializing', 'cancel', 'cancelled', 3, true)",
    "a successor that is not current": _NEXT
    + "values (%(task)s, 'default', 'tasker.task', 'initializing', 'cancel', 'cancelled', 3, false)",
    "a gap in the order": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, namespace, lifecycle, to_state, 'cancel', 'cancelled', sort_key + 2, true from ended",
    "the same place twice": _NEXT + "values (%(task)s, 'default', 'tasker.task', 'pending', 'start', 'initializing', 2, false)",
    "place zero": _NEXT + "values (%(task)s, 'default', 'tasker.task', 'pending', 'start', 'initializing', 0, false)",
    "no start": _NEXT + "values (%(task)s, 'default', 'tasker.task', null, 'create', 'complete', 3, true)",
    "a second beginning": _NEXT + "values (%(task)s, 'default', 'tasker.task', null, 'create', 'pending', 1, true)",
    "another start than the current state": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, namespace, lifecycle, 'blocked_by_failures', 'give_up', 'error', sort_key + 1, true from ended",
    "another lifecycle": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, namespace, 'tasker.workflow_step', to_state, 'cancel', 'cancelled', sort_key + 1, true from ended",
    "a lifecycle that does not exist": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, namespace, 'tasker.forged', to_state, 'cancel', 'cancelled', sort_key + 1, true from ended",
    "another namespace": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, 'elsewhere', lifecycle, to_state, 'cancel', 'cancelled', sort_key + 1, true from ended",
    "two steps at once, the second illegal": "with ended as (update tasker.task_transitions set most_recent = false"
    " where task_uuid = %(task)s and most_recent returning *) "
    + _NEXT
    + "select task_uuid, namespace, lifecycle, to_state, 'no_steps_found', 'complete', sort_key + 1, false from ended"
    " union all select task_uuid, namespace, lifecycle, 'complete', 'reset', 'pending', sort_key + 2, true from ended",
    "a beginning for a task that is not there": _NEXT
    + "values (gen_random_uuid(), 'default', 'tasker.task', null, 'create', 'pending', 1, true)",
    "a beginning in another state": _NEXT + "values (%(new)s, 'default', 'tasker.task', null, 'create', 'complete', 1, true)",
    "a beginning by another event": _NEXT + "values (%(new)s, 'default', 'tasker.task', null, 'start', 'pending', 1, true)",
    "a beginning in another namespace": _NEXT
    + "values (%(new)s, 'elsewhere', 'tasker.task', null, 'create', 'pending', 1, true)",
    "a beginning that is not current": _NEXT
    + "values (%(new)s, 'default', 'tasker.task', null, 'create', 'pending', 1, false)",
    "on conflict do update": _NEXT
    + "values (%(task)s, 'default', 'tasker.task', 'pending', 'start', 'initializing', 2, false)"
    " on conflict (task_uuid, sort_key) do update set to_state = 'complete'",
    "on conflict do nothing": _NEXT
    + "values (%(task)s, 'default', 'tasker.task', 'initializing', 'no_steps_found', 'error', 3, false)"
    " on conflict do nothing",
    "merge that updates": "merge into tasker.task_transitions t using (values (1)) as v on t.task_uuid = %(task)s"
    " when matched then update set to_state = 'complete'",
    "merge that inserts": "merge into tasker.task_transitions t using (values (1)) as v on false when not matched then"
    " insert (task_uuid, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent)"
    " values (%(task)s, 'default', 'tasker.task', 'initializing', 'no_steps_found', 'error', 3, false)",
    "merge that deletes": "merge into tasker.task_transitions t using (values (1)) as v on t.task_uuid = %(task)s"
    " when matched then delete",
    "a step's row under another task": "with ended as (update tasker.workflow_step_transitions set most_recent = false"
    " where workflow_step_uuid = %(step)s and most_recent returning *)"
    " insert into tasker.workflow_step_transitions"
    " (workflow_step_uuid, task_uuid, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent)"
    " select workflow_step_uuid, %(other)s, namespace, lifecycle, to_state, 'cancel', 'cancelled', sort_key + 1, true"
    " from ended",
    "an edge to a step of another task": "insert into tasker.workflow_step_edges values (%(task)s, %(step)s, %(foreign)s)",
    "an audit row changed": "update tasker.workflow_step_result_audit set success = true",
    "an audit row removed": "delete from tasker.workflow_step_result_audit",
    "the audit emptied": "truncate tasker.workflow_step_result_audit",
}  # fmt: skip


class _Scene:
    """Two tasks, one of them moved once, one of them without a log yet, and one reported result."""

    def __init__(self, engine: Engine) -> None:
        task = engine.task(chain("only"), start=False)
        other = engine.task(chain("only"), start=False)
        engine.move_task(task, "start")
        finished = engine.task(chain("only"), namespace="finished")
        engine.finish(engine.worker())
        assert engine.state(finished) == "complete"
        new = engine.one(
            "insert into tasker.tasks (namespace, name, vocabulary, lifecycle, correlation_id)"
            " values ('default', 'new', 'tasker', 'tasker.task', gen_random_uuid()) returning task_uuid"
        )
        self.names = {
            "task": task,
            "other": other,
            "new": new,
            "step": engine.steps(task)["only"],
            "foreign": engine.steps(other)["only"],
        }

    @staticmethod
    def content(engine: Engine) -> list[list[Row]]:
        return [
            engine.rows(f"select * from tasker.{table} order by 1")
            for table in (*LOGS, "workflow_step_result_audit", "workflow_step_edges", "changes")
        ]


@pytest.mark.parametrize("replica", [False, True], ids=["origin", "replica"])
def test_no_statement_of_a_superuser_changes_what_happened(engine: Engine, replica: bool) -> None:
    scene = _Scene(engine)
    before = scene.content(engine)
    if replica:
        engine.run("set session_replication_role = replica")
    survived = {}
    for attack, statement in ATTACKS.items():
        if replica and statement.startswith("insert into tasker.workflow_step_edges"):
            continue  # not a log: check_consistency looks at it instead
        try:
            with engine.conn.transaction():
                engine.conn.execute(statement.encode(), scene.names)
                raise AssertionError("let through")
        except psycopg.Error as error:
            survived[attack] = error.sqlstate
        except AssertionError as error:
            survived[attack] = str(error)
    assert scene.content(engine) == before
    walls = {"TK409", "TK400", "23505", "23514"}
    assert {attack: code for attack, code in survived.items() if code not in walls} == {}


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
def test_no_statement_of_anybody_else_reaches_the_tables(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]], login: Callable[..., str], role: str
) -> None:
    scene = _Scene(engine)
    before = scene.content(engine)
    if role == "nobody":
        with psycopg.connect(login(), autocommit=True) as stranger:
            codes = _attack(stranger, scene)
    else:
        codes = _attack(connect(role=role), scene)
    assert codes == {attack: "42501" for attack in ATTACKS}
    assert scene.content(engine) == before


def _attack(conn: psycopg.Connection[Any], scene: _Scene) -> dict[str, str | None]:
    codes = {}
    for attack, statement in ATTACKS.items():
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(statement.encode(), scene.names)
        codes[attack] = caught.value.sqlstate
    return codes


def test_copy_is_held_to_the_rules(tenant: Engine) -> None:
    task = tenant.parked_task("initializing")
    before = log_of(tenant, "task_transitions", task)
    columns = "task_uuid, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent"
    with (
        refused("TK409"),
        tenant.conn.cursor() as cursor,
        cursor.copy(f"copy tasker.task_transitions ({columns}) from stdin") as copy,
    ):
        copy.write_row((task, "default", "tasker.task", "initializing", "forged", "complete", 3, False))
    assert log_of(tenant, "task_transitions", task) == before


# -- one illegal row among a thousand


@pytest.fixture
def thousand(engine: Engine) -> tuple[Engine, UUID, list[UUID]]:
    task = engine.task([{"name": f"s{number}"} for number in range(1000)], start=False)
    return engine, task, list(engine.steps(task).values())


def test_one_illegal_row_among_a_thousand_refuses_the_whole_statement(
    thousand: tuple[Engine, UUID, list[UUID]],
) -> None:
    engine, task, steps = thousand
    bad = steps[617]
    before = engine.one("select count(*) from tasker.workflow_step_transitions")
    with refused("TK409") as refusal:
        engine.run(
            "with ended as (update tasker.workflow_step_transitions set most_recent = false"
            " where task_uuid = %s and most_recent returning *)"
            " insert into tasker.workflow_step_transitions (workflow_step_uuid, task_uuid, namespace, lifecycle,"
            "  from_state, event, to_state, sort_key, most_recent)"
            " select workflow_step_uuid, task_uuid, namespace, lifecycle, to_state, 'cancel',"
            "  case when workflow_step_uuid = %s then 'complete' else 'cancelled' end, 2, true from ended",
            task, bad,
        )  # fmt: skip
    assert refusal.detail["uuid"] == str(bad)
    assert refusal.detail["to_state"] == "complete"
    assert engine.one("select count(*) from tasker.workflow_step_transitions") == before
    engine.assert_consistent()


def test_one_illegal_move_among_a_thousand_refuses_the_kernel_call(thousand: tuple[Engine, UUID, list[UUID]]) -> None:
    engine, task, steps = thousand
    moves = (
        "array(select (gen_random_uuid(), s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle, 'pending', 'cancel',"
        " case when s.workflow_step_uuid = %s then 'error' else 'cancelled' end, 2, true, null)::tasker.step_move"
        " from tasker.workflow_steps s where s.task_uuid = %s)"
    )
    with refused("TK409") as refusal:
        engine.run(f"select tasker.append_step_transitions({moves})", steps[0], task)
    assert refusal.detail["uuid"] == str(steps[0])
    engine.assert_consistent()
    assert set(engine.states(task).values()) == {"pending"}

    engine.run(f"select tasker.append_step_transitions({moves})", NOBODY, task)
    assert set(engine.states(task).values()) == {"cancelled"}
    engine.assert_consistent()


def test_a_move_from_a_state_that_is_not_current_any_more_is_refused(tenant: Engine) -> None:
    """What a caller of the kernel decided on before it had the lock is not believed."""
    step = tenant.parked_step("enqueued")
    with refused("TK409", "23505"):
        tenant.run(
            "select tasker.append_step_transitions(array[(gen_random_uuid(), %s, s.task_uuid, s.namespace, s.lifecycle,"
            " 'pending', 'cancel', 'cancelled', 2, true, null)::tasker.step_move])"
            " from tasker.workflow_steps s where s.workflow_step_uuid = %s",
            step, step,
        )  # fmt: skip
    assert tenant.step_state(step) == "enqueued"


# -- what the doors refuse besides


@pytest.mark.parametrize("metadata", ["[]", '"text"', "1", "[1, 2]"])
def test_metadata_must_be_an_object(tenant: Engine, metadata: str) -> None:
    task = tenant.parked_task("pending")
    step = tenant.parked_step("pending")
    with refused("TK400"):
        tenant.one("select tasker.transition_task(%s, 'start', null, %s)", task, metadata)
    with refused("TK400"):
        tenant.one("select tasker.transition_step(%s, 'enqueue', %s)", step, metadata)
    assert tenant.one("select tasker.transition_task(%s, 'start', null, 'null')", task) == "initializing"
    assert tenant.one("select tasker.transition_step(%s, 'enqueue', null)", step) == "enqueued"


@pytest.mark.parametrize(
    "metadata",
    [
        {"success": "maybe"},
        {"category": "sometimes"},
        {"execution_time_ms": -1},
        {"execution_time_ms": "soon"},
        {"execution_time_ms": 1.5},
        {"retry_after": "soon"},
        {"retry_after": -1},
    ],
    ids=json.dumps,
)
def test_what_the_engine_reads_from_metadata_must_be_well_formed(tenant: Engine, metadata: Row) -> None:
    """It would be cast later, in somebody else's call: one bad row would stop a whole queue."""
    step = tenant.parked_step("in_progress")
    with refused("TK400"):
        tenant.move_step(step, "enqueue_for_orchestration", **metadata)
    assert tenant.step_state(step) == "in_progress"


@pytest.mark.parametrize("metadata", [{}, {"reason": " "}, {"reason": "why"}, {"requested_by": "who"}], ids=json.dumps)
def test_a_command_through_the_generic_door_needs_reason_and_name_too(tenant: Engine, metadata: Row) -> None:
    task = tenant.parked_task("blocked_by_failures")
    for event in ("cancel", "give_up", "manual_resolution"):
        with refused("TK400"):
            tenant.move_task(task, event, **metadata)
    with refused("TK400"):
        tenant.move_step(tenant.steps(task)["only"], "retry", **metadata)
    assert tenant.state(task) == "blocked_by_failures"


@pytest.mark.parametrize("event", ["enqueue", "start", "retry", "fail"])
def test_steps_of_a_task_that_has_ended_do_not_go_back_to_work(tenant: Engine, event: str) -> None:
    task = tenant.parked_task("error")
    step = tenant.steps(task)["only"]
    with refused("TK409") as refusal:
        tenant.move_step(step, event, reason="test", requested_by="somebody")
    if event == "retry":
        assert "reset_task" in refusal.hint
        for function in ("retry_step", "reset_step"):
            with refused("TK409"):
                tenant.command(function, step)
    assert tenant.step_state(step) == "error"
    tenant.assert_consistent()


def test_an_unknown_entity_is_refused_by_name(tenant: Engine) -> None:
    for call in (
        "select tasker.transition_task(%s, 'start')",
        "select tasker.transition_step(%s, 'enqueue')",
        "select tasker.transition_with_ownership(%s, 'pending', 'initializing', null)",
        "select tasker.cancel_task(%s, 'test', 'somebody')",
        "select tasker.cancel_step(%s, 'test', 'somebody')",
        "select tasker.task_status(%s)",
    ):
        for uuid in (NOBODY, None):
            with refused("TK404") as refusal:
                tenant.one(call, uuid)
            assert str(uuid or "null") in refusal.message
