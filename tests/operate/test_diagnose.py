"""diagnose finds what is broken, and what it proposes mends it: everything is broken for real and mended as told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgtasker import migrate
from tests.conftest import TestServer
from tests.workflow.engine import Engine, Row, graph, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

NEVER = "100 years"
LOG = "tasker.workflow_step_transitions"


def diagnose(engine: Engine, after: str = "10 minutes", seal_after: str = NEVER) -> list[Row]:
    rows = engine.rows("select * from tasker.diagnose(%s::interval, %s::interval)", after, seal_after)
    for row in rows:
        assert row["severity"] in ("error", "warning", "notice")
        assert all(row[name] for name in ("topic", "finding", "subject", "actual", "mend")), row
    severities = [row["severity"] for row in rows]
    assert severities == sorted(severities, key=["error", "warning", "notice"].index)
    return rows


def apply(engine: Engine, mend: str) -> None:
    """Do as told: one command of the program, or statements one after another."""
    if mend == "pgtasker migrate --again":
        info = engine.connection.info
        migrate.upgrade(f"host={info.host} port={info.port} user={info.user} dbname={info.dbname}", again=True)
        return
    for statement in mend.replace("'...'", "'as told'").split(";"):
        engine.rows(statement)


@pytest.fixture
def healthy(engine: Engine) -> set[tuple[str, str]]:
    """What is said of the test server itself, which may lose everything: no flush, no vacuum."""
    found = {(row["finding"], row["subject"]) for row in diagnose(engine)}
    assert {finding for finding, _ in found} <= {"autovacuum_that_is_off", "commits_that_a_crash_may_lose"}
    return found


def breaks_and_mends(engine: Engine, healthy: set[tuple[str, str]], damage: str, finding: str, **limits: str) -> None:
    engine.rows(damage)
    found = [row for row in diagnose(engine, **limits) if (row["finding"], row["subject"]) not in healthy]
    assert finding in {row["finding"] for row in found}
    for _ in range(2 * len(found)):  # one after another, the first one first: a mend may take others along
        if not found:
            break
        apply(engine, found[0]["mend"])
        found = [row for row in diagnose(engine, **limits) if (row["finding"], row["subject"]) not in healthy]
    assert found == []


SCHEMA = [
    ("object_that_was_changed", "create or replace function tasker.clock() returns timestamptz language sql set search_path = pg_catalog, pg_temp as 'select now()'"),
    ("object_that_is_missing", "drop function tasker.explain_task(uuid)"),
    ("object_that_is_missing", "drop view tasker.timeline"),
    ("object_that_is_missing", "drop trigger refuse_update on tasker.task_transitions"),
    ("trigger_that_is_switched_off", "alter table tasker.task_transitions disable trigger refuse_update"),
    ("object_that_is_missing", "drop index tasker.tasks_correlation_id_idx"),
    ("object_that_was_changed", "drop index tasker.tasks_correlation_id_idx; create index tasks_correlation_id_idx on tasker.tasks (created_at)"),
    ("object_that_is_missing", "alter table tasker.task_transitions drop constraint only_the_first_row_has_no_from_state"),
    ("object_that_was_changed", "alter table tasker.changes drop constraint changes_log_check; alter table tasker.changes add constraint changes_log_check check (log <> '')"),
    ("object_that_was_changed", "alter table tasker.work_signals set unlogged"),
    ("object_that_was_changed", "alter table tasker.tasks disable row level security"),
    ("object_that_is_missing", "drop policy {policy} on tasker.tasks"),
    ("right_that_is_missing", "revoke all on all tables in schema tasker from tasker_auditor"),
    ("right_that_no_file_gives", "grant select on tasker.sensitive_values, tasker.timeline to tasker_monitor"),
    ("right_that_no_file_gives", "grant update (context, tags) on tasker.tasks to tasker_client"),
    ("right_that_no_file_gives", "grant execute on function tasker.reveal(uuid, text, jsonb) to public"),
    ("right_that_may_be_handed_on", "grant select on tasker.timeline to tasker_client with grant option"),
    ("object_of_somebody_else", "alter function tasker.clock() owner to postgres"),
    ("object_of_somebody_else", "alter table tasker.timers owner to postgres"),
    ("object_that_is_not_ours", "create function tasker.mine(int) returns int language sql set search_path = pg_catalog, pg_temp return $1"),
    ("object_that_is_not_ours", "create view tasker.mine as select 1 as x"),
    ("object_that_is_not_ours", "create table tasker.mine (x int)"),
    ("object_that_is_not_ours", "alter table tasker.tasks add column mine int"),
    ("object_that_is_not_ours", "create index mine on tasker.tasks (name)"),
    ("object_that_is_not_ours", "alter table tasker.tasks add constraint mine check (priority > -1000)"),
    ("object_that_is_not_ours", "create policy mine on tasker.tasks using (true)"),
    ("object_that_is_not_ours", "create trigger mine before insert on tasker.tasks for each row execute function suppress_redundant_updates_trigger()"),
    ("rule_that_is_not_ours", "create rule mine as on delete to tasker.tasks do instead nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "damage"), SCHEMA)
def test_schema(engine: Engine, healthy: set[tuple[str, str]], finding: str, damage: str) -> None:
    policy = engine.one("select polname from pg_policy where polrelid = 'tasker.tasks'::regclass limit 1")
    before = engine.rows("select * from tasker.object_digests() order by 1")
    breaks_and_mends(engine, healthy, damage.format(policy=policy), finding)
    assert engine.rows("select * from tasker.object_digests() order by 1") == before


def test_what_somebody_added_does_not_become_ours_by_a_migration(engine: Engine) -> None:
    engine.rows("create role somebody_else")
    try:
        engine.rows("create index mine on tasker.tasks (name); grant select on tasker.timeline to somebody_else")
        apply(engine, "pgtasker migrate --again")
        found = {(row["finding"], row["subject"]) for row in diagnose(engine) if row["topic"] == "schema"}
        assert found == {
            ("object_that_is_not_ours", "index tasker.mine"),
            ("right_that_no_file_gives", "somebody_else"),
        }
    finally:
        engine.rows("drop owned by somebody_else")
        engine.rows("drop role somebody_else")


def test_what_is_gone_is_told_with_what_should_be_there(engine: Engine) -> None:
    engine.rows("drop index tasker.tasks_correlation_id_idx")
    engine.rows("alter table tasker.tasks drop column tags cascade")
    found = {row["subject"]: row for row in diagnose(engine) if row["finding"] == "object_that_is_missing"}
    assert found["index tasker.tasks_correlation_id_idx"]["expected"].startswith(
        "CREATE INDEX tasks_correlation_id_idx"
    )
    assert found["column tasker.tasks.tags"]["expected"].startswith("jsonb not null")
    assert "backup" in found["column tasker.tasks.tags"]["mend"]


def under_way(engine: Engine) -> None:
    """A task of which something is queued, running, reported, waiting for a retry and not ready yet."""
    engine.worker(p_heartbeat_interval="1 hour")
    waits = {"base_delay": 1000, "jitter": 0}
    engine.create(
        graph(step("runs"), step("reported"), step("waits", retry=waits), step("queued"), step("child", "runs"))
    )
    claims = engine.claim_by_name(limit=3)
    engine.fail([claims["waits"]])
    engine.orchestrate()
    engine.complete([claims["reported"]])


WORK = [
    ("queued_without_message", "select pgmq.purge_queue('worker_default_queue')"),
    ("reported_without_message", "select pgmq.purge_queue('orchestration_step_results')"),
    ("running_without_claim", "delete from tasker.step_claims"),
    ("waiting_for_retry_without_timer", "delete from tasker.timers"),
    ("progress_counters_differ", "update tasker.tasks set pending_steps = 0, satisfied_steps = 1"),
    ("unmet_dependencies_differ", "update tasker.workflow_steps set unmet_dependencies = 5 where name = 'child'"),
    ("claimed_but_not_running", "update tasker.workflow_steps set claim_uuid = tasker.uuid_generate_v7() where name = 'child'"),
    ("claim_counts_differ", "update tasker.step_claims set open_steps = 2"),
    ("clock_that_is_shifted", "insert into tasker.test_clock (shift) values ('-1 minute')"),
    ("leases_overdue", "update tasker.step_claims set lease_expires_at = clock_timestamp() - interval '5 minutes'"),
    ("timers_overdue", "update tasker.timers set due_at = clock_timestamp() - interval '5 minutes' where kind = 'step_retry'"),
    ("results_that_nobody_settles", "update pgmq.q_orchestration_step_results set enqueued_at = clock_timestamp() - interval '5 minutes'"),
    ("queue_that_is_missing", "select pgmq.drop_queue('worker_default_queue')"),
    ("queue_that_is_missing", "select pgmq.drop_queue('orchestration_step_results')"),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "damage"), WORK)
def test_work(engine: Engine, healthy: set[tuple[str, str]], finding: str, damage: str) -> None:
    under_way(engine)
    assert {(row["finding"], row["subject"]) for row in diagnose(engine)} <= healthy
    if finding == "timers_overdue":
        kind = engine.one("select kind from tasker.timers where workflow_step_uuid is not null limit 1")
        damage = damage.replace("step_retry", kind)
    breaks_and_mends(engine, healthy, damage, finding)
    engine.shift_clock("2 hours")
    engine.drain()
    assert engine.column("select state from tasker.task_overview") == ["complete"]
    engine.check()


def test_a_task_that_ended_without_the_time_of_it(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    engine.create(graph(step("a")))
    engine.drain()
    at = engine.one("select completed_at from tasker.tasks")
    breaks_and_mends(engine, healthy, "update tasker.tasks set completed_at = null", "completion_time_differs")
    assert engine.one("select abs(extract(epoch from completed_at - %s)) < 1 from tasker.tasks", at)


def test_a_task_that_is_stuck_gets_the_call_that_moves_it(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    task = engine.create(graph(step("a", max_attempts=1), step("b", "a")))
    engine.fail(engine.claim())
    engine.settle()
    assert {(row["finding"], row["subject"]) for row in diagnose(engine)} <= healthy, "it may wait for a while"
    (found,) = [row for row in diagnose(engine, after="0 s") if row["finding"] == "task_that_does_not_move"]
    assert found["subject"] == f"task {task}"
    assert "blocked" in found["actual"]
    apply(engine, found["mend"])
    engine.drain()
    assert engine.state(task) == "complete"
    assert not [row for row in diagnose(engine, after="0 s") if row["topic"] == "work"]


def test_answers_that_nobody_purges(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    task = engine.create(graph(step("a")))
    engine.call("cancel_task", p_task_uuid=task, p_request_id="r1", p_reason="a test", p_requested_by="ada")
    breaks_and_mends(
        engine, healthy, "update tasker.idempotency_keys set expires_at = clock_timestamp() - interval '2 days'",
        "answers_past_their_time",
    )  # fmt: skip


def test_evidence_without_a_seal(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    severity = {}
    for turn in ("never", "later"):
        engine.create(graph(step("a")))
        (found,) = [row for row in diagnose(engine, seal_after="0 s") if row["finding"] == "evidence_not_sealed"]
        severity[turn] = found["severity"]
        apply(engine, found["mend"])
        assert {(row["finding"], row["subject"]) for row in diagnose(engine, seal_after="0 s")} <= healthy
    assert severity == {"never": "notice", "later": "warning"}


# -- the server ------------------------------------------------------------------------------------------------------


def test_a_transaction_that_was_forgotten(
    engine: Engine, open_engine: OpenEngine, healthy: set[tuple[str, str]]
) -> None:
    reader, writer = open_engine(autocommit=False), open_engine(autocommit=False)
    reader.rows("set transaction isolation level repeatable read")
    reader.rows("select 1 from tasker.tasks")
    writer.rows("create temporary table t (x int)")
    found = [row for row in diagnose(engine, after="0 s") if row["finding"] == "transaction_that_holds_vacuum_back"]
    assert {row["subject"].split()[1] for row in found} == {str(reader.pid), str(writer.pid)}
    assert {(row["finding"], row["subject"]) for row in diagnose(engine)} <= healthy, "not for so long yet"
    for row in found:
        apply(engine, row["mend"])
    for other in (reader, writer):
        with pytest.raises(psycopg.OperationalError):
            other.one("select 1")
    assert {(row["finding"], row["subject"]) for row in diagnose(engine, after="0 s")} <= healthy


@pytest.mark.parametrize(
    ("finding", "damage"),
    [
        ("replication_slot_that_holds_vacuum_back", "select pg_create_physical_replication_slot('forgotten', true)"),
        ("autovacuum_that_is_off", "alter table tasker.timers set (autovacuum_enabled = off)"),
        ("autovacuum_that_comes_late", "update pg_class set reltuples = 1e9 where oid = 'tasker.tasks'::regclass"),
    ],
)
def test_settings_of_tables_and_slots(engine: Engine, healthy: set[tuple[str, str]], finding: str, damage: str) -> None:
    breaks_and_mends(engine, healthy, damage, finding)


def test_a_prepared_transaction_that_was_forgotten(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    engine.begin()
    engine.rows("create table public.t (x int)")
    engine.rows("prepare transaction 'it''s forgotten'")
    assert {(row["finding"], row["subject"]) for row in diagnose(engine)} <= healthy
    (found,) = [row for row in diagnose(engine, after="0 s") if row["finding"].startswith("prepared_")]
    apply(engine, found["mend"])
    assert {(row["finding"], row["subject"]) for row in diagnose(engine, after="0 s")} <= healthy


@pytest.fixture
def settings_kept(engine: Engine) -> Iterator[None]:
    yield
    engine.rows("alter system reset all")
    engine.rows("select pg_reload_conf()")


def test_settings_of_the_server(engine: Engine, settings_kept: None) -> None:
    """The test server runs without vacuum and without flushes: all of it is said, and can be switched on as told."""
    found = [row for row in diagnose(engine) if row["subject"] in ("autovacuum", "fsync", "full_page_writes")]
    assert {(row["subject"], row["severity"], row["actual"]) for row in found} == {
        ("autovacuum", "error", "off"), ("fsync", "error", "off"), ("full_page_writes", "error", "off"),
    }  # fmt: skip
    for row in found:
        apply(engine, row["mend"])
    wait_until(lambda: {row["severity"] for row in diagnose(engine)} <= {"notice"}, "the new settings in force")


def test_dead_rows_and_empty_space(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    engine.call("ensure_namespace", p_namespace="default")
    queue = engine.one("select 'pgmq.q_' || queue_name from tasker.task_namespaces where namespace = 'default'")
    engine.rows(
        f"insert into {queue} (vt, message) select clock_timestamp(), jsonb_build_object('x', repeat('long', 400))"
        " from generate_series(1, 30000)"
    )
    engine.rows(f"delete from {queue} where msg_id < (select max(msg_id) from {queue})")
    engine.rows("select pg_stat_force_next_flush()")
    engine.rows("select 1")
    (dead,) = [row for row in diagnose(engine) if row["finding"] == "table_with_dead_rows"]
    assert dead["subject"] == queue
    apply(engine, dead["mend"])
    # what was dead is space now, and one live row at its end keeps it
    (empty,) = [row for row in diagnose(engine) if (row["finding"], row["subject"]) not in healthy]
    assert (empty["finding"], empty["subject"]) == ("table_that_is_mostly_space", queue)
    apply(engine, empty["mend"])
    assert {(row["finding"], row["subject"]) for row in diagnose(engine)} <= healthy


def test_a_role_that_is_missing(engine: Engine, healthy: set[tuple[str, str]]) -> None:
    """Roles belong to the server, so the other databases' one is put aside for as long as this takes."""
    engine.rows("alter role tasker_monitor rename to tasker_monitor_aside")
    try:
        found = diagnose(engine)
        assert ("role_that_is_missing", "tasker_monitor") in {(row["finding"], row["subject"]) for row in found}
        (mend,) = {row["mend"] for row in found if row["subject"] == "tasker_monitor"}
        apply(engine, mend)
        left = {(row["finding"], row["subject"]) for row in diagnose(engine)} - healthy
        assert left == {("right_that_no_file_gives", "tasker_monitor_aside")}
    finally:
        engine.rows("drop owned by tasker_monitor")
        engine.rows("drop role tasker_monitor")
        engine.rows("alter role tasker_monitor_aside rename to tasker_monitor")


