"""Servers, databases and connections for every test.

A test that uses `database` (or `conn`, `connect`, `as_role`, `login`) runs once on each server: `pg18` from the
embedded wheel, `pg15` from Debian, and `pg16` and `pg17` where Debian's are installed; what would show nothing new
elsewhere (`ON_THE_FIRST_SERVER`) only on the first of them. `PGTASKER_TEST_SERVERS=pg18` (comma separated) chooses;
`pg17=/folder/of/programs` names one that stands elsewhere. Each test gets a database of its own, cloned from a template
that was migrated once per server.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgtasker.server import EmbeddedServer
from pgtasker.testing import FAST, Databases, template_name, throwaway_folder

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
DEBIAN = {f"pg{major}": Path(f"/usr/lib/postgresql/{major}/bin") for major in (15, 16, 17)}
CHOSEN = [name.strip() for name in os.environ.get("PGTASKER_TEST_SERVERS", "").split(",") if name.strip()]

SERVERS: dict[str, Path | None] = {
    "pg18": None,
    "pg15": DEBIAN["pg15"],
    **{name: programs for name, programs in DEBIAN.items() if (programs / "initdb").exists()},
    **{name: Path(programs) for name, _, programs in (given.partition("=") for given in CHOSEN) if programs},
}
"""Test id of each server -> its programs; None for the embedded wheel."""

ON_THE_FIRST_SERVER = {
    # what stands above SQL
    "cli",
    "docs",
    "pyclient",
    "testing",
    "web",
    # features in SQL as plain as that of the kernel and the workflow, whose bodies plpgsql_check reads on the others
    "attach",
    "children",
    "events",
    "export",
    "limits/test_limits.py",
    "metrics",
    "observe/test_explain.py",
    "operate/test_command_all.py",
    "operate/test_diagnose.py",
    "operate/test_failure_policy.py",
    "operate/test_recover.py",
    "payloads",
    "schedules",
    "vocabularies",
    "workers/test_handlers.py",
    "workflow/test_compensation.py",
    "workflow/test_conditions.py",
    "workflow/test_decisions.py",
    "workflow/test_dependency_rules.py",
    "workflow/test_maps.py",
    "workflow/test_starting.py",
    "workflow/test_unique.py",
    # long walks through calls that other tests make there
    "access/test_forgery.py",
    "access/test_hijack.py",
    "access/test_hostile_input.py",
    "access/test_interruption.py",
    "access/test_secrets.py",
    "audit/test_completeness.py",
    "audit/test_counts.py",
    "audit/test_seals.py",
}
"""Folders and files whose tests run on the first server only, since they would show nothing new on another one."""

ON_EVERY_SERVER = {
    "test_a_diamond_of_each_kind_of_handler",
    "test_a_prepared_transaction_that_was_forgotten",
    "test_a_role_that_is_missing",
    "test_a_transaction_that_was_forgotten",
    "test_a_workflow_from_template_to_audit",
    "test_an_operator_diagnoses_and_is_told_what_is_hidden",
    "test_an_order_is_shipped",
    "test_demo_end_to_end",
    "test_failures_retries_and_repairs_by_hand",
    "test_functions_of_pgmq_that_are_missing",
    "test_manual_actions_on_steps_and_tasks",
    "test_migrate",
    "test_python_and_sql_do_what_the_readme_shows",
    "test_settings_of_tables_and_slots",
    "test_settings_of_the_server",
    "test_template_to_audit_trail",
    "test_the_example_runs_and_is_the_one_in_the_document",
    "test_the_logins_can_do_their_work_and_no_more",
    "test_what_is_gone_is_told_with_what_should_be_there",
    "test_what_somebody_added_does_not_become_ours_by_a_migration",
}
"""Tests among them that do: those that together send nearly all statements of the client and the command line, and those
of diagnose about catalogues and settings, which differ from version to version."""

# A test server may lose everything, and is silent; some tests prepare transactions.
SETTINGS: dict[str, str] = {
    **FAST,
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
    "max_prepared_transactions": "4",
}

TEMPLATE = template_name()


def _server_parameters() -> list[Any]:
    chosen = [name.partition("=")[0] for name in CHOSEN] or list(SERVERS)
    unknown = set(chosen) - set(SERVERS)
    if unknown:
        raise pytest.UsageError(f"PGTASKER_TEST_SERVERS: unknown {sorted(unknown)}, there are {sorted(SERVERS)}")
    parameters = []
    for name in chosen:
        programs = SERVERS[name]
        missing = programs is not None and not (programs / "initdb").exists()
        marks = [pytest.mark.skip(reason=f"no PostgreSQL in {programs}")] if missing else []
        parameters.append(pytest.param(name, id=name, marks=marks))
    return parameters


def pytest_configure() -> None:
    """Let programs that tests start be interrupted; a job in the background of a shell inherits that SIGINT is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repetitions."""
    first = _server_parameters()[0].id
    kept, left_out = [], []
    for item in items:
        chosen = getattr(item, "callspec", None)
        server = chosen.params.get("bare_server") if chosen else None
        path = item.path.relative_to(TESTS)
        listed = not ON_THE_FIRST_SERVER.isdisjoint({path.as_posix(), path.parts[0]})
        if server not in (None, first) and listed and getattr(item, "originalname", None) not in ON_EVERY_SERVER:
            left_out.append(item)
        else:
            kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for server folders; not pytest's own, which is closed to the user the server runs as."""
    with throwaway_folder(SERVERS) as folder:
        yield folder


