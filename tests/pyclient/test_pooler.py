"""Client and worker through a real PgBouncer in transaction mode, with LISTEN on a direct connection."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
import pytest

from pgtasker import Client, Worker
from tests.pooler import needs_pgbouncer, pooler
from tests.pyclient.conftest import eventually, graph
from tests.pyclient.test_worker import echo, running

__all__ = ["pooler"]
pytestmark = needs_pgbouncer

TASKS = 30  # more than the five after which a statement would be prepared


def test_everything_works_with_listening_on_a_direct_connection(
    database: str, pooler: str, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    worker = echo(Worker(pooler, listen_dsn=database, pgbouncer=True, concurrency=8), "work")
    with (
        caplog.at_level(logging.WARNING, "pgtasker"),
        Client(pooler, listen_dsn=database, pgbouncer=True, max_size=8) as client,
        running(worker),
    ):
        eventually(lambda: conn.execute("select count(*) from tasker.workers").fetchone() == (1,))
        tasks = [client.create_task_from_graph(graph("a", "b<a", "c<a", "d<b,c")) for _ in range(TASKS)]
        for task in tasks:
            assert client.wait(task, timeout=60).phase == "succeeded"
        assert sum(1 for _ in client.events(follow=False)) > 4 * TASKS
        assert client.check_consistency() == []
        sessions = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and client_port is not null"
            " and application_name like 'pgtasker%' and query not ilike 'listen%'"
        ).fetchone()
    # the worker's four connections and the client's eight are no more sessions than the pool has
    assert sessions is not None
    assert sessions[0] <= 4 + 2
    assert caplog.text == ""


def test_a_worker_that_listens_through_it_says_so_and_polls(pooler: str, caplog: pytest.LogCaptureFixture) -> None:
    worker = echo(Worker(pooler, pgbouncer=True, poll_interval=0.1), "work")
    with (
        caplog.at_level(logging.WARNING, "pgtasker.worker"),
        Client(pooler, pgbouncer=True) as client,
        running(worker),
    ):
        eventually(lambda: "notifications do not arrive" in caplog.text)
        task = client.create_task_from_graph(graph("a"))
        assert client.wait(task, timeout=60).phase == "succeeded"


def test_statements_that_were_prepared_get_lost_without_the_switch(pooler: str) -> None:
    """Why there is the switch: the session in which a statement was prepared is another client's next time."""
    with psycopg.connect(pooler, autocommit=True, prepare_threshold=0) as first:
        first.execute("select %s::int", (1,))
        with psycopg.connect(pooler, autocommit=True) as second, pytest.raises(psycopg.Error):
            second.execute("begin")  # takes the session over
            for _ in range(3):
                first.execute("select %s::int", (1,))
