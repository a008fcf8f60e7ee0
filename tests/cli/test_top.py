"""pgtasker top: on a terminal, without one, and as JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.cli.conftest import Cli
from tests.conftest import Connect
from tests.workflow.engine import Engine, graph, step, wait_until


@pytest.fixture
def busy(conn: psycopg.Connection[Any]) -> Engine:
    """A worker that holds two steps of five, a result that waits, and a breaker that is open."""
    engine = Engine(conn)
    engine.worker("lathe-1", p_max_concurrent=4)
    for _ in range(5):
        engine.create(graph(step("a"), step("b", "a")))
    (reported, *_) = engine.claim(limit=3, worker="lathe-1")
    engine.complete([reported])
    engine.rows("select tasker.configure_breaker('press', 1)")
    engine.rows("select tasker.record_breaker_result('press', false)")
    return engine


def test_once(cli: Cli, busy: Engine) -> None:
    ran = cli("top", "--once")
    assert re.search(r"oldest waiting \d+ s, 1 of 1 workers busy, 0 timers overdue", ran.stdout.splitlines()[0])
    lines = [line.split() for line in ran.stdout.splitlines()]
    for line in (
        ["running", "2"],
        ["queued", "2"],
        ["pending", "5"],
        ["default", "-", "0", "2"],
        ["(results)", "-", "0", "1"],
    ):
        assert line in [words[: len(line)] for words in lines]
    assert "2/4" in ran.stdout
    assert ["press", "open"] in [words[:2] for words in lines] or ["press", "OPEN"] in [words[:2] for words in lines]
    assert cli("top").stdout.splitlines()[2:] != [], "without a terminal it prints once"


def test_it_says_when_its_numbers_are_of_the_past(cli: Cli, busy: Engine, connect: Connect) -> None:
    busy.call("register_template", p_template=graph(step("a"), name="one"))
    busy.rows("select tasker.create_tasks(%s)", Jsonb([{"name": "one"}] * 3000))
    other = connect(autocommit=False)
    other.execute("select from tasker.metrics_cursor for update")  # somebody else counts, and has not finished
    assert "still counting what happened before" in cli("top", "--once").stdout
    other.rollback()
    assert "still counting" not in cli("top", "--once").stdout


def test_json(cli: Cli, busy: Engine) -> None:
    document = cli("top", "--once", "--json").json
    assert {(row["kind"], row["phase"]): row["entities"] for row in document["counts"]}[("step", "running")] == 2
    assert document == {**busy.one("select tasker.live_overview('10 s')"), **{
        name: document[name] for name in ("at", "rates", "queues", "workers")
    }}  # fmt: skip


def test_wrong_options(cli: Cli) -> None:
    assert "--interval" in cli("top", "--interval", "0", expect=2).stderr
    assert "TK400" in cli("top", "--once", "--last", "1 day", expect=1).stderr


@contextmanager
def running(database: str, *args: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PGTASKER_DSN": database, "TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
    with subprocess.Popen([sys.executable, "-m", "pgtasker.cli", "top", *args], env=environment, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_lines_of_json_until_it_is_interrupted(database: str, busy: Engine) -> None:
    with running(database, "--json", "--interval", "0.01", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first, second = json.loads(process.stdout.readline()), json.loads(process.stdout.readline())
        assert first["at"] < second["at"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_on_a_terminal_it_is_drawn_again_and_again(database: str, busy: Engine) -> None:
    ours, theirs = pty.openpty()
    with running(database, "--interval", "0.05", stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        screen = b""

        def shows(text: bytes) -> bool:
            nonlocal screen
            screen += os.read(ours, 65536)
            return text in screen

        wait_until(lambda: shows(b"lathe-1"), "the first screen")
        assert b"1 of 1 workers busy" in screen
        screen = b""
        held = busy.rows("select workflow_step_uuid, claim_uuid from tasker.step_overview where phase = 'running'")
        busy.complete(held)
        wait_until(lambda: shows(b"0 of 1 workers busy"), "a later screen")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, "its end")
        assert process.returncode == 130
    os.close(ours)
