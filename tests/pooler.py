"""A real PgBouncer in transaction mode in front of a test's database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench import pooler as pgbouncer
from tests.conftest import TestServer

needs_pgbouncer = pytest.mark.skipif(not pgbouncer.is_here(), reason="no PgBouncer here (Debian: pgbouncer)")


@pytest.fixture
def pooler(server: TestServer, database: str, server_folder: Path) -> Iterator[str]:
    """Connection string of `database` through PgBouncer: a session of the server lasts as long as a transaction."""
    with pgbouncer.running(database, server.server.status().user, server_folder) as dsn:
        psycopg.connect(dsn).close()
        yield dsn
