"""The same service in three languages: an order is shipped, with the same steps, attempts and results."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
GOLDEN = json.loads((EXAMPLES / "orders" / "golden.json").read_text("utf-8"))


def python(folder: Path) -> list[str]:
    return [sys.executable, str(EXAMPLES / "python" / "orders.py")]


def bash(folder: Path) -> list[str]:
    if shutil.which("psql") is None:
        pytest.skip("no psql here (Debian: postgresql-client)")
    return [str(EXAMPLES / "psql" / "orders.sh")]


def node(folder: Path) -> list[str]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node here (Debian: nodejs, npm)")
    copy = folder / "examples"
    for name in ("node", "orders"):
        shutil.copytree(EXAMPLES / name, copy / name, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline"]
    installed = subprocess.run(command, cwd=copy / "node", capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        pytest.skip("npm can't install pg here")
    return ["node", str(copy / "node" / "orders.js")]


def outcome(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """What came of the one order that there is, in the shape of golden.json."""
    task = conn.execute("select state, context ->> 'order' from tasker.task_overview").fetchall()
    assert len(task) == 1
    steps = conn.execute("select name, state, attempts, result from tasker.step_overview order by ordinal").fetchall()
    failures = conn.execute(
        "select s.name, (t.metadata ->> 'attempt')::int, t.metadata #>> '{error,message}'"
        "  from tasker.workflow_step_transitions t join tasker.workflow_steps s using (workflow_step_uuid)"
        " where t.metadata ->> 'success' = 'false' order by t.created_at"
    ).fetchall()
    return {
        "task": {"state": task[0][0], "order": int(task[0][1])},
        "steps": {name: {"state": state, "attempts": n, "result": result} for name, state, n, result in steps},
        "failures": [{"step": name, "attempt": n, "message": message} for name, n, message in failures],
    }


@pytest.mark.parametrize("language", [python, bash, node])
def test_an_order_is_shipped(
    language: Callable[[Path], list[str]], database: str, conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    place = conninfo_to_dict(database)
    environment = {
        **os.environ,
        "PGTASKER_DSN": database,
        "PGHOST": str(place["host"]),
        "PGPORT": str(place["port"]),
        "PGUSER": str(place["user"]),
        "PGDATABASE": str(place["dbname"]),
    }
    ran = subprocess.run(language(tmp_path), env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "receipt for order 1, from shelf 2" in ran.stdout
    assert outcome(conn) == GOLDEN
    assert conn.execute("select count(*) from tasker.check_consistency()").fetchone() == (0,)


@pytest.mark.skipif(shutil.which("psql") is None, reason="no psql here (Debian: postgresql-client)")
def test_what_a_workflow_can_do_with_psql_alone(database: str) -> None:
    command = ["psql", "-Xq", "-d", database, "-f", str(EXAMPLES / "psql" / "features.sql")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    # what is shown is what its comments promise, read by a person once
    assert ran.stdout == (EXAMPLES / "psql" / "features.out").read_text("utf-8")


def test_the_template_is_the_same() -> None:
    service = runpy.run_path(str(EXAMPLES / "python" / "orders.py"))
    assert service["TEMPLATE"] == json.loads((EXAMPLES / "orders" / "ship-order.json").read_text("utf-8"))


def test_the_worker_in_bash_stays_short() -> None:
    lines = (EXAMPLES / "psql" / "worker.sh").read_text("utf-8").splitlines()
    assert len(lines) <= 30
