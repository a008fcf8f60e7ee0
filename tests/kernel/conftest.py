"""The engine on a fresh database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    """The engine as superuser: tests may shift its clock and look at every table."""
    return Engine(conn)


@pytest.fixture(scope="module")
def shared_conn(server: TestServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database that the tests of a module share: a quarter of the time of a database each."""
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def rules(shared_conn: psycopg.Connection[Any]) -> Engine:
    """The engine for tests that only read the rules."""
    return Engine(shared_conn)


@pytest.fixture
def tenant(shared_conn: psycopg.Connection[Any]) -> Engine:
    """The engine in a namespace of its own, for tests that leave alone what is shared: other tasks and the session."""
    return Engine(shared_conn, f"tenant-{uuid4().hex}")
