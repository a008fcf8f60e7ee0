"""A database in which a little of everything happened, shared by the tests of a module; fresh ones for the others."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.cli.conftest import cli, run_cli
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.export.history import live
from tests.kernel.conftest import engine
from tests.kernel.engine import Engine

__all__ = ["cli", "engine", "run_cli"]


@pytest.fixture(scope="module")
def lived(server: TestServer) -> Iterator[str]:
    """Connection string of a database with a history under all five vocabularies and a sixth."""
    with fresh_database(server, TEMPLATE) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            live(conn)
        yield dsn


@pytest.fixture
def history(lived: str) -> Iterator[Engine]:
    """The engine on that database, for tests that only read."""
    with psycopg.connect(lived, autocommit=True) as conn:
        yield Engine(conn)
