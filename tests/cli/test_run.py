"""``pgtasker run``: workflow files driven to their end with real worker processes."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

Cli = Callable[..., Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a workflow file."""

    def write_file(text: str, name: str = "graph.yaml") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write_file


def results(conn: psycopg.Connection[Any], task: str) -> dict[str, Any]:
    rows = conn.execute("select name, result from tasker.step_overview where task_uuid = %s", [task]).fetchall()
    return dict(rows)


def errors(conn: psycopg.Connection[Any], task: str) -> dict[str, tuple[int, str]]:
    rows = conn.execute(
        "select name, attempts, last_error::text from tasker.step_overview where task_uuid = %s", [task]
    ).fetchall()
    return {name: (attempts, error or "") for name, attempts, error in rows}


def test_a_graph_with_a_step_that_fails_for_good(cli: Cli, write: Callable[..., Path], conn: Any) -> None:
    path = write(
        """
        name: half-good
        steps:
          - {name: first, handler: noop}
          - name: flaky
            handler: shell
            depends_on: [first]
            arguments: {argv: [sh, -c, "echo to no avail >&2; exit 3"]}
            max_attempts: 3
            retry: {base_delay: 0.05, max_delay: 0.1, jitter: 0}
          - {name: beside, handler: noop, depends_on: [first]}
          - {name: after, handler: noop, depends_on: [flaky]}
        """
    )
    ran = cli("run", path, "-n", 1, expect=1)
    assert "half-good: blocked_by_failures" in ran.stdout
    assert "flaky after 3 attempts" in ran.stdout
    assert "to no avail" in ran.stdout
    assert "exited with 3, expected [0]" in ran.stdout
    assert "nothing found" in ran.stdout
    summary = cli("run", path, "-n", 1, "--verify", "--json", expect=1).json_lines[0]
    assert (summary["steps"], summary["edges"], summary["satisfied_steps"], summary["failed_steps"]) == (4, 3, 2, 1)
    assert summary["audit_rows"] == 1 + 3 + 1
    assert summary["order_violations"] == summary["findings"] == []
    states = conn.execute("select name, state from tasker.step_overview where task_uuid = %s", [summary["task_uuid"]])
    assert dict(states.fetchall()) == {"first": "complete", "flaky": "error", "beside": "complete", "after": "pending"}


def test_built_in_handlers(cli: Cli, write: Callable[..., Path], conn: Any) -> None:
    path = write(
        """
        name: tools
        steps:
          - {name: nothing, handler: noop}
          - {name: said, handler: echo, arguments: {text: "häßlich ☃"}}
          - {name: nap, handler: sleep, arguments: {seconds: 1}}
          - {name: sorted, handler: shell, arguments: {argv: [sort], stdin: "b\\na\\n"}}
          - {name: inputs, handler: shell, depends_on: [said], arguments: {argv: [cat], inputs_on_stdin: true}}
          - {name: long, handler: shell, arguments: {argv: [seq, "100000"], max_output_bytes: 10}}
          - {name: nul, handler: shell, arguments: {argv: [printf, 'a\\000b']}}
          - {name: grep, handler: shell, arguments: {argv: [grep, x], stdin: "y", expected_exit_codes: [0, 1]}}
          - {name: where, handler: shell, arguments: {argv: [sh, -c, "pwd; echo $COLOR"], cwd: /, env: {COLOR: red}}}
          - {name: secret, handler: shell, arguments: {argv: [env]}}
        """
    )
    (summary,) = cli("run", path, "-n", 1, "--speedup", 100, "--json", "--verify").json_lines
    assert summary["ok"] and summary["audit_rows"] == 10
    got = results(conn, summary["task_uuid"])
    assert got["nothing"] is None
    assert got["said"]["arguments"] == {"text": "häßlich ☃"}
    assert got["nap"] == {"seconds": 1.0, "slept": 0.01}
    assert got["sorted"]["stdout"] == "a\nb\n"
    assert "häßlich ☃" in got["inputs"]["stdout"]
    assert (got["long"]["stdout"], got["long"]["output_size_bytes"]) == ("1\n2\n3\n4\n5\n", 588895)
    assert (got["long"]["stdout_truncated"], got["long"]["stderr_truncated"]) == (True, False)
    assert got["long"]["duration_ms"] >= 0
    assert got["nul"]["stdout"] == "a\N{REPLACEMENT CHARACTER}b"
    assert got["grep"]["exit_code"] == 1
    assert got["where"]["stdout"] == "/\nred\n"
    assert "PATH=" in got["secret"]["stdout"] and "PGTASKER_DSN" not in got["secret"]["stdout"]


def test_what_the_shell_handler_refuses(cli: Cli, write: Callable[..., Path], conn: Any) -> None:
    path = write(
        """
        name: refused
        steps:
          - {name: missing, handler: shell, arguments: {argv: [no-such-program-at-all]}}
          - {name: text, handler: shell, arguments: {argv: "ls | wc"}}
          - {name: codes, handler: shell, arguments: {argv: [ls], expected_exit_codes: all}}
          - name: slow
            handler: shell
            arguments: {argv: [sh, -c, "sleep 60 & sleep 60"], timeout_seconds: 0.2}
            max_attempts: 2
            retry: {base_delay: 0.05, max_delay: 0.1, jitter: 0}
          - {name: negative, handler: sleep, arguments: {seconds: -1}}
          - {name: words, handler: sleep, arguments: {seconds: some}}
        """
    )
    began = time.monotonic()
    (summary,) = cli("run", path, "-n", 1, "--json", expect=1).json_lines
    assert time.monotonic() - began < 30
    got = errors(conn, summary["task_uuid"])
    assert "cannot be started" in got["missing"][1]
    assert "list of text" in got["text"][1]
    assert "whole numbers" in got["codes"][1]
    assert "longer than 0.2 s" in got["slow"][1]
    assert "not be negative" in got["negative"][1]
    assert "must be a number" in got["words"][1]
    assert {name: attempts for name, (attempts, _) in got.items()} == {
        "missing": 1, "text": 1, "codes": 1, "slow": 2, "negative": 1, "words": 1,
    }  # fmt: skip


