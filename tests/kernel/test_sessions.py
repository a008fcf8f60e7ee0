"""No setting of a caller's session changes a fact: time zone, date style, isolation, search path, quoting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from tests.kernel.engine import DIAMOND, Engine, chain

Connect = Callable[..., psycopg.Connection[Any]]

SETTINGS: dict[str, dict[str, str]] = {
    "far west": {"timezone": "Pacific/Marquesas", "datestyle": "SQL, DMY", "intervalstyle": "sql_standard"},
    "far east": {"timezone": "Pacific/Kiritimati", "datestyle": "German", "intervalstyle": "iso_8601"},
    "summer time": {"timezone": "Europe/Berlin", "datestyle": "Postgres, MDY", "intervalstyle": "postgres_verbose"},
    "old bytes": {"bytea_output": "escape", "extra_float_digits": "-15"},
    "nowhere": {"search_path": ""},
    "elsewhere": {"search_path": "pg_temp, public"},
    "repeatable": {"default_transaction_isolation": "repeatable read"},
    "serializable": {"default_transaction_isolation": "serializable"},
    "odd plans": {"enable_nestloop": "off", "enable_indexscan": "off", "enable_bitmapscan": "off"},
    "compiled plans": {"jit": "on", "jit_above_cost": "5000"},
    "generic plans": {"plan_cache_mode": "force_generic_plan"},
    "nulls": {"transform_null_equals": "on", "array_nulls": "off"},
}  # fmt: skip


@pytest.mark.parametrize("session", SETTINGS)
def test_a_workflow_runs_the_same_under_any_session(engine: Engine, connect: Connect, session: str) -> None:
    strange = Engine(connect())
    for kind in ("timestamptz", "interval"):  # the driver reads no other styles than the usual ones
        strange.conn.adapters.register_loader(kind, TextLoader)
    for name, value in SETTINGS[session].items():
        strange.one("select set_config(%s, %s, false)", name, value)
    before = datetime.now(UTC) - timedelta(minutes=1)
    task = strange.task([{**step, "max_attempts": 2, "retry": {"jitter": 0, "base_delay": 7}} for step in DIAMOND])
    worker = strange.worker()
    (top,) = strange.claim(worker)
    strange.fail(top, "transient")
    strange.orchestrate()

    # read by a session of the usual kind
    step = engine.row("select * from tasker.step_overview where name = 'top'")
    assert step["state"] == "waiting_for_retry"
    assert timedelta(seconds=6) < step["next_retry_at"] - step["state_since"] < timedelta(seconds=8)
    assert before < step["state_since"] < datetime.now(UTC) + timedelta(minutes=1)
    assert strange.one(
        "select next_retry_at = %s::timestamptz from tasker.step_overview where name = 'top'",
        step["next_retry_at"].isoformat(),
    )

    engine.shift_clock("1 minute")
    strange.tick()
    strange.finish(worker)
    assert engine.state(task) == "complete"
    for row in engine.rows("select * from tasker.get_task_audit_history(%s)", task):
        assert before < row["recorded_at"] < datetime.now(UTC) + timedelta(minutes=1)
    first = strange.rows("select cursor, change ->> 'transition_uuid' as uuid from tasker.changes_after()")
    assert first == engine.rows("select cursor, change ->> 'transition_uuid' as uuid from tasker.changes_after()")
    assert strange.findings() == []
    engine.assert_consistent()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_caller_with_an_old_snapshot_is_refused_and_never_believed(
    engine: Engine, connect: Connect, isolation: str
) -> None:
    """It reads states that are not current any more; the rows it would have to change have changed."""
    task = engine.task(chain("first", "second"), start=False)
    first, second = engine.steps(task).values()
    old = Engine(connect(autocommit=False))
    rounds: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: engine.move_step(first, "enqueue"), lambda: old.command("cancel_step", first)),
        (lambda: engine.move_step(first, "start"), lambda: old.move_step(first, "fail")),
        (lambda: engine.command("resolve_step", first), lambda: old.move_step(second, "enqueue")),
        (lambda: engine.move_task(task, "start"), lambda: old.command("cancel_task", task)),
    ]
    for attempt, (meanwhile, stale) in enumerate(rounds):
        old.run(f"set transaction isolation level {isolation}")
        old.one("select count(*) from tasker.tasks")
        meanwhile()
        with pytest.raises(psycopg.Error) as caught:
            stale()
        assert caught.value.sqlstate in ("40001", "TK409", "TK422"), attempt
        old.conn.rollback()
    assert engine.step_log(first)[-1] == ("in_progress", "resolve_manually", "resolved_manually")
    assert engine.state(task) == "initializing"
    engine.assert_consistent()


def test_three_moves_in_one_transaction_stand_in_their_order(engine: Engine) -> None:
    """The log's clock moves inside a transaction; where it does not, sort_key orders."""
    with engine.conn.transaction():
        step = engine.steps(engine.task(chain("only"), start=False))["only"]
        for event in ("enqueue", "start"):
            engine.move_step(step, event)
        began = engine.one("select now()")
    rows = engine.rows(
        "select created_at, sort_key from tasker.workflow_step_transitions where workflow_step_uuid = %s"
        " order by created_at, sort_key",
        step,
    )
    assert [row["sort_key"] for row in rows] == [1, 2, 3]
    assert rows[0]["created_at"] < rows[1]["created_at"] < rows[2]["created_at"]
    assert began < rows[0]["created_at"]


def test_a_caller_may_put_it_into_a_transaction_of_his_own(engine: Engine, connect: Connect) -> None:
    """The task and the caller's data are one commit, and one rollback."""
    engine.run("create table orders (number int)")
    with pytest.raises(ZeroDivisionError), engine.conn.transaction():
        engine.run("insert into orders values (1)")
        engine.task(DIAMOND)
        raise ZeroDivisionError
    assert engine.one("select count(*) from tasker.tasks") == 0
    with engine.conn.transaction():
        engine.run("insert into orders values (2)")
        task = engine.task(DIAMOND)
    assert Engine(connect()).state(task) == "steps_in_process"


def test_a_refusal_inside_a_savepoint_leaves_the_rest_of_the_transaction(engine: Engine) -> None:
    with engine.conn.transaction():
        task = engine.task(chain("only"), start=False)
        with pytest.raises(psycopg.Error), engine.conn.transaction():
            engine.move_task(task, "give_up")
        engine.move_task(task, "start")
    assert engine.state(task) == "initializing"
    engine.assert_consistent()
