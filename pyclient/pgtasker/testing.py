"""For tests of services that use pgtasker: a database of its own for each test, and what to do and say with it.

In a conftest.py: ``pytest_plugins = ["pgtasker.testing"]``. Fixtures: ``pgtasker_databases`` (session),
``pgtasker_dsn`` and ``workbench``. See docs/testing.md.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import hashlib
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pytest_postgresql.janitor import DatabaseJanitor

from . import Client, PermanentError, RetryAfter, Worker, migrate
from .server import EmbeddedServer

if TYPE_CHECKING:
    from ._rows import ClaimedStep, TickCounts
    from ._worker import WorkerSummary

__all__ = [
    "FAST",
    "Databases",
    "Workbench",
    "pgtasker_databases",
    "pgtasker_dsn",
    "template_name",
    "throwaway_folder",
    "workbench",
]

FAST: dict[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "1h",
    "jit": "off",
}
"""Settings of a server that may lose everything: no flush, no full page images."""

_FOLDER_PREFIX = "pgtasker-test-"
_MAKING = 123624912155500
"""Key of the advisory lock under which a template is made."""


# -- servers and databases ---------------------------------------------------------------------------------------------


def _fast_folder() -> Path:
    """Memory where there is plenty: a clone of the template takes 13 ms there, up to half a second on a busy disk."""
    memory = Path("/dev/shm")  # noqa: S108 (a folder of a name of its own is made in it)
    with contextlib.suppress(OSError):
        room = os.statvfs(memory)
        if os.access(memory, os.W_OK) and room.f_bavail * room.f_frsize > 2 * 1024**3:
            return memory
    return Path(tempfile.gettempdir())


def _remove_leftovers(programs: Mapping[str, Path | None]) -> None:
    """Stop servers and remove folders of killed runs; the name of a folder ends with the process id of its run."""
    for folder in _fast_folder().glob(f"{_FOLDER_PREFIX}*"):
        owner = folder.name.rpartition("-")[2]
        with contextlib.suppress(FileNotFoundError):  # another run removes it, or its own run has just ended
            if folder.stat().st_uid != os.geteuid() or not owner.isdigit() or Path(f"/proc/{owner}").exists():
                continue
            for data_dir in folder.iterdir():
                with contextlib.suppress(Exception):
                    EmbeddedServer(data_dir, bin_dir=programs.get(data_dir.name)).stop("immediate")
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def throwaway_folder(programs: Mapping[str, Path | None] | None = None) -> Iterator[Path]:
    """A folder for the data of test servers, in memory where there is room; removed with what killed runs left.

    Args:
        programs: the folder of the programs by the name of a server's folder, where they are not the embedded ones.
    """
    _remove_leftovers(programs or {})
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, suffix=f"-{os.getpid()}", dir=_fast_folder()))
    folder.chmod(0o711)  # the server may run as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def template_name() -> str:
    """The name of the template database of this version of the schema: of its tables and of its functions."""
    migrations = sorted(path.name for path in (migrate.MIGRATIONS / "sql").glob("*.sql"))
    digest = hashlib.sha256("\n".join([migrate.sql_tree_checksum(), *migrations]).encode()).hexdigest()
    return f"pgtasker_template_{digest[:16]}"


def _uri(conninfo: str, dbname: str) -> str:
    """The connection string of another database of a server, as a URI, which SQLAlchemy reads too."""
    place = conninfo_to_dict(conninfo, dbname=dbname)
    login = [quote(str(place.pop(part)), safe="") for part in ("user", "password") if part in place]
    name = quote(str(place.pop("dbname")), safe="")
    return f"postgresql://{':'.join(login)}@/{name}?{urlencode(place, quote_via=quote)}"


@dataclass(frozen=True)
class Databases:
    """Fresh databases of one server, cloned from a template that is migrated once.

    Attributes:
        server: connection string of a login that may create databases and, the first time, roles.
    """

    server: str
    _kept: list[psycopg.Connection[Any]] = field(default_factory=list, init=False, repr=False, compare=False)

    def template(self) -> str:
        """Return the name of the migrated template; it is made when it is missing, by one of several callers."""
        return self._template

    @functools.cached_property
    def _template(self) -> str:
        name = template_name()
        with psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute("select pg_advisory_lock(%s)", (_MAKING,))
            if admin.execute("select from pg_database where datname = %s", (name,)).fetchone() is None:
                # Under another name until it is whole: a run that is killed here leaves no half template.
                making, made = sql.Identifier(f"{name}_making"), sql.Identifier(name)
                admin.execute(sql.SQL("drop database if exists {} with (force)").format(making))
                admin.execute(sql.SQL("create database {} template template0").format(making))
                migrate.upgrade(make_conninfo(self.server, dbname=f"{name}_making"))
                admin.execute(sql.SQL("alter database {} rename to {}").format(making, made))
        return name

    @contextlib.contextmanager
    def fresh(self, template: str | None = None) -> Iterator[str]:
        """A database for the length of a block; yields its connection string.

        Args:
            template: what it is a copy of, ``template0`` for an empty one; None: the migrated template.
        """
        name = f"test_{uuid.uuid4().hex}"
        with _Janitor(self._admin, name, self.template() if template is None else template):
            yield _uri(self.server, name)

    def _admin(self) -> psycopg.Connection[Any]:
        """A connection that is kept, since every test needs it twice; another one after a restart of the server."""
        if self._kept:
            with contextlib.suppress(psycopg.OperationalError):
                self._kept[0].execute("select")
                return self._kept[0]
            self._kept.pop().close()
        connection = psycopg.connect(self.server, autocommit=True)
        weakref.finalize(self, connection.close)
        self._kept.append(connection)
        return connection


class _Janitor(DatabaseJanitor):
    """Copies the files of a template: a quarter of the time of the default, which logs every page."""

    def __init__(self, admin: Callable[[], psycopg.Connection[Any]], name: str, template: str) -> None:
        at = admin().info
        super().__init__(user=at.user, host=at.host, port=at.port, dbname=name, template_dbname=template)
        self._admin = admin

    @contextlib.contextmanager
    def cursor(self, dbname: str | None = None) -> Iterator[psycopg.Cursor[Any]]:
        with self._admin().cursor() as cursor:
            yield cursor

    def _build_create_database_sql(self) -> sql.Composed:
        return super()._build_create_database_sql() + sql.SQL(" STRATEGY file_copy")


# -- what a test does --------------------------------------------------------------------------------------------------


class Workbench:
    """A client, a connection, and the things that tests do and say.

    Attributes:
        dsn: connection string of the database, as a superuser or its owner.
        client: a client on it.
        connection: a connection in autocommit, for plain SQL.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.client = Client(dsn, max_size=4, application_name="pgtasker-testing")
        self.connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._workers: dict[tuple[str, ...], UUID] = {}

    def close(self) -> None:
        """Close what is open."""
        self.client.close()
        self.connection.close()

    def run_until_idle(self, worker: Worker, *, timeout: float = 60.0) -> WorkerSummary:
        """Run a worker's real handlers on this database until nothing is ready, running or due.

        Raises:
            WaitTimeout: there still was something to do after ``timeout`` seconds.
        """
        worker.dsn = self.dsn
        return worker.run_until_idle(timeout=timeout)

    def drain(self, results: Mapping[str, Any] | None = None, *, capabilities: Sequence[str] = ()) -> int:
        """Do all work without handlers of one's own; returns how many steps were run.

        Args:
            results: what becomes of a step, by the name of its handler or of the step itself: its result, a callable
                that gets the claimed step and returns the result, or an exception, raised or given: ``PermanentError``
                and ``RetryAfter`` mean what they mean in handlers, any other is transient. Other steps result in None.
            capabilities: what the steps may require.
        """
        wanted = dict(results or {})
        worker = self._worker(tuple(capabilities))
        done = 0
        self._settle()
        while claimed := self.client.claim_steps(worker, limit=100):
            self.client.complete_steps([_report(step, wanted) for step in claimed])
            done += len(claimed)
            self._settle()
        return done

    def advance(self, by: float | dt.timedelta) -> TickCounts:
        """Move the clock by which leases, timers and timeouts are judged, and fire what is due then.

        Evidence keeps the real time. Returns what fired.

        Args:
            by: seconds.
        """
        seconds = by.total_seconds() if isinstance(by, dt.timedelta) else by
        self.connection.execute(
            "insert into tasker.test_clock as known (shift) values (make_interval(secs => %s))"
            " on conflict (singleton) do update set shift = known.shift + excluded.shift",
            (seconds,),
        )
        return self.client.tick()

    def states(self, task_uuid: UUID | str) -> dict[str, str]:
        """The state of each step of a task, by its name."""
        return {step.name: step.state for step in self.client.steps(task_uuid)}

    def history(self, entity_uuid: UUID | str) -> list[tuple[str | None, str, str]]:
        """What a task or a step went through, oldest first: (state before, event, state after)."""
        return self.connection.execute(
            "select from_state, event, to_state from tasker.timeline where entity_uuid = %s order by sort_key",
            (str(entity_uuid),),
        ).fetchall()

    def assert_transition(
        self,
        entity_uuid: UUID | str,
        from_state: str | None,
        to_state: str,
        *,
        event: str | None = None,
        times: int = 1,
    ) -> None:
        """Fail, with what a task or step really went through, unless it made this transition exactly so often.

        Args:
            entity_uuid: the task or step.
            from_state: state before; None for the first one.
            to_state: state after.
            event: what happened; None: whatever it was.
            times: how often.
        """
        history = self.history(entity_uuid)
        found = sum(
            (before, after) == (from_state, to_state) and event in (None, happened)
            for before, happened, after in history
        )
        if found != times:
            path = "\n".join(f"  {before or '(new)'} --{happened}--> {after}" for before, happened, after in history)
            wanted = f"{from_state or '(new)'} --{event or '*'}--> {to_state}"
            raise AssertionError(
                f"{wanted} was made {found} times, not {times}; {entity_uuid} went:\n{path or '  nowhere'}"
            )

    def assert_consistent(self) -> None:
        """Fail with what ``check_consistency`` finds, if it finds anything."""
        findings = self.client.check_consistency()
        if findings:
            raise AssertionError("\n".join(str(finding) for finding in findings))

    def _worker(self, capabilities: tuple[str, ...]) -> UUID:
        if capabilities not in self._workers:
            # however far the clock is moved
            self._workers[capabilities] = self.client.register_worker(
                "pgtasker.testing", capabilities, heartbeat_interval=dt.timedelta(days=366)
            )
        return self._workers[capabilities]

    def _settle(self) -> None:
        while True:
            drained, ticked = self.client.orchestrate(limit=1000), self.client.tick()
            if not (drained.messages or ticked.timers_fired or ticked.leases_expired):
                return


