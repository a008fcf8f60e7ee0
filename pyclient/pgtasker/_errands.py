"""Calls of a worker beside its main connection: checkpoints and validations, from any thread.

One connection, made when it is first needed and again when it broke; one call at a time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from . import _statements as sql
from ._connect import Backoff, is_unusable
from .errors import error_from_psycopg

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ._statements import Statement

T = TypeVar("T")


class Errands:
    """Runs single statements for handlers and for the worker itself.

    Args:
        conninfo: complete connection string.
        options: keyword arguments of ``connect``; the connection must be in autocommit mode.
    """

    def __init__(self, conninfo: str, options: dict[str, Any]) -> None:
        self._conninfo = conninfo
        self._options = options
        self._conn: psycopg.Connection[Any] | None = None
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Handler processes get one of their own, with a connection of its own.
        return type(self), (self._conninfo, self._options)

    def fetch(self, statement: Statement[T], parameters: dict[str, Any]) -> list[T]:
        """Run a statement and return its rows; repeated as a client would.

        Raises:
            PgtaskerError: what the engine refuses.
            psycopg.Error: anything else.
        """
        backoff = Backoff(repeatable=statement.repeatable)
        with self._guard:
            while True:
                lost = True
                try:
                    if self._conn is None:
                        self._conn = psycopg.Connection.connect(self._conninfo, **self._options)
                    lost = False
                    with psycopg.Cursor(self._conn, row_factory=statement.row_factory) as cursor:
                        cursor.execute(statement.sql, parameters)
                        return cursor.fetchall()
                except psycopg.Error as error:
                    if self._conn is not None and is_unusable(error, self._conn):
                        lost = True
                        self._conn.close()
                        self._conn = None
                    delay = backoff.delay(error, lost=lost)
                    if delay is None:
                        ours = error_from_psycopg(error)
                        if ours is None:
                            raise
                        raise ours from error
                    time.sleep(delay)

    def save_checkpoint(self, key: tuple[UUID, UUID], text: str) -> None:
        """Save a checkpoint, given as JSON text, of a step held under a claim."""
        self.fetch(sql.SAVE_CHECKPOINT, {"step_uuid": key[0], "claim_uuid": key[1], "checkpoint": text})

    def load_result(self, payload_uuid: str, claim_uuid: UUID) -> Any:
        """Load a big result that a step held under a claim has among its inputs."""
        (result,) = self.fetch(sql.LOAD_RESULT, {"uuid": payload_uuid, "claim_uuid": claim_uuid})
        return result

    def close(self) -> None:
        """Close the connection if no call is under way; one that is ends with the process."""
        if self._guard.acquire(blocking=False):
            try:
                if self._conn is not None:
                    self._conn.close()
                    self._conn = None
            finally:
                self._guard.release()


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a function in a daemon thread of its own and return what it returns.

    Not ``asyncio.to_thread``: its few threads could all be taken, and they keep a forced exit waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: T | None = None
        problem: BaseException | None = None
        try:
            result = function(*arguments)
        except StopIteration as error:
            problem = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:
            problem = error
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            return  # the loop was closed by a forced exit

    threading.Thread(target=work, name="pgtasker-errand", daemon=True).start()
    return await future
