"""PgBouncer in transaction mode, in front of one database of an embedded server."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"

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


def is_here() -> bool:
    """Whether PgBouncer is installed (Debian: pgbouncer)."""
    return Path(PROGRAM).exists()


@contextlib.contextmanager
def running(dsn: str, account: str, parent: Path, patience: float = 30.0) -> Iterator[str]:
    """Connection string of the same database through PgBouncer: a session of the server lasts as long as a transaction.

    `account`: the one that may enter the server's socket folder; PgBouncer refuses to run as root anyway. `parent`: a
    folder that this account may enter too.
    """
    place = conninfo_to_dict(dsn)
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=parent))
    shutil.chown(folder, account)
    (folder / "pgbouncer.ini").write_text(_CONFIGURATION.format(folder=folder, **place))
    (folder / "users").write_text('"postgres" ""\n')
    process = subprocess.Popen([PROGRAM, "-q", folder / "pgbouncer.ini"], user=account, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + patience
        while process.poll() is None and not (folder / ".s.PGSQL.6432").exists():
            if time.monotonic() > until:
                raise TimeoutError("PgBouncer's socket does not appear")
            time.sleep(0.01)
        if process.poll() is not None:
            raise RuntimeError(f"PgBouncer ended: {process.communicate()[1]!r}")
        yield make_conninfo("", host=str(folder), port=6432, user="postgres", dbname=str(place["dbname"]))
    finally:
        process.terminate()
        process.communicate()
        shutil.rmtree(folder)