def _report(step: ClaimedStep, results: Mapping[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = {"step_uuid": str(step.workflow_step_uuid), "claim_uuid": str(step.claim_uuid)}
    result = results.get(step.name, results.get(step.handler))
    try:
        if callable(result):
            result = result(step)
        if isinstance(result, BaseException):
            raise result
    except Exception as error:
        report |= {
            "success": False,
            "error": {"type": type(error).__name__, "message": str(error)},
            "category": "permanent" if isinstance(error, PermanentError) else "transient",
        }
        if isinstance(error, RetryAfter):
            report["retry_after"] = error.seconds
        return report
    return {**report, "result": result}


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def pgtasker_databases() -> Iterator[Databases]:
    """The server of the test run: ``PGTASKER_TEST_DSN``, or an embedded one that ends with the run.

    Override it to name a server of your own.
    """
    if dsn := os.environ.get("PGTASKER_TEST_DSN"):
        yield Databases(dsn)
        return
    with throwaway_folder() as folder, EmbeddedServer(folder / "server", settings=FAST) as server:
        yield Databases(server.uri())


@pytest.fixture
def pgtasker_dsn(pgtasker_databases: Databases) -> Iterator[str]:
    """Connection string of a fresh, migrated database."""
    with pgtasker_databases.fresh() as dsn:
        yield dsn


@pytest.fixture
def workbench(pgtasker_dsn: str) -> Iterator[Workbench]:
    """A workbench on a fresh, migrated database."""
    bench = Workbench(pgtasker_dsn)
    try:
        yield bench
    finally:
        bench.close()
