"""`pgtasker grants`: what it prints is what the server enforces and what sql/access/grants.sql says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, cli, run_cli
from tests.kernel.engine import Engine, Row

__all__ = ["cli", "run_cli"]

GRANTS = Path(__file__).resolve().parents[2] / "sql" / "access" / "grants.sql"
ROLES = ["tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"]

Right = tuple[str, str, str, tuple[str, ...]]
"""(role, privilege, object, columns)"""


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def written() -> set[Right]:
    """The rights that grants.sql gives, read from its text."""
    text = re.sub(r"--.*", "", GRANTS.read_text("utf-8"))
    rights: set[Right] = set()
    for privileges, objects, roles in re.findall(
        r"^grant\s+(.*?)\s+on\s+(?:function\s+|schema\s+)?(.*?)\s+to\s+([\w\s,]+);", text, re.M | re.S
    ):
        for privilege in _split(privileges):
            name, _, columns = privilege.partition("(")
            for thing in _split(objects):
                thing = re.sub(r"\s+", "", thing)
                thing = re.sub(r"\bint\b", "integer", thing.replace("timestamptz", "timestampwithtimezone"))
                for role in _split(roles):
                    rights.add(
                        (role.strip(), name.strip(), thing, tuple(sorted(part.strip() for part in columns.rstrip(")").split(",") if part.strip())))
                    )  # fmt: skip
    return rights


def merged(rights: set[Right]) -> set[Right]:
    """A column list on a table that is granted whole as well says nothing; several lists are one."""
    whole = {right[:3] for right in rights if not right[3]}
    columns: dict[tuple[str, str, str], set[str]] = {}
    for *key, names in rights:
        if names:
            columns.setdefault((key[0], key[1], key[2]), set()).update(names)
    return {(*key, ()) for key in whole} | {
        (*key, tuple(sorted(names))) for key, names in columns.items() if key not in whole
    }


def printed(rows: list[Row]) -> set[Right]:
    return {
        (row["role"], row["privilege"], row["object"].replace(" ", ""), tuple(sorted(row["columns"] or ())))
        for row in rows
    }


def test_the_catalogue_has_what_the_file_says_and_the_command_prints_it(engine: Engine, cli: Cli) -> None:
    rights = cli("--json", "grants", "--print").json["rights"]
    assert len(rights) > 300
    said = merged(written())
    assert merged(printed(rights)) == said
    assert {right[0] for right in said} == set(ROLES)
    # in words: the same objects
    text = cli("grants", "--print").stdout
    for right in rights:
        assert right["object"].removeprefix("tasker.") in text


def test_what_is_printed_is_what_the_server_enforces(engine: Engine) -> None:
    """Asked of the functions by which the server itself decides, for every object and role."""
    rights = engine.rows("select * from tasker.access_rights")
    calls = {(row["role"], row["object"]) for row in rights if row["kind"] == "function"}
    assert calls == {
        (row["role"], row["object"])
        for row in engine.rows(
            "select r.role, format('tasker.%%I(%%s)', p.proname, oidvectortypes(p.proargtypes)) as object"
            " from unnest(%s::text[]) as r(role) cross join pg_proc p where p.pronamespace = 'tasker'::regnamespace"
            " and has_function_privilege(r.role, p.oid, 'execute')",
            ROLES,
        )
    }
    columns = {
        (row["role"], row["object"], row["privilege"], column)
        for row in rights
        if row["kind"] in ("table", "view")
        for column in (row["columns"] or [None])
    }
    whole = {(role, thing, privilege) for role, thing, privilege, column in columns if column is None}
    enforced = engine.rows(
        "select r.role, format('tasker.%%I', c.relname) as object, p.privilege, a.attname as column"
        " from unnest(%s::text[]) as r(role) cross join pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
        "  and not a.attisdropped cross join unnest(array['select', 'insert', 'update']) as p(privilege)"
        " where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'v', 'p')"
        "  and has_column_privilege(r.role, c.oid, a.attnum, p.privilege)",
        ROLES,
    )
    assert len(enforced) > 1000
    for row in enforced:
        key = (row["role"], row["object"], row["privilege"])
        assert key in whole or (*key, row["column"]) in columns, row
    said = {(row["role"], row["object"], row["privilege"], row["column"]) for row in enforced}
    assert {entry for entry in columns if entry[3] is not None} <= said
    assert {entry[:3] for entry in said} >= whole


def test_members_their_ways_and_their_bindings(engine: Engine, login: Callable[..., str], cli: Cli) -> None:
    direct = login("tasker_client").rpartition("user=")[2].split()[0]
    group = login("tasker_operator").rpartition("user=")[2].split()[0]
    indirect = login(group).rpartition("user=")[2].split()[0]
    engine.one("select tasker.bind_login(%s, '{shop}', 'test', 'ada')", direct)
    engine.one("select tasker.bind_login('public', '{}', 'test', 'ada')")
    members = {row["login"]: row for row in cli("--json", "grants", "--print").json["members"]}
    assert {
        name: (row["role"], row["through"], row["binding"], row["namespaces"]) for name, row in members.items()
    } == {
        direct: ("tasker_client", None, "own", ["shop"]),
        group: ("tasker_operator", None, "public", []),
        indirect: ("tasker_operator", group, "public", []),
    }
    (only,) = cli("--json", "grants", "--print", "--role", "tasker_client").json["members"]
    assert only["login"] == direct
    engine.one("select tasker.unbind_login('public', 'test', 'ada')")
    engine.one("select tasker.unbind_login(%s, 'test', 'ada')", direct)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("grant select on tasker.sensitive_values to tasker_monitor", "right_that_no_file_gives"),
        ("grant update (context) on tasker.tasks to tasker_client", "right_that_no_file_gives"),
        ("grant execute on function tasker.reveal(uuid, text, jsonb) to public", "right_that_no_file_gives"),
        ("revoke select on tasker.task_overview from tasker_auditor", "right_that_is_missing"),
        ("revoke execute on function tasker.tick(int) from tasker_worker", "right_that_is_missing"),
        ("grant select on tasker.timeline to tasker_client with grant option", "right_that_may_be_handed_on"),
        ("alter function tasker.clock() owner to postgres", "object_of_somebody_else"),
        ("alter table tasker.task_transitions disable trigger refuse_update", "trigger_that_is_switched_off"),
        ("alter table tasker.workflow_step_result_audit enable trigger refuse_delete", "trigger_that_is_switched_off"),
        ("create trigger mine before insert on tasker.tasks for each row execute function suppress_redundant_updates_trigger()",
         "object_that_is_not_ours"),
        ("create or replace function tasker.create_step_result_audit() returns trigger language plpgsql security definer"
         " set search_path = pg_catalog, pg_temp as 'begin return null; end'", "object_that_was_changed"),
        ("alter function tasker.may_see(text) set search_path = public", "object_that_was_changed"),
        ("create or replace function tasker.guard_always_true() returns boolean language sql return true", "object_that_is_not_ours"),
        ("drop policy bound_logins on tasker.timers", "object_that_is_missing"),
        ("alter policy bound_logins on tasker.timers using (true)", "object_that_was_changed"),
        ("drop trigger record_changes on tasker.task_transitions", "object_that_is_missing"),
        ("grant set on parameter session_replication_role to tasker_worker", "login_that_may_switch_triggers_off"),
        ("create rule mine as on insert to tasker.rejected_transitions do instead nothing", "rule_that_is_not_ours"),
        ("alter table tasker.tasks disable row level security", "row_security_that_is_switched_off"),
        ("insert into tasker.login_bindings (login, namespaces) values ('postgres', '{x}')", "binding_that_does_not_hold"),
        ("insert into tasker.login_bindings (login, namespaces) values ('gone', '{x}')", "binding_of_nobody"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_found(engine: Engine, change: str, finding: str) -> None:
    assert engine.rows("select * from tasker.access_warnings") == []
    with engine.conn.transaction(force_rollback=True):
        engine.run(change)
        found = engine.rows("select * from tasker.access_warnings")
    assert finding in {row["finding"] for row in found}, found


def test_what_the_engine_makes_by_itself_is_no_finding(engine: Engine) -> None:
    """Queues of namespaces, partitions of the archive."""
    engine.task([{"name": "a", "requires": ["gpu"]}], namespace="made-later")
    engine.run("set role tasker_owner")
    engine.one("select tasker.ensure_archive_partition('2026-01-01')")
    engine.run("reset role")
    assert engine.rows("select * from tasker.access_warnings") == []


def test_no_setting_of_a_session_makes_a_finding(engine: Engine) -> None:
    for path in ("tasker, public", "pg_temp, tasker, pgmq, pg_catalog", "''"):
        engine.run(f"set search_path = {path}")
        assert engine.rows("select * from tasker.access_warnings") == []
    engine.run("reset search_path")


def test_members_that_nothing_holds_and_conflicting_duties(engine: Engine, login: Callable[..., str]) -> None:
    name = login("tasker_auditor", "tasker_operator", "pg_write_all_data").rpartition("user=")[2].split()[0]
    engine.run(f"alter role {name} bypassrls")
    found = engine.rows("select finding, detail from tasker.access_warnings where subject = %s", name)
    assert ("member_with_conflicting_duties", "tasker_auditor and tasker_operator") in {
        tuple(row.values()) for row in found
    }
    assert {row["finding"] for row in found} == {
        "member_with_conflicting_duties",
        "member_that_nothing_holds",
        "login_that_reads_or_writes_everything",
    }


def test_the_command_ends_with_1_when_it_found_something(engine: Engine, cli: Cli) -> None:
    assert cli("grants").stdout == ""
    engine.run("grant select on tasker.sensitive_values to tasker_monitor")
    ran = cli("grants", expect=1)
    assert "sensitive_values" in ran.stdout
    assert cli("--json", "grants", expect=1).json == [
        {
            "finding": "right_that_no_file_gives",
            "subject": "tasker_monitor",
            "detail": "select on table tasker.sensitive_values",
        }
    ]


def test_the_next_migration_makes_it_true_again(engine: Engine, database: str) -> None:
    """grants.sql takes everything away first; here it is run as the migration runs it."""
    engine.run("grant select on tasker.hash_salt to tasker_worker")
    engine.run("revoke select on tasker.task_overview from tasker_auditor")
    assert len(engine.rows("select * from tasker.access_warnings")) == 2
    with engine.conn.transaction():
        engine.run("set local role tasker_owner")
        engine.run("set local search_path = ''")
        engine.conn.execute(GRANTS.read_bytes())
    assert engine.rows("select * from tasker.access_warnings") == []
