"""Seals: what they cover, that they miss no late commit, and that whatever is tampered with afterwards is named."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.audit.evidence import LOGS, live, seal, triggers_off, verify, work
from tests.conftest import TEMPLATE, Connect, TestServer, fresh_database
from tests.kernel.engine import Engine, chain, refused

ODD_SETTINGS = {
    "TimeZone": "Asia/Kathmandu",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
}


def named(engine: Engine) -> list[tuple[str, str, UUID | None]]:
    return [(row["finding"], row["log"], row["row_uuid"]) for row in verify(engine)]


@pytest.fixture(scope="module")
def sealed_template(server: TestServer) -> Iterator[str]:
    """Name of a database that lived, sealed in several seals."""
    with fresh_database(server, TEMPLATE) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            engine = Engine(conn)
            live(engine)
            assert len(seal(engine, limit=40)) > 3
            assert verify(engine) == []
        yield str(conninfo_to_dict(dsn)["dbname"])


@pytest.fixture
def sealed(server: TestServer, sealed_template: str) -> Iterator[Engine]:
    """A copy of it."""
    with fresh_database(server, sealed_template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        yield Engine(conn)


# -- what is sealed


def test_every_row_of_evidence_is_sealed(sealed: Engine) -> None:
    rows = sum(sealed.one(f"select count(*) from tasker.{table}") for table, *_ in LOGS.values())
    assert all(sealed.one(f"select count(*) from tasker.{table}") for table, *_ in LOGS.values())
    last = sealed.row("select * from tasker.audit_seals order by seal_number desc limit 1")
    assert last["total_rows"] == rows
    assert sealed.one("select count(*) from tasker.changes c where not exists (select from tasker.audit_seals s where s.change_ids @> c.change_id)") == 0  # fmt: skip
    assert sealed.rows("select * from tasker.unaccounted_rows()") == []
    assert seal(sealed) == [], "nothing new, no new seal"


def test_the_digest_can_be_computed_without_us(sealed: Engine) -> None:
    """The format of docs/audit.md, from the rows as a client reads them, with Python's json and hashlib alone."""
    previous = bytes(32)
    for number in sealed.values("select seal_number from tasker.audit_seals order by seal_number"):
        row = sealed.row(
            "select *, (extract(epoch from sealed_at) * 1000000)::bigint as sealed_us, change_ids::text as ids,"
            " recorded_xid::text as xid from tasker.audit_seals where seal_number = %s",
            number,
        )
        header = [
            row["format"], row["seal_number"], row["ids"], row["row_count"], row["total_rows"], row["next_change_id"],
            row["settled_below"], row["sealed_us"], row["login"], row["xid"],
        ]  # fmt: skip
        text = json.dumps(header, separators=(", ", ", "), ensure_ascii=False)
        previous = hashlib.sha256(text.encode() + previous + b"".join(row["leaves"])).digest()
        assert previous == row["digest"]


def test_a_leaf_is_the_hash_of_the_row(sealed: Engine) -> None:
    task = sealed.row(
        "select t.*, (extract(epoch from created_at) * 1000000)::bigint as us, metadata::text as plain, recorded_xid::text as xid"
        " from tasker.task_transitions t where metadata <> '{}' limit 1"
    )
    content = '["v1", ' + ", ".join(
        "null" if value is None else str(value) if isinstance(value, int) or plain else json.dumps(str(value))
        for value, plain in [
            ("task", False), (task["task_transition_uuid"], False), (task["task_uuid"], False), (task["namespace"], False),
            (task["lifecycle"], False), (task["to_state"], False), (task["from_state"], False), (task["event"], False),
            (task["processor_uuid"], False), (task["plain"], True), (task["sort_key"], False), (task["us"], False),
            (task["xid"], False),
        ]
    ) + "]"  # fmt: skip
    assert sealed.one(
        "select exists (select from tasker.audit_seals s where %s = any (s.leaves))",
        hashlib.sha256(content.encode()).digest(),
    )


