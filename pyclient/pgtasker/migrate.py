"""Installs and upgrades schema `tasker`: tables by Alembic, everything else by applying the sql/ tree whole.

One upgrade is one transaction: the owner role and schema are prepared, pgmq is found or installed, the table migrations
run, and after the newest one the sql/ tree is applied. The same pieces, in the same order, make the plain script of
`offline_sql`.

SQL text goes to the driver connection untouched: Alembic's `op.execute` reads `:1` inside JSON as a parameter, and
SQLAlchemy's `exec_driver_sql` trips over `%`.

A service with an Alembic chain of its own calls `prepare(connection)` before and `finish(connection)` after
`context.run_migrations()` in its env.py, with the psycopg connection underneath, and adds
`pgtasker:migrations/versions` to its version_locations.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgtasker import __version__

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Connection as AlchemyConnection

_PACKAGE = Path(__file__).resolve().parent
SQL_TREE = _PACKAGE / "sql"
"""The sql/ tree: folders named by `order.txt`, one object a file."""

MIGRATIONS = _PACKAGE / "migrations"
"""Alembic's script folder."""

# Creating roles is done once, by the role that migrates, before it becomes tasker_owner, who may not.
_ROLES = "access/roles.sql"
_VERSION_TABLE_SCHEMA = "tasker"


class MigrationError(RuntimeError):
    """A migration could not be prepared or applied; names the file and line of the statement at fault."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did.

    Attributes:
        before: revision before it; None for a database without schema `tasker`
        after: revision after it
        tree_applied: whether the sql/ tree was applied; False when it was there already, unchanged
    """

    before: str | None
    after: str | None
    tree_applied: bool


# -- the pieces ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Script:
    """A piece of SQL and where it comes from, for messages and for the comments of the offline script."""

    name: str
    text: str


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except FileNotFoundError as error:
        raise MigrationError(f"missing file of the installation: {path}") from error


def _step(name: str, **replacements: str) -> _Script:
    """Return one of our own steps around the migrations, its `/*name*/` marks filled in."""
    text = _read(MIGRATIONS / "steps" / f"{name}.sql")
    for mark, value in replacements.items():
        text = text.replace(f"/*{mark}*/", value)
    return _Script(f"migrations/steps/{name}.sql", text)


def _bundled_pgmq() -> tuple[str, str]:
    """Return the SQL and the version of the pgmq that the PyPI package carries."""
    if find_spec("pgmq") is None:
        raise MigrationError("migrations need the package pgmq: pip install 'pgtasker[migrations]'")
    from pgmq.install import get_embedded_install_sql, get_embedded_sql_version

    text = get_embedded_install_sql()
    if "$pgmq_bundled$" in text or "$do$" in text:
        raise MigrationError("the SQL of pgmq contains the quotes that pgtasker puts around it")
    return text, get_embedded_sql_version()


def _prepare_scripts() -> Iterator[_Script]:
    yield _step("transaction")
    if (SQL_TREE / _ROLES).exists():
        yield _Script(f"sql/{_ROLES}", _read(SQL_TREE / _ROLES))
    yield _step("owner")
    yield _step("pgmq_found")
    yield _step("become_owner")
    yield _step("pgmq_bundled", bundled_sql=_bundled_pgmq()[0])
    yield _step("strangers")


def _record_scripts() -> Iterator[_Script]:
    yield _step("record", bundled_version=_bundled_pgmq()[1])


def _tree_files() -> list[Path]:
    """Return the files of the sql/ tree in load order.

    Raises:
        MigrationError: a folder is named in order.txt and missing, or holds SQL and is not named there.
    """
    lines = (line.split("#", 1)[0].strip() for line in _read(SQL_TREE / "order.txt").splitlines())
    folders = [line for line in lines if line]
    if len(set(folders)) != len(folders):
        raise MigrationError("sql/order.txt names a folder twice")
    files: list[Path] = []
    for folder in folders:
        if not (SQL_TREE / folder).is_dir():
            raise MigrationError(f"sql/order.txt names {folder}, but there is no such folder")
        files += sorted((SQL_TREE / folder).glob("*.sql"), key=lambda path: path.name)
    forgotten = sorted(str(path.relative_to(SQL_TREE)) for path in set(SQL_TREE.rglob("*.sql")) - set(files))
    if forgotten:
        raise MigrationError(f"sql/order.txt names no folder of: {', '.join(forgotten)}")
    return files


