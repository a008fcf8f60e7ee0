"""`pgtasker metrics serve`: what Prometheus gets over HTTP, and what it gets while the database is away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.cli.conftest import Cli
from tests.conftest import TestServer
from tests.kernel.engine import Engine, chain
from tests.metrics.test_prometheus import of, parse
from tests.workflow.engine import wait_until


class Endpoint:
    """A running `pgtasker metrics serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"serving http://127\.0\.0\.1:(\d+)/metrics\n", line)
        assert found, line
        self.port = int(found[1])

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """(status, content type, body)"""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
        finally:
            connection.close()


@contextmanager
def serving(dsn: str, *args: str) -> Iterator[Endpoint]:
    command = [sys.executable, "-m", "pgtasker.cli", "metrics", "serve", "--port", "0", *args]
    environment = {**os.environ, "PGTASKER_DSN": dsn}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Endpoint(process)
        finally:
            process.kill()


def test_prometheus_gets_what_the_function_returns(engine: Engine, database: str) -> None:
    engine.task(chain("a", "b"), namespace="mine")
    with serving(database) as endpoint:
        status, kind, text = endpoint.get("/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert of(parse(text), "pgtasker_queue_depth", namespace="mine") == {("worker_mine_queue",): 1}
        engine.finish(engine.worker())
        assert of(parse(endpoint.get("/metrics?x=1")[2]), "pgtasker_queue_depth", namespace="mine") == {
            ("worker_mine_queue",): 0
        }
        status, _, body = endpoint.get("/metrics", "HEAD")
        assert (status, body) == (200, "")
        assert endpoint.get("/healthy")[::2] == (200, "alive\n")
        assert endpoint.get("/")[0] == 404
        assert endpoint.get("/metrics", "POST")[0] == 501
        endpoint.process.send_signal(signal.SIGINT)
        assert endpoint.process.wait(30) == 130


def test_the_monitors_role_is_enough(database: str, login: Any) -> None:
    with serving(login("tasker_monitor")) as endpoint:
        assert endpoint.get("/metrics")[0] == 200


def test_while_the_database_is_away_it_says_so_and_comes_back(database: str, server: TestServer) -> None:
    name = conninfo_to_dict(database)["dbname"]
    with serving(database, "--timeout", "1") as endpoint:
        assert endpoint.get("/metrics")[0] == 200
        server.admin.execute(f'alter database "{name}" with allow_connections false'.encode())
        server.admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        status, _, body = endpoint.get("/metrics")
        assert (status, bool(body.strip())) == (503, True)
        assert endpoint.get("/healthy")[0] == 200
        server.admin.execute(f'alter database "{name}" with allow_connections true'.encode())
        wait_until(lambda: endpoint.get("/metrics")[0] == 200, "the next good scrape")


def test_what_it_can_not_serve_is_told_at_once(cli: Cli, run_cli: Cli, database: str) -> None:
    run_cli("metrics", "serve", "--dsn", "host=/nowhere dbname=x", expect=3)
    with serving(database) as endpoint:
        assert "can't listen" in cli("metrics", "serve", "--port", str(endpoint.port), expect=1).stderr


def test_the_other_ways_to_the_text_still_work(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    assert "pgtasker_info" in cli("metrics", "--prometheus").stdout
    assert cli("metrics", "--last", "1 day", "--json").json["queues"]
    with pytest.raises(AssertionError, match="ended with 2"):
        cli("metrics", "no_such")
