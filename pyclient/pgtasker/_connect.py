"""How connections are made, told dead from alive, and when a failed call may be sent again."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import math
import os
import random
import select
import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from .errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

# Nothing was committed, and the same call may well succeed now.
CONFLICTS = frozenset({"40001", "40P01"})
# The server is read-only (an old primary after a failover) or not up yet: nothing was done; another connection may
# find the right server.
_REFUSED = frozenset({"25006", "57P03"})
# The connection is gone, or will be at the next call.
_LOST = frozenset({"57P01", "57P02", *_REFUSED})

_ATTEMPTS = 6


def resolve_dsn(dsn: str | None) -> str:
    """Return the given connection string, or the default one (``DATABASE_URL``, else the embedded server)."""
    if dsn is not None:
        return dsn
    from .server import default_dsn

    return default_dsn()


# A server that vanished without a word (power, network, failover) is noticed after a minute instead of hours.
_NETWORK = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


def connection_string(dsn: str, application_name: str) -> str:
    """Return ``dsn`` completed with what the package wants, where the caller has not said otherwise."""
    given = conninfo_to_dict(dsn)
    wanted: dict[str, Any] = {name: value for name, value in _NETWORK.items() if name not in given}
    if "PGCONNECT_TIMEOUT" in os.environ:
        wanted.pop("connect_timeout", None)
    if "application_name" not in given:
        wanted["application_name"] = application_name
    if "target_session_attrs" not in given and "PGTARGETSESSIONATTRS" not in os.environ:
        # After a failover a reconnect must not end on the old, now read-only server again.
        wanted["target_session_attrs"] = "read-write"
    return make_conninfo(dsn, **wanted)


def connection_options(*, pgbouncer: bool, prepare_threshold: int | None) -> dict[str, Any]:
    """Return the keyword arguments of ``connect``: one statement is one transaction, prepared statements only where
    they survive.
    """
    return {"autocommit": True, "prepare_threshold": None if pgbouncer else prepare_threshold}


def _has_news(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether bytes (or the end of the stream) wait on an idle connection: that costs no round trip to find out."""
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def check_connection(conn: psycopg.Connection[Any]) -> None:
    """Raise when a pooled connection died while it lay idle (server restarted, backend terminated)."""
    if _has_news(conn):
        ConnectionPool.check_connection(conn)


async def check_async_connection(conn: psycopg.AsyncConnection[Any]) -> None:
    """Raise when a pooled connection died while it lay idle (server restarted, backend terminated)."""
    if _has_news(conn):
        await AsyncConnectionPool.check_connection(conn)