def test_no_setting_of_a_session_changes_a_digest(sealed: Engine) -> None:
    work(sealed)
    for name, value in ODD_SETTINGS.items():
        sealed.conn.execute("select set_config(%s, %s, false)", [name, value])
    assert verify(sealed) == []
    assert len(seal(sealed)) == 1
    for name in ODD_SETTINGS:
        sealed.conn.execute(sql.SQL("reset {}").format(sql.Identifier(name)))
    assert verify(sealed) == []


# -- what is tampered with is named


@pytest.mark.parametrize("log", LOGS)
def test_a_changed_row_is_named(sealed: Engine, log: str) -> None:
    table, key, column = LOGS[log]
    row = sealed.one(f"select {key} from tasker.{table} order by {key} offset 1 limit 1")
    with refused("TK409"):
        sealed.run(f"update tasker.{table} set {column} = 'forged' where {key} = %s", row)
    with triggers_off(sealed, table):
        sealed.run(f"update tasker.{table} set {column} = 'forged' where {key} = %s", row)
    assert named(sealed) == [("row_changed", log, row)]


@pytest.mark.parametrize("column", ["created_at", "recorded_xid", "metadata", "sort_key"])
def test_every_column_of_a_row_counts(sealed: Engine, column: str) -> None:
    value = {
        "created_at": "created_at + interval '1 microsecond'",
        "recorded_xid": "'4'::xid8",
        "metadata": "coalesce(metadata, '{}') || '{\"result\": 2}'",
        "sort_key": "sort_key + 100000",
    }[column]
    row = sealed.one(
        "select workflow_step_transition_uuid from tasker.workflow_step_transitions order by 1 desc limit 1"
    )
    with triggers_off(sealed, "workflow_step_transitions"):
        sealed.run(f"update tasker.workflow_step_transitions set {column} = {value} where workflow_step_transition_uuid = %s", row)  # fmt: skip
    assert ("row_changed", "step", row) in named(sealed)


@pytest.mark.parametrize("log", LOGS)
def test_a_removed_row_is_named(sealed: Engine, log: str) -> None:
    table, key, _ = LOGS[log]
    # the newest, so that no successor is left behind
    row = sealed.one(f"select {key} from tasker.{table} order by {key} desc limit 1")
    with refused("TK409"):
        sealed.run(f"delete from tasker.{table} where {key} = %s", row)
    with refused("TK409", "0A000"):  # the audit refers to steps' rows
        sealed.run(f"truncate tasker.{table}")
    with triggers_off(sealed, table):
        sealed.run(f"delete from tasker.{table} where {key} = %s", row)
    assert ("row_missing", log, row) in named(sealed)


@pytest.mark.parametrize("log", LOGS)
def test_a_row_slipped_in_is_named(sealed: Engine, log: str) -> None:
    """By somebody who switches off what records the writing, here with session_replication_role."""
    table, key, _column = LOGS[log]
    columns = ", ".join(
        sealed.values(
            "select quote_ident(attname) from pg_attribute where attrelid = ('tasker.' || %s)::regclass and attnum > 0"
            " and not attisdropped and attname not in (%s, 'sort_key', 'most_recent')",
            table,
            key,
        )
    )
    more, values, which = "", "", ""
    if log not in ("rejection", "event", "binding"):
        more, values, which = ", sort_key, most_recent", ", sort_key + 1000, false", "where sort_key > 1"
    new = uuid4()
    with triggers_off(sealed, table):
        sealed.run("set session_replication_role = replica")
        sealed.run(
            f"insert into tasker.{table} ({key}, {columns}{more}) select %s, {columns}{values} from tasker.{table} {which} limit 1",
            new,
        )
        sealed.run("reset session_replication_role")
    assert ("row_inserted", log, new) in named(sealed)
    seal(sealed)
    assert ("row_inserted", log, new) in named(sealed), "a later seal does not launder it"


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("update tasker.workflow_step_result_audit set success = not success where workflow_step_transition_uuid = %s", "audit_row_changed"),
        ("update tasker.workflow_step_result_audit set worker_uuid = null where workflow_step_transition_uuid = %s", "audit_row_changed"),
        ("delete from tasker.workflow_step_result_audit where workflow_step_transition_uuid = %s", "audit_row_missing"),
    ],
)  # fmt: skip
def test_a_tampered_audit_row_is_named(sealed: Engine, statement: str, finding: str) -> None:
    row = sealed.one("select workflow_step_transition_uuid from tasker.workflow_step_result_audit limit 1")
    with triggers_off(sealed, "workflow_step_result_audit"):
        sealed.run(statement, row)
    assert named(sealed) == [(finding, "step", row)]


