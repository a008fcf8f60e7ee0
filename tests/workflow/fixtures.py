"""Fixtures over the engine, shared by the folders that test it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.workflow.engine import Engine

OpenEngine = Callable[..., Engine]

on_one_server = pytest.mark.parametrize(
    "bare_server",
    [os.environ.get("PGTASKER_TEST_SERVERS", "pg18").split(",")[0].partition("=")[0].strip()],
    indirect=True,
)
"""For heavy tests whose promise does not hang on the version of the server."""


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    """The engine in a fresh database, over one autocommit connection."""
    return Engine(conn)


@pytest.fixture
def open_engine(connect: Callable[..., psycopg.Connection[Any]]) -> OpenEngine:
    """Open the same database in another session: `open_engine(role=None, **psycopg_arguments)`."""
    return lambda **arguments: Engine(connect(**arguments))