def test_functions_of_pgmq_that_are_missing(engine: Engine) -> None:
    engine.rows("alter function pgmq.send_batch(text, jsonb[]) rename to sent_batch")
    engine.rows("do $$ declare f regprocedure; begin for f in select oid from pg_proc where proname = 'send_batch' loop"
                " execute format('alter function %s rename to sent_batch', f); end loop; end $$")  # fmt: skip
    assert ("pgmq_without_a_function", "pgmq.send_batch") in {
        (row["finding"], row["subject"]) for row in diagnose(engine)
    }


@on_one_server
def test_an_extension_that_was_updated(bare_server: TestServer, empty_database: str, server_folder: Path) -> None:
    """Where pgmq is an extension, its own update is told and taken note of."""
    if bare_server.version < 18:
        pytest.skip("extension_control_path, to show the server a stand-in extension, came with PostgreSQL 18")
    extension = server_folder / "updated" / "extension"
    extension.mkdir(parents=True)
    (extension / "pgmq.control").write_text("default_version = '1.98.0'\nschema = pgmq\nrelocatable = false\n")
    (extension / "pgmq--1.98.0.sql").write_text(migrate._bundled_pgmq()[0])
    (extension / "pgmq--1.98.0--1.99.0.sql").write_text("select;\n")
    for path in (extension.parent, extension, *extension.iterdir()):
        path.chmod(0o755)
    dbname = conninfo_to_dict(empty_database)["dbname"]
    bare_server.admin.execute(
        f"alter database \"{dbname}\" set extension_control_path = '{extension.parent}:$system'".encode()
    )
    try:
        migrate.upgrade(empty_database)
        with psycopg.connect(empty_database, autocommit=True) as conn:
            engine = Engine(conn)
            assert "pgmq_of_another_version" not in {row["finding"] for row in diagnose(engine)}
            engine.rows("alter extension pgmq update to '1.99.0'")
            (found,) = [row for row in diagnose(engine) if row["finding"] == "pgmq_of_another_version"]
            assert (found["expected"], found["actual"]) == ("1.98.0", "1.99.0")
            apply(engine, found["mend"])
            assert "pgmq_of_another_version" not in {row["finding"] for row in diagnose(engine)}
    finally:
        shutil.rmtree(extension.parent)


