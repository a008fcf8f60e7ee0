"""A real PgBouncer in transaction mode in front of a test's database."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import TestServer
from tests.workflow.engine import wait_until

PGBOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"

needs_pgbouncer = pytest.mark.skipif(not Path(PGBOUNCER).exists(), reason="no PgBouncer here (Debian: pgbouncer)")

_CONFIGURATION = """\
[databases]
{dbname} = host={host} port={port} dbname={dbname}
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture
def pooler(server: TestServer, database: str, server_folder: Path) -> Iterator[str]:
    """Connection string of `database` through PgBouncer: a session of the server lasts as long as a transaction."""
    place = conninfo_to_dict(database)
    account = server.server.status().user
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=server_folder))
    shutil.chown(folder, account)
    (folder / "pgbouncer.ini").write_text(_CONFIGURATION.format(folder=folder, **place))
    (folder / "users").write_text('"postgres" ""\n')
    # as the account that may enter the server's socket folder; PgBouncer refuses to run as root anyway
    process = subprocess.Popen([PGBOUNCER, "-q", folder / "pgbouncer.ini"], user=account, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: process.poll() is not None or (folder / ".s.PGSQL.6432").exists(), "PgBouncer's socket")
        assert process.poll() is None, process.communicate()[1]
        dsn = make_conninfo("", host=str(folder), port=6432, user="postgres", dbname=str(place["dbname"]))
        psycopg.connect(dsn).close()
        yield dsn
    finally:
        process.terminate()
        process.communicate()
        shutil.rmtree(folder)
