"""``pgtasker doctor``: what is wrong, and what mends it.

What the database can see by itself is found by ``tasker.diagnose``; here stands what only a client sees: whether the
package and the schema fit together, whether notifications arrive, whose clock is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import APPLICATION_NAME, Database, database, server_name
from pgtasker.cli._errors import OK
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from psycopg import Connection

Finding = dict[str, Any]

EXIT_CODES = {"error": 2, "warning": 1, "notice": OK}
_STYLES = {"error": "red", "warning": "yellow", "notice": "cyan"}
_LARGEST_SKEW = 1.0
"""Seconds by which the clocks of client and server may differ."""


def doctor(
    *,
    after: Annotated[str, Parameter(help="How long unfinished work and transactions may stand still.")] = "10 minutes",
    seal_after: Annotated[str, Parameter(help="How long evidence may go without a seal.")] = "1 day",
    listen_dsn: Annotated[
        str | None, Parameter(help="Where workers LISTEN, if the server is reached through a pooler.")
    ] = None,
) -> int:
    """Look for everything that is wrong: schema, work, server, notifications, clocks; and say what mends it.

    Changes nothing. Exit code 0: nothing, or notices only; 1: warnings; 2: something does not work. --json prints
    status and findings.
    """
    from pgtasker.errors import SchemaMissing

    try:
        with database() as db:
            findings = [*_package(db), *_clocks(db), *_notifications(db, listen_dsn), *_inside(db, after, seal_after)]
            name = server_name(db)
    except SchemaMissing as error:
        name = "the server"
        findings = [_finding("schema", "error", "schema_that_is_missing", "tasker", "installed", error.message,
                             "pgtasker migrate")]  # fmt: skip
    findings.sort(key=lambda finding: list(EXIT_CODES).index(finding["severity"]))
    exit_code = max((EXIT_CODES[finding["severity"]] for finding in findings), default=OK)
    if settings.json:
        status = next((severity for severity, code in EXIT_CODES.items() if findings and code == exit_code), "well")
        output.emit_json({"status": status, "server": name, "findings": findings})
        return exit_code
    for finding in findings:
        output.line(f"{finding['severity']}: {finding['finding']}: {finding['subject']}", _STYLES[finding["severity"]])
        for label in ("expected", "actual", "mend"):
            if finding[label] is not None:
                output.line(f"    {label:<9} {finding[label]}")
    output.talk(f"{name}: {len(findings) or 'nothing'} found")
    return exit_code


def _finding(
    topic: str, severity: str, finding: str, subject: str, expected: str | None, actual: str, mend: str
) -> Finding:
    return {"topic": topic, "severity": severity, "finding": finding, "subject": subject, "expected": expected,
            "actual": actual, "mend": mend}  # fmt: skip


def _inside(db: Database, after: str, seal_after: str) -> list[Finding]:
    """What the database finds; nothing where its schema is too old to look (``_package`` says so then)."""
    if not db.value("select to_regprocedure('tasker.diagnose(interval, interval)') is not null"):
        return []
    return db.rows("select * from tasker.diagnose(%s::interval, %s::interval)", (after, seal_after))


def _package(db: Database) -> Iterator[Finding]:
    """Whether tables and tree are those of this package."""
    from pgtasker import __version__, migrate

    info = {row["key"]: row["value"] for row in db.rows("select key, value from tasker.schema_info")}
    at = None
    if db.value("select to_regclass('tasker.alembic_version') is not null"):  # else a service's own chain keeps it
        at = db.value("select version_num from tasker.alembic_version")
        newest = migrate.newest_revision()
        if at != newest:
            yield _finding(
                "schema", "error", "migrations_that_are_pending", "tables", newest, str(at), "pgtasker migrate"
            )
    if info.get("sql_tree_checksum") != migrate.sql_tree_checksum():
        yield _finding(
            "schema", "error", "functions_of_another_version", "sql tree", f"pgtasker {__version__}",
            f"pgtasker {info.get('schema_version')} with other contents", "pgtasker migrate",
        )  # fmt: skip


def _clocks(db: Database) -> Iterator[Finding]:
    """How far the two clocks are apart, less what the way there and back may account for; the best of three looks."""
    looks = []
    for _ in range(3):
        sent, began = time.time(), time.monotonic()
        there = float(db.value("select extract(epoch from clock_timestamp())"))
        took = time.monotonic() - began
        looks.append((took, there - sent - took / 2))
    took, skew = min(looks)
    if abs(skew) - took / 2 > _LARGEST_SKEW:
        yield _finding(
            "server", "notice", "clocks_that_differ", "client and server", f"within {_LARGEST_SKEW:g} s",
            f"the server is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}",
            "have both set their clocks (NTP). Leases and timers go by the server's alone",
        )  # fmt: skip


def _notifications(db: Database, listen_dsn: str | None) -> Iterator[Finding]:
    """Whether a NOTIFY sent on one connection is heard on another, as workers do it."""
    from pgtasker._connect import connection_options, connection_string
    from pgtasker._listener import Listener

    conninfo = connection_string(listen_dsn or db.dsn, f"{APPLICATION_NAME} listener")
    listener = Listener(conninfo, connection_options(pgbouncer=True, prepare_threshold=None), ())
    try:
        if listener.self_test(db.connection):
            return
    finally:
        listener.close()
    pooled = listen_dsn is None and _is_pooled(db.connection)
    yield _finding(
        "server", "warning", "notifications_that_do_not_arrive", "LISTEN", "a NOTIFY is heard on another connection",
        "a pooler in transaction mode swallows it: LISTEN is accepted and forgotten" if pooled
        else "it is not: the listening connection can't be made, or something between swallows it",
        "give workers and clients a direct connection for it: Worker(dsn, listen_dsn=..., pgbouncer=True), and try it:"
        " pgtasker doctor --listen-dsn DSN. Until then they poll",
    )  # fmt: skip


def _is_pooled(connection: Connection[Any]) -> bool:
    """A pooler answers with a process number of its own making."""
    row = connection.execute("select pg_backend_pid() as pid").fetchone()
    return row is not None and row["pid"] != connection.info.backend_pid
