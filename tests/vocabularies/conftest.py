"""One database a module; each test works in a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.vocabularies.lab import Lab


@pytest.fixture(scope="module")
def module_conn(server: TestServer) -> Iterator[psycopg.Connection[Any]]:
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def lab(module_conn: psycopg.Connection[Any]) -> Iterator[Lab]:
    """The engine in a namespace of its own; what a test leaves waiting is cleared after it."""
    lab = Lab(module_conn)
    yield lab
    lab.clear()


@pytest.fixture
def rules(module_conn: psycopg.Connection[Any]) -> Lab:
    """The engine for tests that only read the rules."""
    return Lab(module_conn)
