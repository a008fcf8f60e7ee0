"""The server that everything is measured on, a fresh database for each measurement, and what the server counted."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from bench import pooler
from pgtasker.server import EmbeddedServer

SETTINGS: dict[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
    "track_functions": "none",
    "autovacuum": "on",
}
"""What differs from PostgreSQL's defaults; every commit is flushed to the disk."""


WAL_FILES = 120
"""So many WAL files stand ready, as on a server that has run for a while: to make a new one is to write 16 MB of zeros,
10 ms in which nobody commits."""


@dataclass(frozen=True)
class Counted:
    """What the server did: WAL in bytes, commits, rows inserted, updated and deleted, processor seconds."""

    wal_bytes: int
    commits: int
    rows: int
    cpu_seconds: float

    def __sub__(self, before: Counted) -> Counted:
        return Counted(
            self.wal_bytes - before.wal_bytes,
            self.commits - before.commits,
            self.rows - before.rows,
            self.cpu_seconds - before.cpu_seconds,
        )


@dataclass(frozen=True)
class Database:
    """One database of the server, made for one measurement."""

    server: EmbeddedServer
    name: str
    pooled_dsn: str | None = None

    @property
    def dsn(self) -> str:
        return self.server.uri(self.name)

    def counted(self) -> Counted:
        """Read the counters; a session hands its own in when it ends, so connections should be closed before."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute("select pg_stat_force_next_flush()")
            row = conn.execute(
                "select (pg_current_wal_lsn() - '0/0')::bigint, xact_commit, tup_inserted + tup_updated + tup_deleted"
                "  from pg_stat_database where datname = current_database()"
            ).fetchone()
        assert row is not None
        pid = self.server.status().pid
        wal_bytes, commits, rows = row
        return Counted(wal_bytes, commits, rows, _cpu_seconds(pid) if pid else 0.0)


def _cpu_seconds(postmaster: int) -> float:
    """Processor seconds of a server and all its processes, those that have ended too; steady where the clock is not."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = stat.read_text().partition(" ")
            fields = rest.rpartition(")")[2].split()
            if int(pid) == postmaster or int(fields[1]) == postmaster:
                ticks += sum(map(int, fields[11:15] if int(pid) == postmaster else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Server:
    """A server in a folder of its own, on the disk and not in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.parent
        self._server = EmbeddedServer(folder, settings=SETTINGS)
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def database(self, template: str | None = None) -> Iterator[Database]:
        """Make a fresh database, or a copy of one, and drop it afterwards."""
        name = f"bench_{next(self._numbers)}"
        self.keep(name, template)
        try:
            yield Database(self._server, name)
        finally:
            with self.admin() as conn:
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def keep(self, name: str, template: str | None = None) -> Database:
        """Make a database that stays until the server is removed."""
        with self.admin() as conn:
            query = sql.SQL("create database {} template {} strategy file_copy")
            conn.execute(query.format(sql.Identifier(name), sql.Identifier(template or "template1")))
            conn.execute("checkpoint")
        return Database(self._server, name)

    @contextlib.contextmanager
    def pooled(self, database: Database) -> Iterator[Database]:
        """The same database, with PgBouncer in front of it for workers."""
        account = self._server.status().user
        with pooler.running(database.dsn, account, self._folder) as dsn:
            yield replace(database, pooled_dsn=dsn)

    def recycle_wal(self) -> None:
        """Use up WAL files, which the next checkpoint keeps for later."""
        with self.admin() as conn:
            for _ in range(WAL_FILES):
                conn.execute("select pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()")
            conn.execute("checkpoint")

    def admin(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self._server.uri(), autocommit=True)

    def version(self) -> str:
        with self.admin() as conn:
            row = conn.execute("show server_version").fetchone()
        assert row is not None
        return str(row[0])


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """Start the server, and remove it with its data at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pgtasker-bench-"))
    folder.chmod(0o711)
    server = Server(folder / "data")
    try:
        server._server.start()
        server.recycle_wal()
        yield server
    finally:
        with contextlib.suppress(Exception):
            server._server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
