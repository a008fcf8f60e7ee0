"""LISTEN on a connection of its own.

A notification is a hint: it says "look", not what there is to see, and it may not come at all. Whoever waits here
looks again when the time is up, whatever happened.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from ._connect import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger("pgtasker.listener")


class AsyncListener:
    """Waits for notifications, reconnects by itself, and without a connection is nothing but a pause.

    Args:
        conninfo: complete connection string; None means never to connect.
        options: keyword arguments of ``connect``; the connection must be in autocommit mode.
        channels: what to listen to.
    """

    def __init__(self, conninfo: str | None, options: dict[str, Any], channels: Sequence[str]) -> None:
        self._conninfo = conninfo
        self._options = options
        self._channels = tuple(channels)
        self._conn: psycopg.AsyncConnection[Any] | None = None
        self._backoff = Backoff(repeatable=True)
        self._retry_at = 0.0

    async def connect(self) -> bool:
        """Connect and LISTEN if that is not so already; return whether notifications can arrive now."""
        if self._conn is not None:
            return True
        if self._conninfo is None or time.monotonic() < self._retry_at:
            return False
        conn: psycopg.AsyncConnection[Any] | None = None
        try:
            conn = await psycopg.AsyncConnection.connect(self._conninfo, **self._options)
            for channel in self._channels:
                await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException as error:
            if conn is not None:
                await conn.close()
            if not isinstance(error, psycopg.Error):
                raise
            self._retry_at = time.monotonic() + self._backoff.next_delay(0.2, 5.0)
            logger.debug("cannot listen: %s", error)
            return False
        self._conn = conn
        self._backoff.reset()
        return True

    async def wait(self, timeout: float, matching: Callable[[str], bool] | None = None) -> bool:
        """Wait for a notification, at most ``timeout`` seconds.

        Args:
            timeout: seconds.
            matching: called with each payload; notifications that it does not accept are passed over.

        Returns:
            True when there is reason to look now: something came, or the connection was made anew and something may
            have been missed.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self._conn is None:
                if await self.connect():
                    return True
                left = deadline - time.monotonic()
                if self._conninfo is not None:
                    left = min(left, self._retry_at - time.monotonic())
                await asyncio.sleep(max(0.0, left))
            else:
                try:
                    left = max(0.0, deadline - time.monotonic())
                    received = [n async for n in self._conn.notifies(timeout=left, stop_after=1)]
                except psycopg.Error as error:
                    logger.debug("the listening connection was lost: %s", error)
                    await self.close()
                    continue
                # Each is looked at: what is passed over here is gone.
                if any([matching is None or matching(n.payload) for n in received]):
                    return True
            if time.monotonic() >= deadline:
                return False

    async def self_test(self, sender: psycopg.AsyncConnection[Any], timeout: float = 2.0) -> bool:
        """Whether a notification sent on another connection arrives here.

        Through a pooler in transaction mode LISTEN is accepted and nothing is ever delivered, without any error.

        Args:
            sender: another connection to the same database, in autocommit mode.
            timeout: seconds to wait for the notification.
        """
        if not await self.connect() or self._conn is None:
            return False
        channel, token = f"tasker_self_test_{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
        try:
            await self._conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            await sender.execute("SELECT pg_notify(%s::text, %s::text)", (channel, token))
            arrived = await self.wait(timeout, matching=token.__eq__)
            if self._conn is not None:
                await self._conn.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error as error:
            logger.debug("the test of LISTEN failed: %s", error)
            await self.close()
            return False
        return arrived

    async def close(self) -> None:
        """Close the connection; a later ``wait`` makes a new one."""
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()
