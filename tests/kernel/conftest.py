"""The engine on a fresh database."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.kernel.engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    """The engine as superuser: tests may shift its clock and look at every table."""
    return Engine(conn)
