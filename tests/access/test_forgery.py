"""Keys, claims, request ids, notifications and evidence that somebody makes up or changes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from pgtasker import Client, Worker
from tests.kernel.engine import DIAMOND, Engine, chain, refused

Login = Callable[..., str]


@pytest.fixture
def two(login: Login) -> Any:
    """Two logins of the same roles."""
    opened = [
        psycopg.connect(login("tasker_client", "tasker_worker"), autocommit=True) for _ in range(2)
    ]  # fmt: skip
    yield [Engine(conn) for conn in opened]
    for conn in opened:
        conn.close()


# -- claims and workers


def test_a_claim_is_good_for_its_own_steps_only(engine: Engine) -> None:
    engine.task(chain("a"))
    engine.task(chain("b"))
    worker, other = engine.worker(), engine.worker()
    (one,) = engine.claim(worker, 1)
    (two,) = engine.claim(other, 1)
    reports = [
        {"step_uuid": one["workflow_step_uuid"], "claim_uuid": two["claim_uuid"]},
        {"step_uuid": two["workflow_step_uuid"], "claim_uuid": one["claim_uuid"]},
        {"step_uuid": one["workflow_step_uuid"], "claim_uuid": uuid4()},
        {"step_uuid": one["workflow_step_uuid"], "claim_uuid": worker},
        {"step_uuid": one["claim_uuid"], "claim_uuid": one["claim_uuid"]},
        {"step_uuid": one["workflow_step_uuid"], "claim_uuid": "00000000-0000-0000-0000-000000000000"},
    ]
    assert [row["code"] for row in engine.report(*reports)] == ["TK412", "TK412", "TK412", "TK412", "TK404", "TK412"]
    for claim in (two["claim_uuid"], uuid4(), None):
        with refused("TK412"):
            engine.one("select tasker.save_checkpoint(%s, %s, '1')", one["workflow_step_uuid"], claim)
        with refused("TK412"):
            engine.one("select tasker.report_validation(%s, %s, true)", one["workflow_step_uuid"], claim)
    assert engine.step_state(one["workflow_step_uuid"]) == engine.step_state(two["workflow_step_uuid"]) == "in_progress"
    engine.assert_consistent()


@pytest.mark.parametrize(
    "statement",
    [
        "select * from tasker.claim_steps(%s)",
        "select tasker.worker_heartbeat(%s)",
        "select tasker.shutdown_worker(%s)",
    ],
)
def test_a_worker_that_never_registered_is_nobody(engine: Engine, statement: str) -> None:
    task = engine.task(chain("a"))
    for forged in (uuid4(), task, UUID(int=0)):
        with refused("TK404"):
            engine.rows(statement, forged)
    assert engine.one("select count(*) from tasker.step_claims") == 0


def test_a_worker_that_never_registered_extends_and_holds_nothing(engine: Engine) -> None:
    assert engine.one("select tasker.extend_leases(%s)", uuid4()) == 0
    assert engine.rows("select tasker.held_claims(%s)", uuid4()) == []


def test_a_forged_processor_owns_nothing(engine: Engine) -> None:
    task = engine.task(chain("a"), start=False)
    owner = engine.processor()
    engine.move_task(task, "start", owner)
    for forged, code in ((uuid4(), "TK404"), (engine.processor(), "TK403")):
        with refused(code):
            engine.move_task(task, "ready_steps_found", forged)
    with refused("TK404"):
        engine.one("select tasker.processor_heartbeat(%s)", uuid4())
    assert engine.state(task) == "initializing"


# -- request ids


def test_an_answer_is_not_read_by_another_login(two: list[Engine], engine: Engine) -> None:
    one, other = two
    call = "select tasker.create_task_from_graph(%s, p_request_id => 'order-1')"
    graph = json.dumps({"name": "x", "steps": chain("a")})
    first = one.one(call, graph)
    second = other.one(call, graph)
    assert first != second
    assert (one.one(call, graph), other.one(call, graph)) == (first, second)
    # nor does it block: another request under an id that somebody else used is a request
    assert other.one("select tasker.register_worker('w', p_request_id => 'mine')")
    assert one.one("select tasker.create_task_from_graph(%s, p_request_id => 'mine')", graph)
    with refused("TK423") as refusal:
        one.one("select tasker.register_worker('w', p_request_id => 'order-1')")
    assert str(second) not in f"{refusal.message} {refusal.detail}"
    assert engine.one("select count(*) from tasker.idempotency_keys where request_id = 'order-1'") == 2


def test_another_login_does_not_wait_for_an_id_that_is_in_use(two: list[Engine]) -> None:
    one, other = two
    graph = json.dumps({"name": "x", "steps": chain("a")})
    call = "select tasker.create_task_from_graph(%s, p_request_id => 'order-1')"
    with one.conn.transaction():
        one.one("select tasker.ensure_namespace('default')")
        one.one(call, graph)
        other.run("set lock_timeout = '2s'")
        other.one("select tasker.register_worker('w', p_request_id => 'order-1')")


def test_set_role_is_no_other_login(engine: Engine, two: list[Engine]) -> None:
    one, _ = two
    graph = json.dumps({"name": "x", "steps": chain("a")})
    call = "select tasker.create_task_from_graph(%s, p_request_id => 'order-1')"
    first = one.one(call, graph)
    one.run("set role tasker_client")
    assert one.one(call, graph) == first


# -- evidence

EVIDENCE = [
    "task_transitions", "workflow_step_transitions", "worker_transitions", "circuit_breaker_transitions",
    "attached_transitions", "workflow_step_result_audit", "login_binding_changes",
]  # fmt: skip
ROLES = ["tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"]


def test_every_append_only_table_is_tried(engine: Engine) -> None:
    refusing = engine.values(
        "select c.relname from pg_trigger t join pg_class c on c.oid = t.tgrelid where t.tgname = 'refuse_delete'"
        " and c.relnamespace = 'tasker'::regnamespace"
    )
    assert set(EVIDENCE) <= set(refusing)


@pytest.mark.parametrize("role", [*ROLES, "tasker_owner", None])
def test_nobody_edits_evidence(engine: Engine, role: str | None) -> None:
    """42501 for those who may not write; TK409 for the owner and a superuser, whoever they are."""
    task = engine.task(DIAMOND)
    engine.finish(engine.worker())
    tables = engine.values(
        "select c.relname from pg_trigger t join pg_class c on c.oid = t.tgrelid where t.tgname = 'refuse_delete'"
        " and c.relnamespace = 'tasker'::regnamespace"
    )
    before = {
        table: engine.values(f"select md5(string_agg(t::text, '' order by t::text)) from tasker.{table} t")
        for table in tables
    }
    # truncate ... cascade never reaches the triggers of rows
    for table in tables:
        column = engine.one(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum = 1", f"tasker.{table}"
        )
        for statement in (
            f"delete from tasker.{table}",
            f"update tasker.{table} set {column} = {column}",
            f"truncate tasker.{table} cascade",
            f"with gone as (delete from tasker.{table} returning 1) select count(*) from gone",
            f"merge into tasker.{table} t using (select 1) as s on true when matched then delete",
        ):
            if role not in ROLES and "update" in statement and not engine.one(f"select count(*) from tasker.{table}"):
                continue  # a trigger for each row has nothing to refuse
            with engine.conn.transaction():
                if role:
                    engine.run(f"set local role {role}")
                with refused("42501" if role in ROLES else "TK409"), engine.conn.transaction():
                    engine.run(statement)
    assert before == {
        table: engine.values(f"select md5(string_agg(t::text, '' order by t::text)) from tasker.{table} t")
        for table in tables
    }
    assert engine.state(task) == "complete"


# -- notifications


def test_false_notifications_change_nothing(engine: Engine, login: Login) -> None:
    """A stranger may send what it likes: state moves by what stands in the tables."""
    task = engine.task(chain("a", "b"))
    worker = engine.worker()
    (held,) = engine.claim(worker)
    before = (
        engine.rows("select * from tasker.workflow_step_transitions"),
        engine.rows("select * from tasker.step_claims"),
    )
    with psycopg.connect(login(), autocommit=True) as stranger:
        for channel in ("tasker_work", "tasker_task_state", "tasker_step_state", "tasker_worker_state"):
            for payload in (
                "", "default", "not json [", "{}", "[1]", "null", "[" * 7999,
                json.dumps([{"kind": "step_taken_away", "worker_uuid": str(worker), "uuid": str(held["workflow_step_uuid"])}]),
                json.dumps([{"task_uuid": str(task), "to_state": "cancelled", "event": "cancel"}]),
            ):  # fmt: skip
                stranger.execute("select pg_notify(%s, %s)", (channel, payload))
    engine.orchestrate()
    engine.tick()
    assert before == (
        engine.rows("select * from tasker.workflow_step_transitions"),
        engine.rows("select * from tasker.step_claims"),
    )
    engine.complete(held)


def test_a_worker_takes_notifications_for_hints(
    engine: Engine, database: str, login: Login, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks the server what it still holds, keeps what it holds, and goes on listening whatever is sent."""
    caplog.set_level(logging.INFO)
    running, told = threading.Event(), threading.Event()
    worker = Worker(database, name="w", poll_interval=600.0)
    cancelled: list[bool] = []

    @worker.step("first")
    def first(ctx: Any) -> str:
        running.set()
        assert told.wait(30)
        cancelled.append(ctx.cancelled.is_set())
        return "kept"

    worker.step("second")(lambda ctx: "heard")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with Client(database) as client, psycopg.connect(login(), autocommit=True) as stranger:
            one = client.create_task_from_graph({"name": "x", "steps": [{"name": "first"}]})
            assert running.wait(30)
            row = engine.row(
                "select worker_uuid, workflow_step_uuid from tasker.workflow_steps where task_uuid = %s", one
            )
            for payload in (
                "not json", "[not json", "{", "[1, null, \"x\"]", "[" * 7999,
                json.dumps({"kind": "worker", "uuid": str(row["worker_uuid"]), "to_state": "shutdown"}),
                json.dumps([{"kind": "step_taken_away", "worker_uuid": str(row["worker_uuid"]), "uuid": str(row["workflow_step_uuid"])}]),
            ):  # fmt: skip
                stranger.execute("select pg_notify('tasker_worker_state', %s)", (payload,))
            told.set()
            assert client.wait(one, timeout=30).state == "complete"
            # nobody polls for ten minutes: it still listens
            two = client.create_task_from_graph({"name": "x", "steps": [{"name": "second"}]})
            assert client.wait(two, timeout=30).state == "complete"
    finally:
        told.set()
        worker.stop()
        thread.join(30)
    assert cancelled == [False]
    assert "listening ended" not in caplog.text
    engine.assert_consistent()
