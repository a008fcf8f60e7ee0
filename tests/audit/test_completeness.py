"""Nothing happens without a trace: state changes, results, commands, refusals, what is set up; and who did it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from pgtasker import migrate
from pgtasker.server import EmbeddedServer
from tests.audit.evidence import LOGS, live, triggers_off, verify
from tests.conftest import SERVERS, SETTINGS, TestServer
from tests.kernel.engine import Engine, Row, chain, refused

NOWHERE = "01890000-0000-7000-8000-000000000000"
TRANSITIONS = [log for log in LOGS if log not in ("rejection", "event", "binding")]


def origin(engine: Engine, log: str, uuid: UUID) -> Row:
    """The change that names a row, found as the reports find it."""
    table, key, _ = LOGS[log]
    return engine.row(
        f"select c.* from tasker.{table} t join tasker.changes c on c.recorded_xid = t.recorded_xid and t.{key} = any (c.transition_uuids)"
        f" where t.{key} = %s",
        uuid,
    )


# -- one row for everything


@pytest.fixture(scope="module")
def lived(shared_conn: psycopg.Connection[tuple[object, ...]]) -> Engine:
    """A database that lived; read only."""
    engine = Engine(shared_conn)
    live(engine)
    return engine


@pytest.mark.parametrize("log", TRANSITIONS)
def test_every_state_change_has_one_row_and_every_row_one_change(lived: Engine, log: str) -> None:
    table, key, _ = LOGS[log]
    entity = {"attached": "(attachment_uuid, entity_key)", "step": "workflow_step_uuid"}.get(log, f"{log}_uuid")
    # unbroken: each row begins where the one before ended, and the first one with the initial state
    broken = lived.rows(
        f"""
        select t.* from (select t.*, lag(to_state) over (partition by {entity} order by sort_key) as previous,
                                row_number() over (partition by {entity} order by sort_key) as place from tasker.{table} t) t
         where t.place <> t.sort_key or t.from_state is distinct from t.previous
        """
    )
    assert broken == []
    named = lived.values(f"select count(c.change_id) from tasker.{table} t left join tasker.changes c on t.{key} = any (c.transition_uuids) group by t.{key}")  # fmt: skip
    assert len(named) == lived.one(f"select count(*) from tasker.{table}") > 0
    assert set(named) == {1}


def test_every_result_has_one_audit_row_of_the_same_transaction(lived: Engine) -> None:
    rows = lived.rows(
        """
        select t.workflow_step_transition_uuid, count(a.*) as audits, bool_and(a.xmin = t.xmin) as same_transaction,
               bool_and(a.worker_uuid::text is not distinct from t.metadata ->> 'worker_uuid') as same_worker,
               bool_and(a.correlation_id = k.correlation_id) as same_correlation
          from tasker.workflow_step_transitions t
          join tasker.tasks k on k.task_uuid = t.task_uuid
          join tasker.lifecycle_transitions r on (r.lifecycle, r.from_state, r.event, r.to_state)
                                               = (t.lifecycle, t.from_state, t.event, t.to_state) and r.reports_result
          left join tasker.workflow_step_result_audit a on a.workflow_step_transition_uuid = t.workflow_step_transition_uuid
         group by 1
        """
    )
    assert len(rows) > 20
    assert {row["audits"] for row in rows} == {1}
    assert all(row["same_worker"] and row["same_correlation"] for row in rows)
    assert len(rows) == lived.one("select count(*) from tasker.workflow_step_result_audit")


def test_nothing_that_was_recorded_is_unaccounted_for(lived: Engine) -> None:
    assert verify(lived) == []
    assert lived.findings() == []


@pytest.mark.parametrize(
    ("entity", "command"),
    [
        ("task", "cancel_task"), ("task", "give_up_task"), ("task", "resolve_task"), ("task", "reset_task"),
        ("step", "cancel_step"), ("step", "retry_step"), ("step", "reset_step"), ("step", "resolve_step"),
    ],
)  # fmt: skip
def test_every_command_leaves_actor_reason_and_time(tenant: Engine, entity: str, command: str) -> None:
    if entity == "task":
        uuid = tenant.parked_task(
            {"reset_task": "error", "cancel_task": "steps_in_process"}.get(command, "blocked_by_failures")
        )
    else:
        uuid = tenant.parked_step({"cancel_step": "pending", "resolve_step": "error"}.get(command, "waiting_for_retry"))
    before = tenant.one("select clock_timestamp()")
    tenant.command(command, uuid)
    table, _, _ = LOGS[entity]
    key = "task_uuid" if entity == "task" else "workflow_step_uuid"
    (row,) = tenant.rows(f"select metadata, created_at from tasker.{table} where {key} = %s and metadata ->> 'manual' = 'true' and created_at > %s order by sort_key limit 1", uuid, before)  # fmt: skip
    assert (row["metadata"]["reason"], row["metadata"]["requested_by"]) == ("test", "somebody")


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_no_command_goes_without_a_reason_and_a_name(tenant: Engine, reason: str | None) -> None:
    task = tenant.task(chain("only"))
    for call in ("cancel_task(%s, %s, 'ada')", "cancel_task(%s, 'why', nullif(%s, 'x'))"):
        with refused("TK400"):
            tenant.one(f"select tasker.{call}", task, reason)


# -- refusals


def test_a_refused_command_leaves_a_row(engine: Engine, login: Callable[..., str]) -> None:
    task = engine.parked_task("cancelled")
    with psycopg.connect(login("tasker_operator"), autocommit=True, application_name="desk") as conn:
        operator = Engine(conn)
        answer = operator.row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
        name = operator.one("select session_user")
    assert (answer["state"], answer["code"]) == (None, "TK409")
    kept = engine.row("select * from tasker.rejected_transitions")
    assert (kept["entity_kind"], kept["entity_uuid"], kept["task_uuid"], kept["code"]) == ("task", task, task, "TK409")
    assert (kept["login"], kept["application_name"]) == (name, "desk")
    assert kept["message"] == answer["message"]
    assert {"command": "cancel_task", "reason": "why", "requested_by": "ada"}.items() <= kept["detail"].items()
    change = engine.row("select * from tasker.changes where log = 'rejection'")
    assert (change["login"], change["transition_uuids"]) == (name, [kept["rejected_transition_uuid"]])


def test_a_command_without_the_right_is_refused_and_leaves_a_row(engine: Engine, login: Callable[..., str]) -> None:
    task = engine.parked_task("blocked_by_failures")
    with psycopg.connect(login("tasker_client"), autocommit=True) as conn:
        answer = Engine(conn).row("select * from tasker.attempt_command('resolve_task', %s, 'why', 'ada')", str(task))
    assert answer["code"] == "42501"
    assert engine.state(task) == "blocked_by_failures"
    assert engine.one("select code from tasker.rejected_transitions") == "42501"


def test_an_attempt_that_is_not_refused_is_the_command(engine: Engine) -> None:
    task = engine.task(chain("only"))
    answer = engine.row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
    assert (answer["state"], answer["code"]) == ("cancelled", None)
    assert engine.state(task) == "cancelled"
    assert engine.rows("select * from tasker.rejected_transitions") == []


def test_a_role_attempts_what_it_may_do_and_no_more(engine: Engine, login: Callable[..., str]) -> None:
    task, worker = engine.task(chain("only")), engine.worker()
    with psycopg.connect(login("tasker_client"), autocommit=True) as conn:
        client = Engine(conn)
        denied = client.row("select * from tasker.attempt_command('pause_worker', %s, 'why', 'ada')", str(worker))
        answer = client.row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
    assert (denied["code"], answer["code"], answer["state"]) == ("42501", None, "cancelled")


@pytest.mark.parametrize("role", ["tasker_auditor", "tasker_monitor"])
def test_who_may_only_read_leaves_a_row_when_it_tries_more(
    engine: Engine, login: Callable[..., str], role: str
) -> None:
    task = engine.task(chain("only"))
    with psycopg.connect(login(role), autocommit=True) as conn:
        answer = Engine(conn).row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
    assert answer["code"] == "42501"
    assert engine.values("select code from tasker.rejected_transitions") == ["42501"]


def test_holds_and_bindings_are_attempted_as_well(engine: Engine, login: Callable[..., str]) -> None:
    task = engine.task(chain("only"))
    attempt = "select * from tasker.attempt_command(%s, %s, 'why', 'ada', p_arguments => %s)"
    assert engine.row(attempt, "hold_task", str(task), "{}")["state"] == "held"
    assert engine.row(attempt, "release_task", str(task), "{}")["state"] == "released"
    assert engine.row(attempt, "release_task", str(task), "{}")["state"] == "not held"
    assert engine.row(attempt, "bind_login", "public", '{"namespaces": ["shop"]}')["state"] == "bound"
    assert engine.one("select namespaces from tasker.login_bindings") == ["shop"]
    assert engine.row(attempt, "unbind_login", "public", "{}")["state"] == "unbound"
    with psycopg.connect(login("tasker_operator"), autocommit=True) as conn:
        assert Engine(conn).row(attempt, "bind_login", "public", '{"namespaces": null}')["code"] == "42501"
    assert engine.row(attempt, "hold_task", str(uuid4()), "{}")["code"] == "TK404"
    kept = engine.rows(
        "select code, entity_kind, detail ->> 'target' as target from tasker.rejected_transitions order by created_at"
    )
    assert [(row["code"], row["entity_kind"]) for row in kept] == [("42501", "command"), ("TK404", "task")]
    assert kept[0]["target"] == "public"


@pytest.mark.parametrize(
    ("command", "target", "arguments"),
    [
        ("cancel_task", None, "{}"), ("cancel_task", "the blue one", "{}"), ("cancel_task", NOWHERE, '{"force": true}'),
        ("cancel_task", NOWHERE, "[]"), ("cancel_task", NOWHERE, None), ("bind_login", "public", "{}"),
        ("bind_login", "public", '{"namespaces": "shop"}'), ("bind_login", "public", '{"namespaces": [["shop"]]}'),
    ],
)  # fmt: skip
def test_an_attempt_that_makes_no_sense_is_refused_and_leaves_a_row(
    engine: Engine, command: str, target: str | None, arguments: str | None
) -> None:
    answer = engine.row(
        "select * from tasker.attempt_command(%s, %s, 'why', 'ada', null, %s)", command, target, arguments
    )
    assert answer["code"] == "TK400" and answer["hint"]
    assert engine.one("select detail ->> 'target' from tasker.rejected_transitions") == target
    assert engine.rows("select * from tasker.login_bindings") == []


def test_a_step_is_resolved_with_a_result(engine: Engine) -> None:
    step = engine.parked_step("error")
    answer = engine.row("select * from tasker.attempt_command('resolve_step', %s, 'why', 'ada', null, %s)", str(step), '{"result": {"ok": 1}}')  # fmt: skip
    assert answer["code"] is None
    assert engine.one("select result from tasker.step_overview where workflow_step_uuid = %s", step) == {"ok": 1}


@pytest.mark.parametrize("command", [None, "drop_everything", "create_task"])
def test_there_is_no_other_command(engine: Engine, command: str | None) -> None:
    with refused("TK400"):
        engine.row("select * from tasker.attempt_command(%s, 'x', 'why', 'ada')", command)


def test_every_code_of_ours_counts_as_a_refusal(rules: Engine) -> None:
    body = rules.one("select prosrc from pg_proc where proname = 'attempt_command'")
    assert [
        code for code in rules.values("select code from tasker.error_catalogue") if f"sqlstate '{code}'" not in body
    ] == []


# -- who


def test_postgres_says_who_wrote_whatever_the_caller_claims(engine: Engine, login: Callable[..., str]) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    with psycopg.connect(login("tasker_client"), autocommit=True, application_name="shop") as conn:
        client = Engine(conn)
        client.run("set role tasker_client")
        task = client.one(
            "select tasker.create_task_from_graph(p_graph => %s, p_requested_by => 'the boss')",
            json.dumps({"name": "t", "steps": []}),
        )
        name, pid = client.one("select session_user"), conn.info.backend_pid
    row = engine.row("select * from tasker.task_transitions where task_uuid = %s order by sort_key limit 1", task)
    change = origin(engine, "task", row["task_transition_uuid"])
    assert (change["login"], change["acting_role"], change["application_name"]) == (name, "tasker_client", "shop")
    assert (change["backend_pid"], change["client_address"]) == (pid, None)
    assert change["recorded_at"] >= row["created_at"]
    assert row["metadata"]["requested_by"] == "the boss", "what is claimed is kept beside it"


@pytest.mark.parametrize("log", TRANSITIONS)
def test_rows_of_every_log_lead_to_their_session(lived: Engine, log: str) -> None:
    table, key, _ = LOGS[log]
    rows = lived.rows(
        f"select c.login, c.backend_pid from tasker.{table} t left join tasker.changes c"
        f" on c.recorded_xid = t.recorded_xid and t.{key} = any (c.transition_uuids)"
    )
    assert {(row["login"], row["backend_pid"]) for row in rows} == {("postgres", lived.conn.info.backend_pid)}


def test_attribution_does_not_change_afterwards(engine: Engine) -> None:
    engine.task(chain("only"))
    for statement in (
        "update tasker.task_transitions set recorded_xid = '4'",
        "update tasker.workflow_step_transitions set recorded_xid = '4'",
        "update tasker.changes set login = 'mallory'",
        "delete from tasker.changes",
        "truncate tasker.changes",
        "update tasker.audit_events set requested_by = 'mallory'",
        "truncate tasker.audit_events",
        "truncate tasker.rejected_transitions",
    ):
        with refused("TK409"):
            engine.run(statement)


# -- what is set up


def test_what_is_set_up_leaves_an_event(lived: Engine) -> None:
    events = {(row["event"], row["subject"]) for row in lived.rows("select event, subject from tasker.audit_events")}
    assert {
        ("circuit_breaker_added", "press"),
        ("attachment_added", "shop.orders"),
        ("vocabulary_added", "tasker"),
    } <= events
    assert ("schema_added", "sql_tree_checksum") in events
    assert {event for event, _ in events} >= {"namespace_added"}


@pytest.mark.parametrize(
    ("statement", "event", "subject"),
    [
        ("delete from tasker.legal_holds", "legal_hold_deleted", None),
        (
            "insert into tasker.login_bindings (login, namespaces) values ('public', null)",
            "login_binding_added",
            "public",
        ),
        ("update tasker.test_clock set shift = '1 hour'", "test_clock_changed", "true"),
        ("delete from tasker.tools", "tool_deleted", "press"),
        ("delete from tasker.retention_policies", "retention_policy_deleted", "p"),
        ("delete from tasker.named_tasks where false or name = 'order'", "template_deleted", "shop/order/1"),
    ],
)
def test_what_an_owner_does_by_hand_leaves_an_event(
    engine: Engine, statement: str, event: str, subject: str | None
) -> None:
    task = engine.task(chain("only"))
    engine.run("select tasker.hold_task(%s, 'case 7', 'ada')", task)
    engine.run("select tasker.configure_tool('press', '1 minute')")
    engine.run("select tasker.set_retention_policy('p', '1 day', '1 year', 'Records 4.2')")
    engine.run(
        "select tasker.register_template(%s)", '{"namespace": "shop", "name": "order", "version": "1", "steps": []}'
    )
    engine.shift_clock("0 s")
    engine.run(statement)
    (found,) = engine.rows("select * from tasker.audit_events where event = %s", event)
    assert (found["subject"] or "") == (str(task) if subject is None else subject)
    change = engine.row("select * from tasker.changes where %s = any (transition_uuids)", found["audit_event_uuid"])
    assert change["login"] == engine.one("select session_user")


def test_counters_are_no_event_and_settings_are(engine: Engine) -> None:
    engine.run("select tasker.configure_breaker('tool')")
    engine.run("select tasker.record_breaker_result('tool', false)")
    assert engine.values("select event from tasker.audit_events where subject = 'tool'") == ["circuit_breaker_added"]
    engine.run("select tasker.configure_breaker('tool', 9)")
    changed = engine.one("select detail from tasker.audit_events where event = 'circuit_breaker_changed'")
    assert (changed["old"]["failure_threshold"], changed["new"]["failure_threshold"]) == (5, 9)
    assert engine.rows("select tasker.changes_after()"), "the feed goes on, without them"
    assert not [row for row in engine.rows("select * from tasker.changes_after()") if row["change"]["log"] == "event"]


def test_a_template_leaves_an_event_when_it_is_new(engine: Engine) -> None:
    template = json.dumps({"namespace": "shop", "name": "order", "version": "1", "steps": [{"name": "only"}]})
    for _ in range(2):
        engine.run("select tasker.register_template(%s)", template)
    assert engine.values("select subject from tasker.audit_events where event = 'template_added'") == ["shop/order/1"]


def test_a_refusal_that_somebody_makes_up_carries_the_own_login(engine: Engine, login: Callable[..., str]) -> None:
    with psycopg.connect(login("tasker_worker"), autocommit=True) as conn:
        Engine(conn).run("select tasker.record_refusal('cancel_task', %s, 'TK409', 'made up')", uuid4())
        name = Engine(conn).one("select session_user")
    assert engine.one("select login from tasker.rejected_transitions") == name


@pytest.fixture
def tcp_server(server: TestServer, server_folder: Path) -> Iterator[EmbeddedServer]:
    """A server that listens on this machine's own address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with EmbeddedServer(
        server_folder / f"{server.name}-tcp", bin_dir=SERVERS[server.name], settings=SETTINGS, port=port
    ) as tcp:
        yield tcp