def test_handlers_of_your_own(cli: Cli, write: Callable[..., Path], tmp_path: Path, conn: Any) -> None:
    write(
        """
        from pgtasker import Worker
        worker = Worker()

        @worker.step("double")
        def double(ctx):
            return ctx.arguments["n"] * 2 + ctx.context["add"]

        @worker.step("noop")
        def noop(ctx):
            return "mine"
        """,
        "my_handlers.py",
    )
    path = write(
        """
        name: mixed
        steps:
          - {name: a, handler: double, arguments: {n: 4}}
          - {name: b, handler: noop}
          - {name: c, handler: echo, depends_on: [a, b]}
        """
    )
    (summary,) = cli(
        *("run", path, "--handlers", "my_handlers:worker", "--context", '{"add": 1}', "--json", "-n", 1),
        PYTHONPATH=str(tmp_path),
    ).json_lines
    got = results(conn, summary["task_uuid"])
    assert (got["a"], got["b"], got["c"]["inputs"]) == (9, "mine", {"a": 9, "b": "mine"})


def test_templates_several_files_and_a_table(cli: Cli, write: Callable[..., Path], conn: Any) -> None:
    versioned = write("name: stable\nversion: 2.0.0\nsteps: [{name: a, handler: noop}]\n", "one.yaml")
    other = write('{"name": "there", "namespace": "lab", "steps": [{"name": "a", "handler": "noop"}]}', "two.json")
    ran = cli("run", versioned, other, "--format", "markdown", "--verify", "-n", 1)
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("| workflow | state | steps |")
    assert lines[2].startswith("| stable | complete | 1 | 0 |")
    assert lines[3].startswith("| there | complete | 1 | 0 |")
    assert lines[4].startswith("| **2 workflows** | | 2 | 0 |")
    rows = conn.execute("select namespace, name, version from tasker.task_overview order by name").fetchall()
    assert [row[:2] for row in rows] == [("run", "stable"), ("lab", "there")]
    assert rows[0][2] == "2.0.0"
    # The same template again: registered once, run twice.
    assert cli("run", versioned, "--json").json_lines[0]["ok"]
    changed = write("name: stable\nversion: 2.0.0\nsteps: [{name: b, handler: noop}]\n", "one.yaml")
    assert cli("run", changed, "--json", expect=1).error["code"] == "TK400"


def test_a_graph_from_standard_input(cli: Cli) -> None:
    ran = cli("run", "-", "--json", "-n", 1, stdin="name: piped\nsteps: [{name: a, handler: noop}]\n")
    assert ran.json_lines[0]["name"] == "piped"


def test_a_workflow_that_takes_too_long_is_cancelled(cli: Cli, write: Callable[..., Path], conn: Any) -> None:
    path = write("name: long\nsteps: [{name: a, handler: sleep, arguments: {seconds: 600}}]\n")
    ran = cli("run", path, "--timeout", 1, "-n", 1, expect=1)
    assert "cancelled" in ran.stderr
    assert conn.execute("select state from tasker.task_overview").fetchall() == [("cancelled",)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_worker(
    database: str, write: Callable[..., Path], conn: Any, number: signal.Signals
) -> None:
    path = write("name: long\nsteps: [{name: a, handler: sleep, arguments: {seconds: 600}}]\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pgtasker.cli", "run", str(path), "--dsn", database, "-n", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running = "select count(*) from tasker.step_overview where phase = 'running'"
    wait_until(lambda: conn.execute(running).fetchone() == (1,))
    process.send_signal(number)
    process.wait(60)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert conn.execute("select state from tasker.task_overview").fetchone() == ("cancelled",)
    # Killed without a good-bye, its workers notice within a second and end as well.
    others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    wait_until(lambda: conn.execute(others).fetchone() == (0,), seconds=60)


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_a_terminal_gets_a_progress_bar_and_colours(database: str, write: Callable[..., Path]) -> None:
    path = write("name: seen\nsteps: [{name: a, handler: noop}, {name: b, handler: noop, depends_on: [a]}]\n")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgtasker.cli", "run", str(path), "--dsn", database, "-n", "1"],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(follower)
    screen = b""
    # Reading a terminal whose other side has closed is an error on Linux.
    with contextlib.suppress(OSError):
        while chunk := os.read(leader, 65536):
            screen += chunk
    os.close(leader)
    assert process.wait(60) == 0
    assert b"2/2" in screen and b"complete: 0 in flight" in screen
    assert b"\x1b[32mseen: complete" in screen


def test_the_examples_run(cli: Cli, database: str) -> None:
    ran = cli("run", EXAMPLES / "host-report.yaml", "--json")
    assert ran.json_lines[0]["ok"]
    environment = {**os.environ, "PGTASKER_DSN": database}
    service = subprocess.run(
        [sys.executable, EXAMPLES / "orders.py"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=True,
    )
    assert "is complete" in service.stdout
    assert "ship     complete   after 1 attempts" in service.stdout
    assert "charge   complete   after 2 attempts" in service.stdout