@contextlib.contextmanager
def borrowed(pool: ConnectionPool[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Take a connection from a pool for the length of a block."""
    with pool.connection() as conn:
        yield conn


_returning: set[asyncio.Future[None]] = set()


@contextlib.asynccontextmanager
async def async_borrowed(pool: AsyncConnectionPool[Any]) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
    """Take a connection from a pool for the length of a block, and give it back even when the giving back is cancelled.

    The pool's own ``connection()`` loses the connection for good when the cancellation arrives while it is being
    returned (psycopg_pool 3.3.3).
    """
    conn = await pool.getconn()
    try:
        async with conn:
            yield conn
    finally:
        returning = asyncio.ensure_future(pool.putconn(conn))
        _returning.add(returning)
        returning.add_done_callback(_returning.discard)
        await asyncio.shield(returning)


def is_unusable(error: psycopg.Error, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the connection must be thrown away after this error."""
    sqlstate = error.sqlstate or ""
    return conn.closed or sqlstate in _LOST or sqlstate.startswith("08")


class Backoff:
    """Decides on the SQLSTATE alone whether a call of our own is sent again, and after how many seconds.

    Serialization failures and deadlocks are always repeated, a lost connection only when the statement is
    ``repeatable``: a call whose connection broke may have been committed.
    """

    def __init__(self, *, repeatable: bool, attempts: float = _ATTEMPTS) -> None:
        self._repeatable = repeatable
        self._left = attempts - 1
        self._step = 0

    def delay(self, error: psycopg.Error, *, lost: bool) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up."""
        sqlstate = error.sqlstate or ""
        conflict = sqlstate in CONFLICTS
        again = conflict or sqlstate in _REFUSED or (lost and self._repeatable)
        if not again or self._left <= 0:
            return None
        self._left -= 1
        return self.next_delay(0.02 if conflict else 0.1)

    def next_delay(self, base: float, cap: float = 2.0) -> float:
        """Return the next delay of an exponential series with jitter between half and full length."""
        ceiling: float = min(cap, base * 2 ** min(self._step, 20))
        self._step += 1
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 (jitter, not a secret)

    def reset(self) -> None:
        """Begin the series anew: something worked."""
        self._step = 0


# ------------------------------------------------------------------------------------------------------ parameters


def as_uuid(value: UUID | str | None, name: str) -> UUID | None:
    """Return a UUID for a UUID or its text."""
    if value is None or isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidValue.of(f"{name} is not a UUID: {value!r}", [(name, "not a UUID")]) from error


def as_uuids(values: Iterable[UUID | str] | None, name: str) -> list[UUID] | None:
    """Return UUIDs for UUIDs or their texts."""
    if values is None:
        return None
    return [found for value in values if (found := as_uuid(value, name)) is not None]


def as_seconds(value: float | dt.timedelta | None, name: str) -> float | None:
    """Return seconds for seconds or a timedelta."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else float(value)
    if not math.isfinite(seconds):
        raise InvalidValue.of(f"{name} is not a length of time: {value!r}", [(name, "not finite")])
    return seconds


# -------------------------------------------------------------------------------------------- callers' connections


def unwrap_connection(conn: Any) -> psycopg.Connection[Any]:
    """Return the psycopg connection inside a SQLAlchemy Session, Connection or pooled connection, or a bare one.

    A SQLAlchemy transaction is begun when none is open, as ``execute`` would: otherwise its ``commit`` would not know
    of ours.
    """
    if isinstance(conn, psycopg.Connection):
        return conn
    found = conn
    if "sqlalchemy" in sys.modules:
        from sqlalchemy import Connection
        from sqlalchemy.orm import Session, scoped_session

        if isinstance(found, Session | scoped_session):
            found = found.connection()
        if isinstance(found, Connection):
            if not found.in_transaction():
                found.begin()
            found = found.connection
    found = getattr(found, "driver_connection", found)
    if isinstance(found, psycopg.Connection):
        return found
    raise TypeError(_not_usable(conn, "psycopg.Connection, or a SQLAlchemy Connection or Session"))


async def unwrap_async_connection(conn: Any) -> psycopg.AsyncConnection[Any]:
    """The same for psycopg's AsyncConnection and SQLAlchemy's AsyncSession and AsyncConnection."""
    if isinstance(conn, psycopg.AsyncConnection):
        return conn
    found = conn
    # Its import fails without greenlet; whoever has one of its objects has imported it.
    if "sqlalchemy.ext.asyncio" in sys.modules:
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

        if isinstance(found, AsyncSession | async_scoped_session):
            found = await found.connection()
        if isinstance(found, AsyncConnection):
            if not found.in_transaction():
                await found.begin()
            found = await found.get_raw_connection()
    found = getattr(found, "driver_connection", found)
    if isinstance(found, psycopg.AsyncConnection):
        return found
    raise TypeError(_not_usable(conn, "psycopg.AsyncConnection, or a SQLAlchemy AsyncConnection or AsyncSession"))


def _not_usable(conn: Any, wanted: str) -> str:
    kind = type(conn)
    return f"conn= must be a {wanted} on postgresql+psycopg, not {kind.__module__}.{kind.__qualname__}"