def test_the_address_of_a_session_stands_beside_what_it_did(tcp_server: EmbeddedServer) -> None:
    """Over TCP: in changes, refusals, bindings and reports; it is sealed with them."""
    dsn = tcp_server.tcp_uri()
    migrate.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn, psycopg.connect(tcp_server.uri(), autocommit=True) as local:
        engine, beside = Engine(conn), Engine(local)
        here = engine.one("select inet_client_addr()")
        assert str(here) == "127.0.0.1"
        task, other = engine.task(chain("only")), beside.task(chain("only"))
        engine.run("select tasker.cancel_task(%s, 'why', 'ada')", task)
        beside.run("select tasker.cancel_task(%s, 'why', 'ada')", other)
        engine.row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
        engine.run("select tasker.bind_login('public', null, 'why', 'ada')")
        period = "'-infinity', 'infinity'"
        addresses = {
            row["task_uuid"]: row["client_address"]
            for row in engine.rows(f"select * from tasker.report_interventions({period})")
            if row["log"] == "task"
        }
        assert addresses == {task: here, other: None}
        assert engine.values("select client_address from tasker.rejected_transitions") == [here]
        assert engine.values("select client_address from tasker.login_binding_changes") == [here]
        told = engine.rows(f"select client_address from tasker.report_failures({period}) where log = 'rejection'")
        assert [row["client_address"] for row in told] == [here]
        engine.run("select tasker.unbind_login('public', 'why', 'ada')")
        engine.row("select * from tasker.seal_audit()")
        assert verify(engine) == []
        for table in ("changes", "rejected_transitions", "login_binding_changes"):
            with conn.transaction(force_rollback=True), triggers_off(engine, table):
                engine.run(f"update tasker.{table} set client_address = '10.0.0.1' where client_address is not null")
                assert verify(engine) != []
