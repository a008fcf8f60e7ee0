"""The commands' way to the database: the server's address, the client, and plain reads of views and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgtasker.cli import _output as output
from pgtasker.cli._errors import CommandError, usage_error
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Params, QueryNoTemplate

    from pgtasker import Client

APPLICATION_NAME = "pgtasker-cli"


@dataclass
class Database:
    """One server for the length of a command.

    Plain reads run on ``connection`` (autocommit), the contract's functions through ``client``.
    """

    dsn: str
    connection: psycopg.Connection[dict[str, Any]]

    @cached_property
    def client(self) -> Client:
        """The client on the same server; opened at its first use."""
        from pgtasker import Client

        return Client(self.dsn, max_size=2, application_name=APPLICATION_NAME)

    def rows(self, query: QueryNoTemplate, params: Params | None = None) -> list[dict[str, Any]]:
        """All rows of a query, as dicts."""
        return self.connection.execute(query, params).fetchall()

    def row(self, query: QueryNoTemplate, params: Params | None = None) -> dict[str, Any] | None:
        """The first row, or None."""
        return self.connection.execute(query, params).fetchone()

    def value(self, query: QueryNoTemplate, params: Params | None = None) -> Any:
        """The first column of the first row, or None."""
        row = self.row(query, params)
        return None if row is None else next(iter(row.values()))

    def step_uuid(self, step: str) -> UUID:
        """The step named by its uuid, or by ``TASK_UUID/STEP_NAME``.

        Raises CommandError for text that is neither, or a task without a step of that name.
        """
        task, slash, name = step.partition("/")
        if not slash:
            return parse_uuid(step, "a step is named by its uuid or by TASK_UUID/STEP_NAME")
        found = self.value(
            "select workflow_step_uuid from tasker.step_overview where task_uuid = %s and name = %s",
            (parse_uuid(task, "a step is named by its uuid or by TASK_UUID/STEP_NAME"), name),
        )
        if found is None:
            raise CommandError(f"task {task} has no step named {name!r}", hint=f"list them: pgtasker task steps {task}")
        return UUID(str(found))

    def close(self) -> None:
        """Close whatever was opened."""
        if "client" in self.__dict__:
            self.client.close()
        self.connection.close()


def parse_uuid(text: str, hint: str) -> UUID:
    """Text as a UUID; raises CommandError (wrong usage) for anything else."""
    try:
        return UUID(text)
    except ValueError:
        raise usage_error(f"{text!r} is not a uuid", hint) from None


def optional_uuid(text: str | None, option: str) -> UUID | None:
    """An option's text as a UUID, None where it was not given."""
    return None if text is None else parse_uuid(text, f"{option} takes a uuid")


def given_dsn() -> str | None:
    """The server named by ``--dsn``, ``PGTASKER_DSN`` or ``DATABASE_URL``; None where the embedded one is meant.

    SQLAlchemy's spelling (``postgresql+psycopg://``) is accepted.
    """
    from pgtasker.server import configured_dsn

    if settings.dsn is not None:
        return re.sub(r"^postgres(?:ql)?\+\w+://", "postgresql://", settings.dsn)
    return configured_dsn()


def server_dsn(*, embedded: bool = False, migrated: bool = True) -> str:
    """The address of the server in use; ``embedded`` leaves out every other one.

    The embedded server is started if it does not run, and brought to the newest schema if ``migrated``; a server of
    the user's own is left as it is. Raises pgtasker.server.ServerError where the embedded server cannot be started,
    pgtasker.migrate.MigrationError where the schema cannot be installed.
    """
    given = None if embedded else given_dsn()
    if given is not None:
        return given
    from pgtasker.server import EmbeddedServer

    server = EmbeddedServer()
    if not server.status().running:
        output.talk(f"starting the embedded PostgreSQL in {server.data_dir}")
    dsn = server.start().ensure_database()
    if migrated:
        _migrate_embedded(dsn)
    return dsn


def _migrate_embedded(dsn: str) -> None:
    from pgtasker import __version__, migrate

    info = migrate.schema_info(dsn)
    # Asked here first: upgrade() asks the same, but needs Alembic's imports for it, and this runs before every command.
    if (info.get("schema_version"), info.get("sql_tree_checksum")) == (__version__, migrate.sql_tree_checksum()):
        return
    output.talk(f"{'upgrading' if info else 'installing'} the schema")
    migrate.upgrade(dsn)


@contextmanager
def database() -> Iterator[Database]:
    """Open the server of this command line: ``--dsn``, else ``PGTASKER_DSN`` or ``DATABASE_URL``, else the embedded
    one.

    Raises psycopg.OperationalError where no server answers within a few seconds, and SchemaMissing where a given
    server has no schema yet.
    """
    import psycopg
    from psycopg.rows import dict_row

    from pgtasker.errors import SchemaMissing

    dsn = server_dsn()
    with psycopg.connect(
        with_timeout(dsn), autocommit=True, row_factory=dict_row, application_name=APPLICATION_NAME
    ) as connection:
        opened = Database(dsn, connection)
        if not opened.value("select to_regprocedure('tasker.schema_version()') is not null"):
            raise SchemaMissing(
                "the schema 'tasker' is not installed on this server", hint="install it: pgtasker migrate"
            )
        try:
            yield opened
        finally:
            opened.close()


def server_name(db: Database) -> str:
    """Where the server is, for a person: version, host or data folder, database. Never a password."""
    info = db.connection.info
    where = f"on {info.host}:{info.port}"
    if given_dsn() is None:
        from pgtasker.server import default_data_dir

        where = f"embedded in {default_data_dir()}"
    return f"PostgreSQL {info.server_version // 10000}.{info.server_version % 10000}, {where}, database {info.dbname}"


def with_timeout(dsn: str) -> str:
    """The DSN with a connect timeout of 10 s where it states none: a person waits at the other end."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    return dsn if "connect_timeout" in conninfo_to_dict(dsn) else make_conninfo(dsn, connect_timeout=10)