def test_an_operator_diagnoses_and_is_told_what_is_hidden(
    engine: Engine, login: Callable[..., str], open_engine: OpenEngine
) -> None:
    open_engine()
    with psycopg.connect(login("tasker_operator"), autocommit=True) as conn:
        operator = Engine(conn)
        (hidden,) = [row for row in diagnose(operator) if row["finding"] == "sessions_that_are_hidden"]
        apply(engine, hidden["mend"])
        assert "sessions_that_are_hidden" not in {row["finding"] for row in diagnose(operator)}


# -- what it costs ---------------------------------------------------------------------------------------------------


def test_what_has_ended_is_not_read(engine: Engine) -> None:
    """Counted by the server: rows of the logs that were read, with 60 tasks that have ended and one that has not."""
    for _ in range(60):
        engine.create(graph(*(step(f"s{n}") for n in range(20))))
    engine.drain()
    engine.create(graph(step("a"), step("b", "a")))
    engine.rows("analyze")

    def read() -> dict[str, int]:
        rows = engine.rows(
            "select relname, (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where schemaname = 'tasker'"
        )
        return {row["relname"]: row["rows"] for row in rows}

    before = read()
    assert engine.rows("select * from tasker.diagnose_work()") == []
    rows = {name: count - before.get(name, 0) for name, count in read().items()}
    logs = (
        "task_transitions",
        "workflow_step_transitions",
        "workflow_step_result_audit",
        "workflow_step_edges",
        "workflow_steps",
    )
    assert max(rows[name] for name in logs) < 100, rows
