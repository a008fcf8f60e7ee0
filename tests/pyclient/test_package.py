"""The package as a whole: exports, the generated twin, and its agreement with the installed schema."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgtasker
from pgtasker import AsyncClient, Client, _rows, _statements, errors

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyclient" / "pgtasker"

# Methods that are no SQL function of the same name.
OWN_METHODS = {
    "open", "close", "task", "tasks", "step", "steps", "worker", "workers", "breaker", "breakers", "limits", "timeline", "wait", "events",
    "schedules", "emitted_events",
}  # fmt: skip


def methods(cls: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in vars(cls).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


def test_every_public_name_can_be_imported_and_is_typed() -> None:
    source = ast.parse((PACKAGE / "__init__.py").read_text())
    typed = {
        alias.asname
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert typed == set(pgtasker._EXPORTS)
    for name in pgtasker.__all__:
        assert getattr(pgtasker, name) is not None
    assert (PACKAGE / "py.typed").exists()


def test_the_sync_modules_are_generated_from_the_async_ones() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "unasync.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_clients_have_the_same_methods_and_parameters() -> None:
    def described(cls: type) -> dict[str, list[tuple[str, Any, Any]]]:
        return {
            name: [(p.name, p.kind, p.default) for p in signature.parameters.values()]
            for name, signature in methods(cls).items()
        }

    assert described(Client) == described(AsyncClient)


def test_every_method_takes_the_parameters_of_its_sql_function(conn: psycopg.Connection[Any]) -> None:
    functions = {
        name: (arguments or [], modes)
        for name, arguments, modes in conn.execute(
            "select proname, proargnames, proargmodes::text[] from pg_proc where pronamespace = 'tasker'::regnamespace"
        )
    }
    for name, signature in methods(Client).items():
        if name in OWN_METHODS:
            continue
        assert name in functions, f"there is no function tasker.{name}"
        arguments, modes = functions[name]
        if modes is not None:
            arguments = [a for a, mode in zip(arguments, modes, strict=True) if mode in ("i", "b", "v")]
        parameters = [p for p in signature.parameters if p not in ("self", "conn")]
        assert sorted(f"p_{p}" for p in parameters) == sorted(arguments), name
        assert "conn" in signature.parameters, name


def test_every_statement_can_be_prepared(conn: psycopg.Connection[Any]) -> None:
    statements = [value for value in vars(_statements).values() if isinstance(value, _statements.Statement)]
    assert len(statements) > 40
    for number, statement in enumerate(statements):
        text = re.sub(rb"%\((\w+)\)s", b"null", statement.sql)
        conn.execute(b"prepare s%d as " % number + text)


@pytest.mark.parametrize(
    ("row", "relation"),
    [
        (_rows.TaskOverview, "task_overview"),
        (_rows.StepOverview, "step_overview"),
        (_rows.TimelineEntry, "timeline"),
        (_rows.WorkerOverview, "worker_overview"),
        (_rows.BreakerOverview, "breaker_overview"),
        (_rows.ClaimedStep, "claimed_step"),
        (_rows.StepOutcome, "step_outcome"),
        (_rows.AuditRecord, "audit_record"),
        (_rows.DriveCounts, "drive_counts"),
        (_rows.TickCounts, "tick_counts"),
    ],
)
def test_row_classes_have_the_columns_of_their_relation(conn: psycopg.Connection[Any], row: Any, relation: str) -> None:
    columns = conn.execute(
        "select attname from pg_attribute"
        " where attrelid = ('tasker.' || %s)::regclass and attnum > 0 and not attisdropped",
        [relation],
    ).fetchall()
    # A view may have columns more than the contract promises.
    assert {field.name for field in dataclasses.fields(row)} <= {name for (name,) in columns}


def test_there_is_one_error_class_for_each_row_of_the_catalogue(conn: psycopg.Connection[Any]) -> None:
    catalogue = dict(conn.execute("select code, name from tasker.error_catalogue").fetchall())
    assert set(catalogue) == set(errors.BY_SQLSTATE)
    for code, name in catalogue.items():
        assert errors.BY_SQLSTATE[code].__name__ == "".join(part.capitalize() for part in name.split("_"))


def test_only_the_public_interface_of_psycopg_is_used() -> None:
    for file in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("psycopg"):
                names = [node.module or "", *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") for name in names for part in name.split(".")), file
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert not (node.value.id in ("psycopg", "conn", "cursor") and node.attr.startswith("_")), file


def test_no_state_name_is_known_to_the_package(conn: psycopg.Connection[Any]) -> None:
    """Rules live in the database: Python may look at phases and properties, never at a vocabulary's state names."""
    phases = {phase for (phase,) in conn.execute("select phase from tasker.lifecycle_phases")}
    names = {state for (state,) in conn.execute("select state from tasker.lifecycle_states")} - phases - {"error"}
    assert "enqueued_for_orchestration" in names
    files = [
        f for f in PACKAGE.glob("*.py") if f.name.startswith("_") or f.name in ("worker.py", "models.py", "errors.py")
    ]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in names, f"{file.name}: {node.value}"