def test_a_made_up_audit_row_is_named(sealed: Engine) -> None:
    """A table owner may insert one without switching anything off; calling it backfilled does not hide it."""
    row = sealed.one(
        "insert into tasker.workflow_step_result_audit"
        " (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, success, is_backfilled)"
        " select workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, true, true"
        " from tasker.workflow_step_transitions where event = 'cancel' limit 1 returning workflow_step_transition_uuid"
    )
    assert named(sealed) == [("audit_row_inserted", "step", row)]
    assert [finding["finding"] for finding in sealed.findings()] == ["audit_without_result"]


def test_a_tampered_record_of_the_writing_is_named(sealed: Engine) -> None:
    change = sealed.one("select change_id from tasker.changes where log = 'task' order by 1 offset 5 limit 1")
    with refused("TK409"):
        sealed.run("update tasker.changes set login = 'mallory' where change_id = %s", change)
    with triggers_off(sealed, "changes"):
        sealed.run("update tasker.changes set login = 'mallory' where change_id = %s", change)
    (finding,) = verify(sealed)
    assert (finding["finding"], finding["log"], finding["detail"]["change_id"]) == ("change_changed", "change", change)
    with triggers_off(sealed, "changes"):
        sealed.run("delete from tasker.changes where change_id = %s", change)
    findings = verify(sealed)
    assert (findings[0]["finding"], findings[0]["detail"]["change_id"]) == ("change_missing", change)
    assert findings[1]["finding"] == "row_inserted", "its rows are not accounted for any more"


def test_a_change_slipped_into_a_gap_is_named(engine: Engine) -> None:
    with pytest.raises(psycopg.errors.RaiseException), engine.conn.transaction():
        engine.task(chain("only"))
        engine.run("do $$ begin raise 'rolled back' using errcode = 'P0001'; end $$")
    work(engine)
    for _ in range(3):
        work(engine)
        seal(engine)
    gap = engine.one(
        "select min(i) from generate_series(1, (select max(change_id) from tasker.changes)) i"
        " where not exists (select from tasker.changes where change_id = i)"
    )
    engine.run(
        "insert into tasker.changes (change_id, log, transition_uuids) overriding system value values (%s, 'task', %s)",
        gap, [uuid4()],
    )  # fmt: skip
    seal(engine)
    (finding,) = verify(engine)
    assert (finding["finding"], finding["detail"]["change_id"]) == ("change_inserted", gap)


