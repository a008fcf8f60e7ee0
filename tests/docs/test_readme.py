"""The README is run as it stands: its Python, its psql session, its diagrams, its commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.docs.documents import ROOT, Fence, comparable, fences

README = ROOT / "README.md"


def of_language(language: str) -> list[Fence]:
    return [fence for fence in fences(README) if fence.language == language]


def run_python(blocks: list[Fence], namespace: dict[str, Any]) -> None:
    for block in blocks:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.body, str(README), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert comparable(printed.getvalue()) == comparable(block.output or ""), f"README.md:{block.line}"


def run_psql(psql: Path, dsn: str, blocks: list[Fence], document: Path = README) -> None:
    """Run all blocks in one session, as a reader would; errors that the document shows are part of the output."""
    script = "".join(f"\\echo @@ {number}\n{block.body}" for number, block in enumerate(blocks))
    finished = subprocess.run(
        [psql, "-X", "-d", dsn],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PGOPTIONS": "", "LC_ALL": "C", "PGTZ": "UTC"},
    )
    outputs = re.split(r"^@@ \d+\n", finished.stdout, flags=re.MULTILINE)[1:]
    assert len(outputs) == len(blocks), finished.stdout
    for block, output in zip(blocks, outputs, strict=True):
        assert comparable(output) == comparable(block.output or ""), f"{document.name}:{block.line}\n{output}"


def test_python_and_sql_do_what_the_readme_shows(server: Any, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    psql = Path(server.server.bin_dir) / "psql"
    if not psql.exists():
        pytest.skip(f"no psql in {server.server.bin_dir}")
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.delenv("PGTASKER_DSN", raising=False)
    python, sql = of_language("python"), of_language("sql")
    assert len(python) >= 3 and len(sql) >= 5
    run_python(python, {"__name__": "readme"})
    run_psql(psql, database, sql)


def test_diagrams_are_drawn_from_the_rules(conn: psycopg.Connection[Any]) -> None:
    drawn = re.findall(
        r"<!-- diagram: (\S+) without (.*?) -->\n```mermaid\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL
    )
    assert [lifecycle for lifecycle, _, _ in drawn] == ["tasker.task", "tasker.workflow_step"]
    for lifecycle, left_out, diagram in drawn:
        row = conn.execute("select tasker.lifecycle_diagram(%s)", [lifecycle]).fetchone()
        assert row is not None
        events = set(left_out.split())
        lines = [re.sub(r" \[\w+\]", "", line) for line in str(row[0]).splitlines()]
        kept = [line for line in lines if not set(re.findall(r" : (\w+)", line)) & events]
        reached = {target for line in kept for target in re.findall(r"--> (\w+)", line)}
        expected = [
            line for line in kept if not line.endswith("--> [*]") or re.findall(r"(\w+) -->", line)[0] in reached
        ]
        assert diagram.splitlines() == expected


def test_commands_exist() -> None:
    commands = [
        line.removeprefix("$ ").split("#")[0].split()
        for fence in of_language("console")
        for line in fence.body.splitlines()
        if line.startswith("$ ")
    ]
    assert commands[:2] == [["make", "demo"], ["make", "test"]]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    inline = [c.split() for c in re.findall(r"`((?:pgtasker|make) [^`]+)`", README.read_text(encoding="utf-8"))]
    for command in [*commands, *inline]:
        if command[0] == "make":
            assert command[1] in targets
        elif command[0] == "pgtasker":
            words = [w for w in command[1:] if re.fullmatch(r"[a-z]+", w)]
            shown = subprocess.run(
                [sys.executable, "-m", "pgtasker.cli", *words, "--help"],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "COLUMNS": "200"},
            )
            assert shown.returncode == 0, command
            for option in (w for w in command if w.startswith("-")):
                assert option in shown.stdout, (command, option)
        else:
            assert command[0] == "pip" or shutil.which(command[0]), command