def _tree_scripts() -> Iterator[_Script]:
    objects = _read(MIGRATIONS / "steps" / "tree_objects.sql")
    yield _step("tree_before", tree_objects=objects)
    for path in _tree_files():
        name = path.relative_to(SQL_TREE).as_posix()
        if name != _ROLES:
            yield _Script(f"sql/{name}", _read(path))
    yield _step(
        "tree_after", tree_objects=objects, checksum=sql_tree_checksum(), schema_version=__version__.replace("'", "''")
    )


def sql_tree_checksum() -> str:
    """Return the sha256 (hex) over names and contents of the sql/ tree in load order."""
    digest = hashlib.sha256()
    for path in _tree_files():
        content = _read(path).encode()
        name = path.relative_to(SQL_TREE).as_posix().encode()
        digest.update(b"%d %s %d\n%s" % (len(name), name, len(content), content))
    return digest.hexdigest()


# -- running them ----------------------------------------------------------------------------------------------------


def _send(connection: psycopg.Connection[Any], script: _Script) -> None:
    """Run a script of one or more statements through the driver, parameters and placeholders untouched.

    Raises:
        MigrationError: with the file and, where the server tells, the line.
    """
    try:
        connection.execute(script.text.encode(), prepare=False)
    except psycopg.Error as error:
        place = script.name
        with contextlib.suppress(TypeError, ValueError):
            position = int(error.diag.statement_position or "")
            place += f":{script.text.count(chr(10), 0, position - 1) + 1}"
        raise MigrationError(_explain(place, error)) from error


def _explain(place: str, error: psycopg.Error) -> str:
    """Return the server's words with the place in our files in front."""
    diag = error.diag
    parts = [f"{place}: {diag.message_primary or error}"]
    parts += [
        f"{label}: {text}" for label, text in (("detail", diag.message_detail), ("hint", diag.message_hint)) if text
    ]
    if diag.context:
        parts.append(f"in: {diag.context}")
    if isinstance(error, psycopg.errors.InvalidFunctionDefinition | psycopg.errors.InvalidTableDefinition):
        parts.append("hint: what can't be replaced in place must be dropped by a new file in migrations/sql/")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        parts.append(
            "hint: the first installation needs a role that may create roles and schemas in this database; "
            "later ones need a member of tasker_owner"
        )
    return "\n  ".join(parts)