def test_a_current_state_moved_back_is_named(sealed: Engine) -> None:
    row = sealed.row("select * from tasker.task_transitions where most_recent and sort_key > 1 limit 1")
    with triggers_off(sealed, "task_transitions"):
        sealed.run("update tasker.task_transitions set most_recent = false where task_transition_uuid = %s", row["task_transition_uuid"])  # fmt: skip
        sealed.run(
            "update tasker.task_transitions set most_recent = true where task_uuid = %s and sort_key = %s",
            row["task_uuid"], row["sort_key"] - 1,
        )  # fmt: skip
    (finding,) = verify(sealed)
    assert (finding["finding"], finding["log"]) == ("current_row_changed", "task")


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("update tasker.audit_seals set sealed_at = sealed_at - interval '1 day' where seal_number = 2", ("seal_changed", 2)),
        ("update tasker.audit_seals set row_count = row_count + 1 where seal_number = 2", ("seal_changed", 2)),
        ("update tasker.audit_seals set login = 'mallory' where seal_number = 2", ("seal_changed", 2)),
        ("update tasker.audit_seals set leaves[2] = sha256('x') where seal_number = 2", ("seal_changed", 2)),
        ("update tasker.audit_seals set change_ids = change_ids - '{[1,2)}'::int8multirange where seal_number = 1", ("seal_changed", 1)),
        ("update tasker.audit_seals set digest = sha256('x') where seal_number = 2", ("seal_changed", 2)),
        ("delete from tasker.audit_seals where seal_number = 2", ("seal_missing", 3)),
        ("update tasker.audit_seals set seal_number = seal_number + 1000 where seal_number >= 3", ("seal_missing", 1003)),
    ],
)  # fmt: skip
def test_a_tampered_seal_is_named(sealed: Engine, statement: str, finding: tuple[str, int]) -> None:
    with refused("TK409"):
        sealed.run(statement)
    with triggers_off(sealed, "audit_seals"):
        sealed.run(statement)
    first = verify(sealed)[0]
    assert (first["finding"], first["seal_number"]) == finding


def test_who_seals_anew_after_tampering_is_found_by_the_digest_kept_outside(sealed: Engine) -> None:
    kept = [sealed.one("select tasker.audit_digest(%s)", number) for number in (1, 2, None)]
    with triggers_off(sealed, "task_transitions", "audit_seals"):
        sealed.run(
            "update tasker.task_transitions set metadata = '{\"forged\": true}' where sort_key = 1 and most_recent = false"
        )
        sealed.run("delete from tasker.audit_seals")
        sealed.run("delete from tasker.audit_counts")
    seal(sealed, limit=40)
    assert verify(sealed) == [], "inside of the database nothing tells"
    differs = [sealed.rows("select * from tasker.verify_digest(%s)", line) for line in kept]
    assert [row["finding"] for rows in differs for row in rows] == ["digest_differs"] * 3


def test_a_history_cut_short_is_found_by_the_digest_kept_outside(sealed: Engine) -> None:
    kept = sealed.one("select tasker.audit_digest()")
    assert sealed.rows("select * from tasker.verify_digest(%s)", kept) == []
    with triggers_off(sealed, "audit_seals"):
        sealed.run(
            "delete from tasker.audit_seals where seal_number = (select max(seal_number) from tasker.audit_seals)"
        )
    (finding,) = sealed.rows("select * from tasker.verify_digest(%s)", kept)
    assert finding["finding"] == "seal_missing"
    assert finding["detail"]["kept"] == json.loads(kept)["digest"]


@pytest.mark.parametrize("line", ["", "nonsense", "{}", '{"seal": 1}', '{"seal": 1, "digest": "abc"}', None])
def test_what_is_no_digest_is_refused(engine: Engine, line: str | None) -> None:
    with refused("TK400"):
        engine.rows("select * from tasker.verify_digest(%s)", line)


# -- late commits, two sealers, killed sealers


def test_a_late_commit_beside_two_seals_of_one_transaction_is_sealed(engine: Engine, connect: Connect) -> None:
    """The second one has the number of the first, and says nothing of what was begun in between."""
    engine.run("select tasker.ensure_namespace('default')")
    work(engine)
    sealer, late = Engine(connect(autocommit=False)), Engine(connect(autocommit=False))
    sealer.row("select * from tasker.seal_audit()")
    late.task(chain("late"))
    work(engine)
    sealer.row("select * from tasker.seal_audit()")
    sealer.conn.commit()
    work(engine)
    seal(engine)
    late.conn.commit()
    assert verify(engine) == []
    assert len(seal(engine)) == 1
    assert verify(engine) == []
    assert engine.rows("select * from tasker.unsealed_changes") == []