@dataclass(frozen=True)
class TestServer:
    """A running server whose template database holds a migrated schema."""

    __test__ = False

    name: str
    version: int
    server: EmbeddedServer
    admin: psycopg.Connection[Any]

    def dsn(self, dbname: str, user: str = "postgres") -> str:
        return self.server.uri(dbname, user)

    @functools.cached_property
    def databases(self) -> Databases:
        """Makes and removes databases of this server."""
        return Databases(self.server.uri())


@pytest.fixture(scope="session")
def servers(server_folder: Path) -> Iterator[Callable[[str], TestServer]]:
    """The servers by name, each started when it is first wanted."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def server_named(name: str) -> TestServer:
            folder = server_folder / name
            server = running.enter_context(EmbeddedServer(folder, bin_dir=SERVERS[name], settings=SETTINGS))
            admin = running.enter_context(psycopg.connect(server.uri(), autocommit=True))
            return TestServer(name, server.status().version, server, admin)

        yield server_named


@pytest.fixture(scope="session", params=_server_parameters())
def bare_server(request: pytest.FixtureRequest, servers: Callable[[str], TestServer]) -> TestServer:
    """A running server with nothing of pgtasker in it."""
    return servers(request.param)


@pytest.fixture(scope="session")
def server(bare_server: TestServer) -> TestServer:
    """A running server with a migrated template database."""
    bare_server.databases.template()
    return bare_server


@contextlib.contextmanager
def fresh_database(server: TestServer, template: str = "template0") -> Iterator[str]:
    """A database that lives as long as the block."""
    with server.databases.fresh(template) as dsn:
        yield dsn


@pytest.fixture
def database(server: TestServer) -> Iterator[str]:
    """Connection string of a fresh, migrated database, as superuser."""
    with fresh_database(server, TEMPLATE) as dsn:
        yield dsn


@pytest.fixture
def new_database(bare_server: TestServer) -> Iterator[Callable[[], str]]:
    """Factory of fresh databases without anything of pgtasker: `new_database() -> connection string`."""
    with contextlib.ExitStack() as databases:
        yield lambda: databases.enter_context(fresh_database(bare_server))


@pytest.fixture
def empty_database(new_database: Callable[[], str]) -> str:
    """Connection string of a fresh database without anything of pgtasker, as superuser."""
    return new_database()


Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def connect(database: str) -> Iterator[Connect]:
    """Factory of connections to `database`: `connect(role=None, **psycopg_arguments)`.

    Autocommit unless `autocommit=False`. With `role`, the session acts as that role (SET ROLE) from the start.
    """
    opened: list[psycopg.Connection[Any]] = []

    def open_connection(role: str | None = None, **arguments: Any) -> psycopg.Connection[Any]:
        connection = psycopg.connect(database, **{"autocommit": True, **arguments})
        opened.append(connection)
        if role is not None:
            connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
            if not connection.autocommit:
                connection.commit()
        return connection

    yield open_connection
    for connection in opened:
        connection.close()


@pytest.fixture
def conn(connect: Connect) -> psycopg.Connection[Any]:
    """An autocommit connection to `database`, as superuser."""
    return connect()


@pytest.fixture
def as_role(connect: Connect) -> Callable[[str], psycopg.Connection[Any]]:
    """Return a connection to `database` that acts as a role: `as_role("tasker_client").execute(...)`."""
    return lambda role: connect(role=role)


@pytest.fixture
def login(server: TestServer, database: str, conn: psycopg.Connection[Any]) -> Iterator[Callable[..., str]]:
    """Make a real login that is a member of roles: `login("tasker_worker") -> connection string`.

    A login differs from SET ROLE in session_user, which the audit records.
    """
    made: list[str] = []

    def make(*roles: str) -> str:
        name = f"login_{uuid.uuid4().hex[:12]}"
        conn.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
        made.append(name)
        for role in roles:
            conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
        return make_conninfo(database, user=name)

    yield make
    for name in made:
        conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the repository with the five seed documents and the real workflow traces."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("../shared is not here: it holds the seed documents and the workflow traces")
    return folder