@contextlib.contextmanager
def _settings_kept(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Put role and settings of the transaction back at the end, for whoever goes on in it."""
    names = ("role", "search_path", "check_function_bodies", "client_min_messages")
    saved = [connection.execute("select current_setting(%s)", [name]).fetchone() for name in names]
    yield
    for name, value in zip(names, saved, strict=True):
        connection.execute("select set_config(%s, %s, true)", [name, value[0] if value else None])


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Lock, create the roles and the schema, and find or install pgmq; comes before the first migration.

    Raises:
        MigrationError: this role may not do that; the message says what it needs.
    """
    with _settings_kept(connection):
        for script in _prepare_scripts():
            _send(connection, script)


def finish(connection: psycopg.Connection[Any]) -> None:
    """Record where pgmq came from, and apply the sql/ tree; comes after the newest migration."""
    with _settings_kept(connection):
        for script in (_step("become_owner"), *_record_scripts(), *_tree_scripts()):
            _send(connection, script)


def apply_sql_tree(connection: psycopg.Connection[Any]) -> None:
    """Apply the whole sql/ tree in the connection's transaction, as tasker_owner; the tables must be up to date.

    Functions, views and triggers that an earlier tree made and this one does not have are dropped. The settings of the
    transaction are put back afterwards.

    Raises:
        MigrationError: a file failed, or something still needs an object that this tree has no more.
    """
    with connection.transaction(), _settings_kept(connection):
        for script in (_step("become_owner"), *_tree_scripts()):
            _send(connection, script)


def upgrade(dsn: str, revision: str = "head", *, again: bool = False) -> Upgrade:
    """Bring schema `tasker` of a database to a revision, in one transaction; to `head` includes the sql/ tree.

    Does nothing, and needs no rights, when the revision and the checksum of the tree are already there. Two at once
    queue up. The first installation needs a role that may create roles; see sql/access/roles.sql.

    Args:
        dsn: connection string, as libpq takes it.
        revision: `head`, or an Alembic revision id to stop at (without the tree, which belongs to the newest tables).
        again: apply the tree even where it is there, unchanged: it mends what somebody changed or dropped since.

    Raises:
        MigrationError: names the file and line at fault; nothing has changed then. Or a newer version was here.
        psycopg.OperationalError: the database can't be reached.
    """
    config = _alembic_config()
    before = current(dsn)
    if not again and revision in ("head", "heads") and before == _head(config) and _tree_is_current(dsn):
        return Upgrade(before, before, tree_applied=False)
    _refuse_newer(dsn, config, before)

    from alembic import command
    from alembic.util import CommandError

    def run(connection: AlchemyConnection) -> None:
        config.attributes["connection"] = connection
        config.attributes["pgtasker_upgrade"] = True
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise MigrationError(str(error)) from error

    _in_transaction(dsn, run)
    return Upgrade(before, current(dsn), tree_applied=bool(config.attributes.get("pgtasker_tree_applied")))


def downgrade(dsn: str, revision: str = "base") -> None:
    """Remove schema `tasker` with everything in it, and the pgmq queues that were its own.

    There is no way back to an earlier revision: restore a backup for that. The roles stay, since they belong to the
    whole server. pgmq itself goes only if pgtasker installed it and nobody else has a queue in it.

    Raises:
        MigrationError: another revision than `base` was asked for.
    """
    if revision != "base":
        raise MigrationError(f"there is no downgrade to {revision}: only `base`, which removes everything, or a backup")
    with psycopg.connect(dsn) as connection:
        if current(dsn) is None:
            return
        for script in (_step("transaction"), _step("become_owner"), _step("remove")):
            _send(connection, script)


def current(dsn: str) -> str | None:
    """Return the revision a database is at, or None when schema `tasker` is not there."""
    with psycopg.connect(dsn) as connection:
        try:
            row = connection.execute("select version_num from tasker.alembic_version").fetchone()
        except psycopg.errors.UndefinedTable:
            return None
        return str(row[0]) if row else None


def newest_revision() -> str | None:
    """Return the revision that `upgrade` goes to.

    Raises:
        MigrationError: Alembic is not installed.
    """
    return _head(_alembic_config())


def schema_info(dsn: str) -> dict[str, str]:
    """Return what is installed: `schema_version`, `sql_tree_checksum`, `pgmq_version`, `pgmq_source`, ..."""
    with psycopg.connect(dsn) as connection:
        try:
            return dict(connection.execute("select key, value from tasker.schema_info order by key").fetchall())
        except psycopg.errors.UndefinedTable:
            return {}


def offline_sql(since: str | None = None) -> str:
    """Return one SQL script that brings a database to the newest schema with psql alone.

    Run it with `psql -1 -v ON_ERROR_STOP=1 -f FILE`. It gives the same schema as `upgrade`.

    Args:
        since: revision at which the database is (`select version_num from tasker.alembic_version`), which the script
            checks; None: it has no schema `tasker` yet.

    Raises:
        MigrationError: there is no such revision.
    """
    from alembic import command
    from alembic.util import CommandError

    buffer = io.StringIO()
    config = _alembic_config(buffer)
    try:
        command.upgrade(config, "head" if since is None else f"{since}:head", sql=True)
    except CommandError as error:
        raise MigrationError(str(error)) from error
    before = "for an empty database" if since is None else f"from revision {since} on"
    header = (
        f"-- pgtasker {__version__}: schema tasker {before}.\n-- Run it with: psql -1 -v ON_ERROR_STOP=1 -f FILE\n\n"
    )
    check = "" if since is None else _printed(_step("revision_is", revision=since)) + "\n\n"
    return header + check + buffer.getvalue()


# -- Alembic ---------------------------------------------------------------------------------------------------------


def _alembic_config(output: io.StringIO | None = None) -> Config:
    try:
        from alembic.config import Config
    except ImportError as error:
        raise MigrationError("migrations need Alembic: pip install 'pgtasker[migrations]'") from error
    config = Config(output_buffer=output) if output is not None else Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _head(config: Config) -> str | None:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(config).get_current_head()


def _refuse_newer(dsn: str, config: Config, revision: str | None) -> None:
    """Raise MigrationError where a newer version has been: an older tree of functions must not go over its tables."""
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    if revision is None:
        return
    installed = schema_info(dsn).get("schema_version", "0")
    newer = re.fullmatch(r"[0-9.]+", installed) is not None and _numbers(installed) > _numbers(__version__)
    try:
        ScriptDirectory.from_config(config).get_revision(revision)
    except CommandError:
        newer = True
    if newer:
        raise MigrationError(
            f"the database was upgraded by pgtasker {installed} (revision {revision}), which is newer than this one, "
            f"{__version__}: use that version here"
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def _tree_is_current(dsn: str) -> bool:
    info = schema_info(dsn)
    return info.get("sql_tree_checksum") == sql_tree_checksum() and info.get("schema_version") == __version__


def _in_transaction(dsn: str, run: Callable[[AlchemyConnection], None]) -> None:
    """Call `run` with an SQLAlchemy connection in one transaction, again when another database's migration made the
    same role at the same moment: roles and grants belong to the whole server, the migration lock to one database."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    collisions = ("23505", "42710", "XX000")  # unique index or "already exists" on a catalogue, tuple updated at once
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)
    for attempts_left in (4, 3, 2, 1, 0):
        try:
            with engine.connect() as connection, connection.begin():
                run(connection)
            return
        except MigrationError as error:
            cause = error.__cause__
            in_catalogue = isinstance(cause, psycopg.Error) and (
                cause.diag.schema_name == "pg_catalog" or cause.sqlstate != "23505"
            )
            state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
            at_roles = str(error).startswith((f"sql/{_ROLES}", "migrations/steps/owner.sql"))
            if not (attempts_left and in_catalogue and at_roles and state in collisions):
                raise


def _driver_connection(connection: AlchemyConnection) -> psycopg.Connection[Any]:
    """Return the psycopg connection below an SQLAlchemy one."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise MigrationError("pgtasker's migrations need the driver psycopg (postgresql+psycopg://)")
    return driver


def run_script(name: str) -> None:
    """Run `migrations/sql/<name>`, or print it when Alembic only prints; called by the version files."""
    from alembic import op

    script = _Script(f"migrations/sql/{name}", _read(MIGRATIONS / "sql" / name))
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(_printed(script))
        return
    connection = _driver_connection(op.get_bind())
    with _settings_kept(connection):
        _send(connection, _step("become_owner"))
        _send(connection, script)


def refuse_downgrade(revision: str) -> None:
    """Refuse to step back: what a migration added holds data by then, and dropping it is not undoing it."""
    raise MigrationError(
        f"{revision} has no downgrade: restore a backup, or remove everything with pgtasker.migrate.downgrade(dsn)"
    )


def _printed(script: _Script) -> str:
    return f"-- {script.name}\n{script.text.rstrip()}"


def run_environment(context: Any) -> None:
    """Do what Alembic's env.py must do, online and offline.

    Args:
        context: the module `alembic.context`.
    """
    config = context.config
    command_options = getattr(config, "cmd_opts", None)
    command_name = getattr((getattr(command_options, "cmd", None) or [None])[0], "__name__", None)
    upgrading = bool(config.attributes.get("pgtasker_upgrade")) or command_name == "upgrade"

    if context.is_offline_mode():
        # No BEGIN and COMMIT of Alembic's: the script is one transaction because psql -1 makes it one.
        context.configure(
            dialect_name="postgresql",
            dialect_opts={"paramstyle": "named"},
            version_table_schema=_VERSION_TABLE_SCHEMA,
            transactional_ddl=False,
        )
        output = context.get_context().impl.static_output
        for script in _prepare_scripts():
            output(_printed(script))
        context.run_migrations()
        for script in (*_record_scripts(), *_tree_scripts()):
            output(_printed(script))
        return

    def run(connection: AlchemyConnection) -> None:
        driver = _driver_connection(connection)
        if upgrading:
            # The rest as tasker_owner too: Alembic makes its version table.
            for script in _prepare_scripts():
                _send(driver, script)
        context.configure(connection=connection, version_table_schema=_VERSION_TABLE_SCHEMA)
        with context.begin_transaction():
            context.run_migrations()
        if not upgrading:
            return
        for script in _record_scripts():
            _send(driver, script)
        if context.get_context().get_current_revision() == _head(config):
            for script in _tree_scripts():
                _send(driver, script)
            config.attributes["pgtasker_tree_applied"] = True

    given = config.attributes.get("connection")
    if given is not None:
        run(given)
    else:
        from pgtasker.server import configured_dsn

        dsn = configured_dsn()
        if dsn is None:
            raise MigrationError("name the database in PGTASKER_DSN or DATABASE_URL")
        _in_transaction(dsn, run)
