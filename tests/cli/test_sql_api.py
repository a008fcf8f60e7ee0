"""pgtasker sql api: what it prints can be called as it says."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Function = dict[str, Any]


@pytest.fixture
def functions(cli: Cli) -> list[Function]:
    found: list[Function] = cli("sql", "api", "--format", "json").json
    return found


def test_it_is_everything_that_somebody_may_call(functions: list[Function], conn: psycopg.Connection[Any]) -> None:
    roles = ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor")
    granted = conn.execute(
        "select p.proname, array_agg(r.role order by r.role) from pg_proc p cross join unnest(%s::text[]) as r(role)"
        " where p.pronamespace = 'tasker'::regnamespace and p.prorettype <> 'trigger'::regtype"
        " and has_function_privilege(r.role, p.oid, 'execute') group by p.oid, p.proname",
        (list(roles),),
    ).fetchall()
    assert len(functions) > 100
    assert sorted((one["name"], one["roles"]) for one in functions) == sorted(granted)
    assert all(one["description"] for one in functions)


def test_names_types_and_columns_are_those_of_a_call(functions: list[Function], conn: psycopg.Connection[Any]) -> None:
    """A call made from nothing but what is printed is planned by the server, with all arguments and without defaults."""
    for one in functions:
        for wanted in (one["arguments"], [a for a in one["arguments"] if a["default"] is None]):
            # the functions of arguments without a name are called by position
            arguments = ", ".join(
                f"{a['name']} => null::{a['type']}" if a["name"] else f"null::{a['type']}" for a in wanted
            )
            call = f"select * from tasker.{one['name']}({arguments})"
            with conn.transaction(force_rollback=True):
                conn.execute(f"prepare one as {call}".encode())
                if conn.info.server_version >= 160000:  # earlier ones don't tell
                    told = conn.execute("select result_types::text[] from pg_prepared_statements where name = 'one'")
                    assert told.fetchone() == ([c["type"] for c in one["columns"]] or [one["returns"]],), one
                conn.execute("deallocate one")
        given = [argument["default"] is None for argument in one["arguments"]]
        assert given == sorted(given, reverse=True), "defaults come last"


def test_a_function_with_everything(functions: list[Function]) -> None:
    (complete,) = [one for one in functions if one["name"] == "complete_step"]
    assert [(a["name"], a["type"], a["default"]) for a in complete["arguments"]] == [
        ("p_step_uuid", "uuid", None),
        ("p_claim_uuid", "uuid", None),
        ("p_result", "jsonb", "NULL::jsonb"),
        ("p_execution_time_ms", "bigint", "NULL::bigint"),
        ("p_request_id", "text", "NULL::text"),
    ]
    assert (complete["returns"], complete["returns_set"], complete["columns"]) == ("text", False, [])
    assert complete["roles"] == ["tasker_operator", "tasker_worker"]
    (steps,) = [one for one in functions if one["name"] == "complete_steps"]
    assert steps["returns_set"]
    assert {"name": "code", "type": "text"} in steps["columns"]
    (consistency,) = [one for one in functions if one["name"] == "check_consistency"]
    assert [column["name"] for column in consistency["columns"]] == [
        "finding", "entity_kind", "entity_uuid", "detail", "proposed_call",
    ]  # fmt: skip
    assert (consistency["returns"], consistency["volatility"]) == ("record", "stable")


def test_markdown(cli: Cli, functions: list[Function]) -> None:
    text = cli("sql", "api").stdout
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == [one["name"] for one in functions]
    one = cli("sql", "api", "extend_leases").stdout
    assert (
        "tasker.extend_leases(\n  p_worker_uuid uuid,\n  p_lease interval default '00:00:30'::interval\n) returns integer\n"
        in one
    )
    assert "May be called by tasker_operator, tasker_worker." in one


def test_a_choice(cli: Cli) -> None:
    names = {one["name"] for one in cli("sql", "api", "--role", "tasker_monitor", "--json").json}
    assert "prometheus_metrics" in names
    assert "create_task" not in names
    assert "no such function" in cli("sql", "api", "nothing", expect=1).stderr