def test_a_late_commit_is_sealed_by_the_next_seal(engine: Engine, connect: Connect) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    seal(engine)
    late = Engine(connect(autocommit=False))
    late.task(chain("late"))
    work(engine)
    (first,) = seal(engine)
    before, after = engine.values("select change_ids from tasker.audit_seals order by seal_number")
    assert after[0].lower > before[-1].upper, "what the late one began is left out"
    assert seal(engine) == []
    assert verify(engine) == []
    late.conn.commit()
    (second,) = seal(engine)
    assert second["changes"] == late.one("select count(*) from tasker.changes where recorded_xid = (select recorded_xid from tasker.task_transitions where sort_key = 1 order by created_at limit 1)")  # fmt: skip
    assert verify(engine) == []
    assert first["seal_number"] + 1 == second["seal_number"]


def test_a_transaction_that_outlives_many_seals_is_sealed_once_and_never_accused(
    engine: Engine, connect: Connect
) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    late = Engine(connect(autocommit=False))
    late.task(chain("late"))
    for _ in range(4):
        work(engine)
        seal(engine, limit=2)
        assert verify(engine) == []
    late.task(chain("later"))
    late.conn.commit()
    work(engine)
    seal(engine, limit=1)
    work(engine)
    seal(engine)
    assert verify(engine) == []
    covered = engine.one(
        "select sum(c.n) from (select (select sum(upper(r) - lower(r)) from unnest(change_ids) r) as n from tasker.audit_seals) c"
    )
    assert covered == engine.one("select count(*) from tasker.changes"), "each change once"


def test_two_sealers_at_once_seal_each_row_once(engine: Engine, connect: Connect) -> None:
    for _ in range(10):
        work(engine)
    connections = [Engine(connect()) for _ in range(4)]
    errors: list[BaseException] = []

    def run(sealer: Engine) -> None:
        try:
            seal(sealer, limit=7)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[sealer]) for sealer in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert verify(engine) == []
    covered = engine.one(
        "select sum(c.n) from (select (select sum(upper(r) - lower(r)) from unnest(change_ids) r) as n from tasker.audit_seals) c"
    )
    assert covered == engine.one("select count(*) from tasker.changes")


def test_a_sealer_that_dies_leaves_nothing_half_done(engine: Engine, connect: Connect) -> None:
    live(engine)
    seal(engine)
    work(engine)
    sealer = Engine(connect(autocommit=False))
    sealer.row("select * from tasker.seal_audit()")
    work(engine)  # a writer does not wait for it
    assert engine.one("select pg_terminate_backend(%s, 5000)", sealer.conn.info.backend_pid)
    assert verify(engine) == []
    assert len(seal(engine)) == 1
    assert verify(engine) == []


def test_a_sealer_with_an_old_snapshot_is_refused(connect: Connect) -> None:
    conn = connect(autocommit=False)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with refused("TK400"):
        Engine(conn).row("select * from tasker.seal_audit()")


@pytest.mark.parametrize("limit", [0, -1, None, 1000001])
def test_a_limit_is_asked_for(engine: Engine, limit: int | None) -> None:
    with refused("TK400"):
        engine.row("select * from tasker.seal_audit(%s)", limit)


# -- who may


def test_auditors_verify_and_only_operators_seal(sealed: Engine) -> None:
    work(sealed)
    sealed.run("set role tasker_auditor")
    assert verify(sealed) == []
    assert sealed.rows("select * from tasker.verify_digest(tasker.audit_digest())") == []
    with refused("42501"):
        seal(sealed)
    with refused("42501"):
        sealed.run("delete from tasker.audit_seals")
    sealed.run("set role tasker_operator")
    assert len(seal(sealed)) == 1
    assert verify(sealed) == []
