"""The client: the contract's functions as methods.

Written once, as async code in ``_client_async.py``; ``_client.py`` is generated from that (tools/unasync.py).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from . import _statements as sql
from . import _tracing
from ._connect import (
    Backoff,
    as_seconds,
    as_uuid,
    as_uuids,
    async_borrowed,
    check_async_connection,
    connection_options,
    connection_string,
    is_unusable,
    resolve_dsn,
    unwrap_async_connection,
)
from ._json import dumps
from ._listener_async import AsyncListener
from ._rows import (
    AllowedEvent,
    AuditRecord,
    BreakerOverview,
    BreakerPermit,
    Change,
    ClaimedStep,
    Commanded,
    DriveCounts,
    Emission,
    EmittedEvent,
    Explanation,
    Finding,
    LimitOverview,
    Recovery,
    Schedule,
    ScheduledTask,
    StepOutcome,
    StepOverview,
    SubmittedTask,
    TaskOverview,
    TaskPage,
    TickCounts,
    TimelineEntry,
    WorkerOverview,
)
from .errors import NotFound, PgtaskerError, WaitTimeout, error_from_psycopg, error_from_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from ._types import AsyncCallersConnection

T = TypeVar("T")


class AsyncClient:
    """Calls the functions of schema ``tasker``; holds no state besides its connections and decides nothing.

    Every method has the name and the parameters of its SQL function, without the ``p_``. UUIDs may be given as text,
    durations as seconds or ``timedelta``. With ``conn=`` (a psycopg or SQLAlchemy connection, or a SQLAlchemy
    session) a call becomes part of the caller's transaction: it is neither committed nor repeated here, and an error
    leaves that transaction aborted, as any SQL error does.

    ``request_id=`` makes a call safe to repeat, by anybody and for an hour: the same id with the same request gets the
    answer of the first call, with another request it is refused (IdempotencyConflict).

    Without ``conn=`` each call is a transaction of its own. Serialization failures and deadlocks are repeated a few
    times; after a lost connection only calls that may safely run twice (those with a ``request_id`` do) are repeated.

    Raises:
        PgtaskerError: every method raises the subclass of the function's SQLSTATE; see ``pgtasker.errors``.
        psycopg.Error: whatever is not pgtasker's own, for example a server that cannot be reached.

    Args:
        dsn: connection string or URI; None takes ``DATABASE_URL``, else the embedded server (``pgtasker.default_dsn``).
        pool: a psycopg pool of the caller to use instead of an own one; it stays the caller's to open and close.
        min_size: connections that the own pool keeps.
        max_size: connections that the own pool may open.
        listen_dsn: where to LISTEN when ``dsn`` leads through a pooler in transaction mode, which loses notifications
            without a word. With ``pool`` and no ``listen_dsn``, ``wait`` and ``events`` only poll.
        application_name: shown in ``pg_stat_activity`` and recorded in the audit trail, unless the DSN has its own.
        pgbouncer: set it for a pooler in transaction mode: prepared statements are switched off.
        prepare_threshold: after how many runs a statement is prepared (None: never).
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: AsyncConnectionPool[Any] | None = None,
        min_size: int = 1,
        max_size: int = 4,
        listen_dsn: str | None = None,
        application_name: str = "pgtasker",
        pgbouncer: bool = False,
        prepare_threshold: int | None = 5,
    ) -> None:
        if pool is not None and dsn is not None:
            raise TypeError("give a dsn or a pool, not both")
        self._dsn = dsn
        self._listen_dsn = listen_dsn
        self._application_name = application_name
        self._sizes = (min_size, max_size)
        self._options = connection_options(pgbouncer=pgbouncer, prepare_threshold=prepare_threshold)
        self._callers_pool = pool
        self._pool: AsyncConnectionPool[Any] | None = pool
        self._opening = asyncio.Lock()
        self._closed = False

    # ---------------------------------------------------------------------------------------------------- lifetime

    async def open(self) -> Self:
        """Open the pool; calls do it by themselves.

        Raises psycopg.OperationalError with the server's own words on failure.
        """
        await self._ready_pool()
        return self

    async def close(self) -> None:
        """Close the own pool. The client cannot be used afterwards."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None and self._callers_pool is None:
            await pool.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ready_pool(self) -> AsyncConnectionPool[Any]:
        if self._closed:
            raise PgtaskerError("this client is closed")
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                self._dsn = resolve_dsn(self._dsn)
                conninfo = connection_string(self._dsn, self._application_name)
                # A pool that cannot connect only says so after half a minute, and not why: ask the server directly
                # first.
                await (await psycopg.AsyncConnection.connect(conninfo, **self._options)).close()
                pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
                    conninfo,
                    kwargs=self._options,
                    min_size=self._sizes[0],
                    max_size=self._sizes[1],
                    check=check_async_connection,
                    name="pgtasker",
                    open=False,
                )
                await pool.open(wait=True)
                self._pool = pool
            return self._pool

    def _listener(self, *channels: str) -> AsyncListener:
        dsn = self._listen_dsn or (self._dsn if self._callers_pool is None else None)
        conninfo = None if dsn is None else connection_string(dsn, f"{self._application_name} listener")
        return AsyncListener(conninfo, self._options, channels)

    # --------------------------------------------------------------------------------------------------- transport

    async def _rows(
        self,
        statement: sql.Statement[T],
        parameters: dict[str, Any] | None = None,
        conn: AsyncCallersConnection | None = None,
        *,
        attempts: float = 6,
    ) -> list[T]:
        try:
            if conn is not None:
                return await _execute(await unwrap_async_connection(conn), statement, parameters)
            return await self._rows_of_own(statement, parameters, attempts)
        except psycopg.Error as error:
            ours = error_from_psycopg(error)
            if ours is None:
                raise
            raise ours from error

    async def _rows_of_own(
        self, statement: sql.Statement[T], parameters: dict[str, Any] | None, attempts: float
    ) -> list[T]:
        pool = await self._ready_pool()
        repeatable = statement.repeatable or (parameters or {}).get("request_id") is not None
        backoff = Backoff(repeatable=repeatable, attempts=attempts)
        while True:
            lost = False
            try:
                async with async_borrowed(pool) as own:
                    try:
                        return await _execute(own, statement, parameters)
                    except psycopg.Error as error:
                        lost = is_unusable(error, own)
                        if lost:
                            await own.close()
                        raise
            except psycopg.Error as error:
                delay = backoff.delay(error, lost=lost)
                if delay is None:
                    raise
                await asyncio.sleep(delay)

    async def _one(
        self,
        statement: sql.Statement[T],
        parameters: dict[str, Any] | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> T:
        return (await self._rows(statement, parameters, conn))[0]

    # ------------------------------------------------------------------------------------------------- definitions

    async def register_template(
        self, template: Mapping[str, Any], *, request_id: str | None = None, conn: AsyncCallersConnection | None = None
    ) -> UUID:
        """Store a workflow template; the same content again gives the same UUID.

        Args:
            template: ``{"name", "namespace", "version", "description", "vocabulary", "steps": [{"name", "handler",
                "depends_on", "arguments", "retryable", "max_attempts", "retry", "timeout_seconds"}]}``; only ``name``
                and ``steps`` are needed. Delays and timeouts are seconds, ``retry.jitter`` is a fraction.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: with all problems at once: cycles, unknown dependencies, duplicates, bad limits, or a
                version that exists with other content.
        """
        return await self._one(
            sql.REGISTER_TEMPLATE, {"template": dumps(template, "template"), "request_id": request_id}, conn
        )

    async def define_vocabulary(
        self, definition: Mapping[str, Any], *, conn: AsyncCallersConnection | None = None
    ) -> str:
        """Store a set of lifecycles (states, events, transitions, guards) and return its name.

        Raises:
            InvalidDefinition: with all problems at once.
        """
        return await self._one(sql.DEFINE_VOCABULARY, {"definition": dumps(definition, "definition")}, conn)

    async def ensure_namespace(
        self, namespace: str, description: str | None = None, *, conn: AsyncCallersConnection | None = None
    ) -> str:
        """Make a namespace with its queue if it is not there, and return its name."""
        return await self._one(sql.ENSURE_NAMESPACE, {"namespace": namespace, "description": description}, conn)

    async def set_namespace_notifications(
        self,
        namespace: str,
        mode: Literal["off", "work", "tasks", "all"],
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Choose what the namespace sends by NOTIFY."""
        await self._one(sql.SET_NAMESPACE_NOTIFICATIONS, {"namespace": namespace, "mode": mode}, conn)

    async def set_payload_limits(
        self,
        namespace: str,
        *,
        threshold: int | None = None,
        limit: int | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Choose how big is big in a namespace, in bytes of JSON text from 4,096 to 134,217,728.

        Args:
            namespace: the namespace.
            threshold: results over it are kept apart from the log and loaded when they are wanted (65,536).
            limit: what is over it is refused: results, checkpoints, contexts, arguments, tags (16,777,216).
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: no such sizes, or a threshold above the limit.
            NotFound: no such namespace.
        """
        await self._one(sql.SET_PAYLOAD_LIMITS, {"namespace": namespace, "threshold": threshold, "limit": limit}, conn)

    async def pause_namespace(
        self,
        namespace: str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Hand no step of a namespace to any worker; what is running goes on, and tasks are still created."""
        await self._by_hand(sql.PAUSE_NAMESPACE, namespace, reason, requested_by, request_id, conn)

    async def resume_namespace(
        self,
        namespace: str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Hand out the steps of a paused namespace again."""
        await self._by_hand(sql.RESUME_NAMESPACE, namespace, reason, requested_by, request_id, conn)

    async def schema_version(self, *, conn: AsyncCallersConnection | None = None) -> str:
        """Return the version of the installed schema."""
        return await self._one(sql.SCHEMA_VERSION, None, conn)

    async def lifecycle_diagram(
        self,
        lifecycle: str,
        format: Literal["mermaid", "dot", "table"] = "mermaid",
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Return the diagram of a lifecycle such as ``tasker.workflow_step``, drawn from the rule rows."""
        return await self._one(sql.LIFECYCLE_DIAGRAM, {"lifecycle": lifecycle, "format": format}, conn)

    # ------------------------------------------------------------------------------------------------------- tasks

    async def create_task(
        self,
        name: str,
        context: Any = None,
        *,
        namespace: str = "default",
        version: str | None = None,
        idempotency_key: str | None = None,
        correlation_id: UUID | str | None = None,
        priority: int = 0,
        parent_task_uuid: UUID | str | None = None,
        tags: Any = None,
        requested_by: str | None = None,
        start: bool = True,
        start_at: dt.datetime | None = None,
        vocabulary: str | None = None,
        unique_key: str | None = None,
        unique_seconds: float | None = None,
        debounce_seconds: float | None = None,
        debounce_max_seconds: float | None = None,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> UUID:
        """Create a task from a template, with all its steps, in one commit.

        Args:
            name: the template's name.
            context: JSON data that every step of the task sees; ``{}`` when None.
            namespace: where the template lives and the steps are queued.
            version: the template's version; None takes the newest.
            idempotency_key: the same key with the same request returns the task made the first time.
            correlation_id: carried into every step, log row and audit row; None: the trace id, if this is traced, else
                made up.
            priority: from -9 to 9; steps of a higher one are claimed first, but none starve.
            parent_task_uuid: the task this one belongs to.
            tags: a JSON object to find the task by.
            requested_by: who asked.
            start: False leaves the task in its first state.
            start_at: it starts then and not before; a time with its zone.
            vocabulary: by whose names of states and events it runs; None: the template's.
            unique_key: what there is to be one task of in the namespace: while another task with this key runs, nothing
                is created and that one is returned. ``submit_tasks`` says which of both it was.
            unique_seconds: so long after the other one was created, instead of while it runs.
            debounce_seconds: the task starts so long after the last request with its key, with the context of that one;
                once it has started, the next request makes another one.
            debounce_max_seconds: but no longer than this after the first request.
            conn: the caller's transaction: the task exists if and when that commits.

        Returns:
            the task's UUID.

        Raises:
            NotFound: no such template, namespace or parent.
            IdempotencyConflict: the key was used with another request, or by a waiting task of another workflow.
        """
        statement = sql.CREATE_TASK_ONCE if idempotency_key is not None else sql.CREATE_TASK
        with _tracing.creating(name, namespace) as creation:
            task_uuid = await self._one(
                statement,
                {
                    "name": name,
                    "context": dumps({} if context is None else context, "context"),
                    "namespace": namespace,
                    "version": version,
                    "vocabulary": vocabulary,
                    "idempotency_key": idempotency_key,
                    "correlation_id": as_uuid(correlation_id, "correlation_id"),
                    "priority": priority,
                    "parent_task_uuid": as_uuid(parent_task_uuid, "parent_task_uuid"),
                    "tags": dumps(creation.tags({} if tags is None else tags), "tags"),
                    "requested_by": requested_by,
                    "start": start,
                    "start_at": start_at,
                    "unique_key": unique_key,
                    "unique_seconds": unique_seconds,
                    "debounce_seconds": debounce_seconds,
                    "debounce_max_seconds": debounce_max_seconds,
                    "request_id": request_id,
                },
                conn,
            )
            creation.created(task_uuid)
        return task_uuid

    async def create_tasks(
        self, requests: Iterable[Mapping[str, Any]], *, conn: AsyncCallersConnection | None = None
    ) -> list[UUID]:
        """Create many tasks in one call and one commit; UUIDs come back in the order of the requests.

        Args:
            requests: objects with the keyword arguments of ``create_task``; ``name`` is the only one needed.
            conn: the caller's transaction.
        """
        with _tracing.creating("tasks", None) as creation:
            wanted = [creation.request(request) for request in requests]
            task_uuids = await self._rows(sql.CREATE_TASKS, {"requests": dumps(wanted, "requests")}, conn)
            creation.created(*task_uuids)
        return task_uuids

    async def submit_tasks(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> list[SubmittedTask]:
        """``create_tasks`` that also says which tasks are new, and which were there.

        Args:
            requests: as of ``create_tasks``.
            request_id: the same id with the same requests gets the same answer.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: with all problems of the requests at once.
        """
        with _tracing.creating("tasks", None) as creation:
            wanted = [creation.request(request) for request in requests]
            submitted = await self._rows(
                sql.SUBMIT_TASKS, {"requests": dumps(wanted, "requests"), "request_id": request_id}, conn
            )
            creation.created(*(task.task_uuid for task in submitted if task.outcome == "created"))
        return submitted

    async def create_task_from_graph(
        self,
        graph: Mapping[str, Any],
        context: Any = None,
        *,
        namespace: str | None = None,
        idempotency_key: str | None = None,
        correlation_id: UUID | str | None = None,
        priority: int = 0,
        parent_task_uuid: UUID | str | None = None,
        tags: Any = None,
        requested_by: str | None = None,
        start: bool = True,
        start_at: dt.datetime | None = None,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> UUID:
        """Create a task from a graph of its own: a template without a version, used once.

        Arguments as in ``create_task``; a namespace of None is that of the graph, else ``default``.

        Raises:
            InvalidDefinition: with all problems of the graph at once, or another namespace than the graph names.
        """
        statement = sql.CREATE_TASK_FROM_GRAPH_ONCE if idempotency_key is not None else sql.CREATE_TASK_FROM_GRAPH
        with _tracing.creating(str(graph.get("name")), namespace or graph.get("namespace")) as creation:
            task_uuid = await self._one(
                statement,
                {
                    "graph": dumps(graph, "graph"),
                    "context": dumps({} if context is None else context, "context"),
                    "namespace": namespace,
                    "idempotency_key": idempotency_key,
                    "correlation_id": as_uuid(correlation_id, "correlation_id"),
                    "priority": priority,
                    "parent_task_uuid": as_uuid(parent_task_uuid, "parent_task_uuid"),
                    "tags": dumps(creation.tags({} if tags is None else tags), "tags"),
                    "requested_by": requested_by,
                    "start": start,
                    "start_at": start_at,
                    "request_id": request_id,
                },
                conn,
            )
            creation.created(task_uuid)
        return task_uuid

    async def attempt_command(
        self,
        command: str,
        target: UUID | str,
        reason: str,
        requested_by: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Give a command of a person that leaves a row in ``rejected_transitions`` when it is refused.

        The methods of the commands go through it, unless they are given a ``conn``: there they abort the transaction,
        as any error does, and nothing is kept. Here a refusal leaves the caller's transaction as it was, and is kept
        when that commits.

        Args:
            command: name of the SQL function: ``cancel_task``, ``hold_task``, ``bind_login``, ...
            target: the task, step or worker, the tool of ``reset_breaker``, the login of ``bind_login``,
                a schedule, a namespace.
            reason: why; kept.
            requested_by: who asks; kept.
            arguments: ``{"result": ...}`` of ``resolve_step``, ``{"namespaces": [...]}`` of ``bind_login``,
                ``{"namespace": ...}`` of a schedule.
            request_id: as everywhere; commands about holds and logins may be repeated anyway and do not look at it.
            conn: the caller's transaction.

        Returns:
            The new state; of ``resume_task`` the new task, of ``resume_schedule`` its next time.

        Raises:
            PgtaskerError: what the command itself raises.
            psycopg.errors.InsufficientPrivilege: the login may not give this command.
        """
        attempt = await self._one(
            sql.ATTEMPT_COMMAND,
            {
                "command": command,
                "target": str(target),
                "reason": reason,
                "requested_by": requested_by,
                "arguments": dumps(arguments or {}, "arguments"),
                "request_id": request_id,
            },
            conn,
        )
        if attempt.code is not None:
            raise error_from_refusal(attempt.code, attempt.message or "", attempt.detail, attempt.hint)
        return attempt.state or ""

    async def _by_hand(
        self,
        command: sql.Command,
        target: UUID | str | None,
        reason: str,
        requested_by: str,
        request_id: str | None,
        conn: AsyncCallersConnection | None,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        if conn is None:
            return await self.attempt_command(
                command.name, str(target), reason, requested_by, given, request_id=request_id
            )
        return await self._one(
            command.statement,
            {
                command.target: target,
                "reason": reason,
                "requested_by": requested_by,
                "request_id": request_id,
                **{
                    name: dumps(value, name) if value is not None and name in command.documents else value
                    for name, value in (arguments or {}).items()
                },
            },
            conn,
        )

    async def cancel_task(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Cancel a task and its open steps; returns the new state. Raises InvalidTransition for a finished task."""
        return await self._by_hand(
            sql.CANCEL_TASK, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def give_up_task(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a blocked task end in failure; returns the new state."""
        return await self._by_hand(
            sql.GIVE_UP_TASK, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def resolve_task(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Declare a blocked task settled by hand; returns the new state."""
        return await self._by_hand(
            sql.RESOLVE_TASK, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def reset_task(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a failed task begin anew; returns the new state."""
        return await self._by_hand(
            sql.RESET_TASK, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def pass_validation(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a task that waits for its final validation pass it; returns the new state (seed 000)."""
        return await self._by_hand(
            sql.PASS_VALIDATION, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def fail_validation(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a task that waits for its final validation fail it; returns the new state (seed 000)."""
        return await self._by_hand(
            sql.FAIL_VALIDATION, as_uuid(task_uuid, "task_uuid"), reason, requested_by, request_id, conn
        )

    async def resume_task(
        self,
        task_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> UUID:
        """Go on where a task ended without success, cancelled for example; returns the new task (seed 002).

        The new task runs the unfinished steps only. They read the results of the finished ones, and get the
        checkpoints that were saved.

        Raises:
            InvalidTransition: the task is under way or ended well, or was resumed already.
        """
        task = as_uuid(task_uuid, "task_uuid")
        return UUID(await self._by_hand(sql.RESUME_TASK, task, reason, requested_by, request_id, conn))

    async def transition_task(
        self,
        task_uuid: UUID | str,
        event: str,
        processor_uuid: UUID | str | None = None,
        metadata: Any = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Send an event to a task through the generic door (ownership and guards are checked); returns the new state.

        Raises:
            InvalidTransition, GuardFailed, NotOwner, NotFound
        """
        return await self._one(
            sql.TRANSITION_TASK,
            {
                "task_uuid": as_uuid(task_uuid, "task_uuid"),
                "event": event,
                "processor_uuid": as_uuid(processor_uuid, "processor_uuid"),
                "metadata": dumps({} if metadata is None else metadata, "metadata"),
                "request_id": request_id,
            },
            conn,
        )

    async def transition_with_ownership(
        self,
        task_uuid: UUID | str,
        from_state: str,
        to_state: str,
        processor_uuid: UUID | str,
        metadata: Any = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> bool:
        """Move a task from one state to another if it still is in the first (seed 004); False when it is not."""
        return await self._one(
            sql.TRANSITION_WITH_OWNERSHIP,
            {
                "task_uuid": as_uuid(task_uuid, "task_uuid"),
                "from_state": from_state,
                "to_state": to_state,
                "processor_uuid": as_uuid(processor_uuid, "processor_uuid"),
                "metadata": dumps({} if metadata is None else metadata, "metadata"),
            },
            conn,
        )

    # ------------------------------------------------------------------------------------------------------- steps

    async def claim_steps(
        self,
        worker_uuid: UUID | str,
        namespaces: Sequence[str] | None = None,
        limit: int = 1,
        lease: float | dt.timedelta = 30.0,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[ClaimedStep]:
        """Take up to ``limit`` ready steps for a worker, of some namespaces or of all; they are in progress when this
        returns.
        """
        return await self._rows(
            sql.CLAIM_STEPS,
            {
                "worker_uuid": as_uuid(worker_uuid, "worker_uuid"),
                "namespaces": None if namespaces is None else list(namespaces),
                "limit": limit,
                "lease": as_seconds(lease, "lease"),
            },
            conn,
        )

    async def complete_steps(
        self, results: Iterable[Mapping[str, Any]], *, conn: AsyncCallersConnection | None = None
    ) -> list[StepOutcome]:
        """Report many results in one call; one outcome per result, in the same order.

        A refused result does not stop the others.

        Args:
            results: objects ``{"step_uuid", "claim_uuid", "success", "result", "error", "category", "retry_after",
                "execution_time_ms"}``; ``success`` is true when left out, ``retry_after`` counts seconds.
            conn: the caller's transaction.
        """
        return await self._rows(sql.COMPLETE_STEPS, {"results": dumps(list(results), "results")}, conn)

    async def complete_step(
        self,
        step_uuid: UUID | str,
        claim_uuid: UUID | str,
        result: Any = None,
        execution_time_ms: int | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Report that a claimed step was done; returns its new state.

        With ``conn`` the result commits together with the caller's own data.

        Raises:
            StaleClaim: the claim was lost; nothing changed.
        """
        return await self._one(
            sql.COMPLETE_STEP,
            {
                "step_uuid": as_uuid(step_uuid, "step_uuid"),
                "claim_uuid": as_uuid(claim_uuid, "claim_uuid"),
                "result": dumps(result, "result"),
                "execution_time_ms": execution_time_ms,
                "request_id": request_id,
            },
            conn,
        )

    async def fail_step(
        self,
        step_uuid: UUID | str,
        claim_uuid: UUID | str,
        error: Any,
        category: Literal["transient", "permanent", "unknown"] = "unknown",
        retry_after: float | dt.timedelta | None = None,
        execution_time_ms: int | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Report that a claimed step failed; returns its new state. The engine decides on a retry.

        Raises:
            StaleClaim: the claim was lost; nothing changed.
        """
        return await self._one(
            sql.FAIL_STEP,
            {
                "step_uuid": as_uuid(step_uuid, "step_uuid"),
                "claim_uuid": as_uuid(claim_uuid, "claim_uuid"),
                "error": dumps(error, "error"),
                "category": category,
                "retry_after": as_seconds(retry_after, "retry_after"),
                "execution_time_ms": execution_time_ms,
                "request_id": request_id,
            },
            conn,
        )

    async def extend_leases(
        self,
        worker_uuid: UUID | str,
        lease: float | dt.timedelta = 30.0,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> int:
        """Extend all leases of a worker to ``lease`` from now; returns how many."""
        return await self._one(
            sql.EXTEND_LEASES,
            {"worker_uuid": as_uuid(worker_uuid, "worker_uuid"), "lease": as_seconds(lease, "lease")},
            conn,
        )

    async def save_checkpoint(
        self,
        step_uuid: UUID | str,
        claim_uuid: UUID | str,
        checkpoint: Any,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Keep partial output of a claimed step: its next attempt gets it, whatever ends this one (seed 002).

        Args:
            step_uuid: the step.
            claim_uuid: the claim it is held under.
            checkpoint: JSON data other than None; replaces what was saved before.
            conn: the caller's transaction.

        Raises:
            StaleClaim: the claim was lost; nothing changed.
        """
        await self._one(
            sql.SAVE_CHECKPOINT,
            {
                "step_uuid": as_uuid(step_uuid, "step_uuid"),
                "claim_uuid": as_uuid(claim_uuid, "claim_uuid"),
                "checkpoint": None if checkpoint is None else dumps(checkpoint, "checkpoint"),
            },
            conn,
        )

    async def load_result(
        self,
        uuid: UUID | str,
        claim_uuid: UUID | str | None = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> Any:
        """Return a result as it was reported, however big; None for a step that has none.

        Args:
            uuid: a step, for its latest result, or the ``payload_uuid`` that stands in place of a big one in logs,
                views and inputs.
            claim_uuid: the claim of a step that depends on it: with it a sensitive result comes whole.
            conn: the caller's transaction.

        Raises:
            NotFound: no such step or result.
            StaleClaim: the result is sensitive, and no step that depends on it is held under this claim.
        """
        return await self._one(
            sql.LOAD_RESULT,
            {
                "uuid": as_uuid(uuid, "uuid"),
                "claim_uuid": None if claim_uuid is None else as_uuid(claim_uuid, "claim_uuid"),
            },
            conn,
        )

    async def report_validation(
        self,
        step_uuid: UUID | str,
        claim_uuid: UUID | str,
        passed: bool,
        details: Any = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Report the acceptance checks of a step in a validating phase; returns its new state (seeds 000 and 002).

        Args:
            step_uuid: the step.
            claim_uuid: the claim it is still held under.
            passed: whether all checks passed; a failure is final, it is never retried.
            details: JSON data kept in the log.
            conn: the caller's transaction.

        Raises:
            StaleClaim: the claim was lost; nothing changed.
            InvalidTransition: the step is not being validated.
        """
        return await self._one(
            sql.REPORT_VALIDATION,
            {
                "step_uuid": as_uuid(step_uuid, "step_uuid"),
                "claim_uuid": as_uuid(claim_uuid, "claim_uuid"),
                "passed": passed,
                "details": dumps({} if details is None else details, "details"),
            },
            conn,
        )

    async def held_claims(self, worker_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> list[UUID]:
        """Return the steps that a worker still holds; one missing here was cancelled or lost its lease."""
        return await self._rows(sql.HELD_CLAIMS, {"worker_uuid": as_uuid(worker_uuid, "worker_uuid")}, conn)

    async def cancel_step(
        self,
        step_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Cancel a step; returns its new state."""
        return await self._by_hand(
            sql.CANCEL_STEP, as_uuid(step_uuid, "step_uuid"), reason, requested_by, request_id, conn
        )

    async def skip_step(
        self,
        step_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Skip a step; returns its new state."""
        return await self._by_hand(
            sql.SKIP_STEP, as_uuid(step_uuid, "step_uuid"), reason, requested_by, request_id, conn
        )

    async def retry_step(
        self,
        step_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a failed step try again now; returns its new state."""
        return await self._by_hand(
            sql.RETRY_STEP, as_uuid(step_uuid, "step_uuid"), reason, requested_by, request_id, conn
        )

    async def reset_step(
        self,
        step_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a failed step begin anew with all its attempts; returns its new state."""
        return await self._by_hand(
            sql.RESET_STEP, as_uuid(step_uuid, "step_uuid"), reason, requested_by, request_id, conn
        )

    async def resolve_step(
        self,
        step_uuid: UUID | str,
        reason: str,
        requested_by: str,
        result: Any = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Declare a failed step settled by hand, with the result its dependents shall see; returns its new state."""
        return await self._by_hand(
            sql.RESOLVE_STEP,
            as_uuid(step_uuid, "step_uuid"),
            reason,
            requested_by,
            request_id,
            conn,
            {"result": result},
        )

    async def transition_step(
        self,
        step_uuid: UUID | str,
        event: str,
        metadata: Any = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Send an event to a step through the generic door; returns its new state.

        Raises:
            InvalidTransition, GuardFailed, NotFound
        """
        return await self._one(
            sql.TRANSITION_STEP,
            {
                "step_uuid": as_uuid(step_uuid, "step_uuid"),
                "event": event,
                "metadata": dumps({} if metadata is None else metadata, "metadata"),
                "request_id": request_id,
            },
            conn,
        )

    # ---------------------------------------------------------------------------------- drive, workers, processors

    async def orchestrate(
        self,
        processor_uuid: UUID | str | None = None,
        limit: int = 100,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> DriveCounts:
        """Settle up to ``limit`` reported results and move their tasks on. Workers do this by themselves."""
        return await self._one(
            sql.ORCHESTRATE, {"processor_uuid": as_uuid(processor_uuid, "processor_uuid"), "limit": limit}, conn
        )

    async def tick(self, limit: int = 1000, *, conn: AsyncCallersConnection | None = None) -> TickCounts:
        """Fire due timers: retries, expired leases, timeouts. Workers do this by themselves."""
        return await self._one(sql.TICK, {"limit": limit}, conn)

    async def register_worker(
        self,
        name: str,
        capabilities: Sequence[str] = (),
        max_concurrent: int = 1000,
        vocabulary: str = "tasker",
        namespaces: Sequence[str] | None = None,
        heartbeat_interval: float | dt.timedelta = 10.0,
        max_missed_heartbeats: int = 3,
        handlers: Sequence[str] | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> UUID:
        """Make a worker known; returns the UUID it claims with.

        Args:
            name: shown to people.
            capabilities: what it can do; steps that require more are never handed to it.
            max_concurrent: most steps it holds at once.
            vocabulary: whose worker lifecycle it follows.
            namespaces: whose steps it works for; None: all.
            heartbeat_interval: seconds between its signs of life.
            max_missed_heartbeats: so many missed ones make a busy worker lose what it holds.
            handlers: the handlers it has: it is never given a step of another one; None: any.
            request_id: makes the call safe to repeat.
            conn: the caller's transaction.
        """
        return await self._one(
            sql.REGISTER_WORKER,
            {
                "name": name,
                "capabilities": list(capabilities),
                "max_concurrent": max_concurrent,
                "vocabulary": vocabulary,
                "namespaces": None if namespaces is None else list(namespaces),
                "heartbeat_interval": as_seconds(heartbeat_interval, "heartbeat_interval"),
                "max_missed_heartbeats": max_missed_heartbeats,
                "handlers": None if handlers is None else list(handlers),
                "request_id": request_id,
            },
            conn,
        )

    async def worker_heartbeat(self, worker_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> str:
        """Tell that a worker lives; returns its state. One that was given up and comes back is idle again."""
        return await self._one(sql.WORKER_HEARTBEAT, {"worker_uuid": as_uuid(worker_uuid, "worker_uuid")}, conn)

    async def shutdown_worker(
        self,
        worker_uuid: UUID | str,
        reason: str | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Take a worker out of service; returns its state. It ends when it holds nothing any more."""
        return await self._one(
            sql.SHUTDOWN_WORKER,
            {"worker_uuid": as_uuid(worker_uuid, "worker_uuid"), "reason": reason, "request_id": request_id},
            conn,
        )

    async def worker_state(self, worker_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> str | None:
        """Return a worker's state; None when there is no such worker."""
        return await self._one(sql.WORKER_STATE, {"worker_uuid": as_uuid(worker_uuid, "worker_uuid")}, conn)

    async def start_worker(
        self,
        worker_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Start a supervised worker by hand (seed 003); returns its state."""
        return await self._by_hand(
            sql.START_WORKER, as_uuid(worker_uuid, "worker_uuid"), reason, requested_by, request_id, conn
        )

    async def pause_worker(
        self,
        worker_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Suspend a worker: it claims nothing until it is resumed (seed 003); returns its state."""
        return await self._by_hand(
            sql.PAUSE_WORKER, as_uuid(worker_uuid, "worker_uuid"), reason, requested_by, request_id, conn
        )

    async def resume_worker(
        self,
        worker_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let a suspended worker go on (seed 003); returns its state."""
        return await self._by_hand(
            sql.RESUME_WORKER, as_uuid(worker_uuid, "worker_uuid"), reason, requested_by, request_id, conn
        )

    async def terminate_worker(
        self,
        worker_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Stop a worker by force: its claims end, its late reports are refused (seed 003); returns its state."""
        return await self._by_hand(
            sql.TERMINATE_WORKER, as_uuid(worker_uuid, "worker_uuid"), reason, requested_by, request_id, conn
        )

    async def drain_worker(
        self,
        worker_uuid: UUID | str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Let the process of a worker finish what it holds, claim nothing more, and stop; returns its state."""
        return await self._by_hand(
            sql.DRAIN_WORKER, as_uuid(worker_uuid, "worker_uuid"), reason, requested_by, request_id, conn
        )

    async def is_drained(self, worker_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> bool:
        """Return whether somebody asked the process of a worker to stop (``drain_worker``)."""
        return await self._one(sql.IS_DRAINED, {"worker_uuid": as_uuid(worker_uuid, "worker_uuid")}, conn)

    async def register_processor(
        self, name: str, lease: float | dt.timedelta = 30.0, *, conn: AsyncCallersConnection | None = None
    ) -> UUID:
        """Make an orchestration processor known; it may own tasks while its lease lives."""
        return await self._one(sql.REGISTER_PROCESSOR, {"name": name, "lease": as_seconds(lease, "lease")}, conn)

    async def processor_heartbeat(
        self,
        processor_uuid: UUID | str,
        lease: float | dt.timedelta = 30.0,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> dt.datetime:
        """Extend a processor's lease; returns when it ends."""
        return await self._one(
            sql.PROCESSOR_HEARTBEAT,
            {"processor_uuid": as_uuid(processor_uuid, "processor_uuid"), "lease": as_seconds(lease, "lease")},
            conn,
        )

    # ---------------------------------------------------------------------------------------------------- schedules

    async def schedule_tasks(
        self,
        schedule: str,
        cron: str,
        template: str,
        context: Any = None,
        *,
        namespace: str = "default",
        time_zone: str = "UTC",
        version: str | None = None,
        vocabulary: str | None = None,
        tags: Mapping[str, Any] | None = None,
        priority: int = 0,
        catch_up: Literal["latest", "all", "none"] = "latest",
        overlap: Literal["allow", "skip"] = "allow",
        requested_by: str | None = None,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> dt.datetime | None:
        """Create a task from a template whenever a cron expression says so; called again it changes the schedule.

        Args:
            schedule: name, unique in its namespace.
            cron: minute, hour, day of the month, month, day of the week; or ``@hourly``, ``@daily``, ...
            template: a registered template of the namespace.
            context: JSON-able object that every task gets; ``scheduled_for`` is added to it.
            namespace: where the tasks are created.
            time_zone: whose clock is meant, such as ``Europe/Berlin``.
            version: of the template; None takes the newest when the time comes.
            vocabulary: under whose names the tasks run; None takes that of the template.
            tags: of the tasks; ``schedule`` is added to them.
            priority: of the tasks, from -9 to 9.
            catch_up: of times that passed while nobody ticked: a task for the newest, for all, or for none.
            overlap: ``skip`` creates none while the task before is not finished.
            requested_by: who asks; kept with the schedule and its tasks.
            request_id: makes the call safe to repeat.
            conn: the caller's transaction.

        Returns:
            The next time; None while the schedule is paused.

        Raises:
            InvalidDefinition: no cron expression, no such time zone, or a time that never comes.
            NotFound: no such template.
        """
        return await self._one(
            sql.SCHEDULE_TASKS,
            {
                "schedule": schedule,
                "cron": cron,
                "template": template,
                "context": dumps({} if context is None else context, "context"),
                "namespace": namespace,
                "time_zone": time_zone,
                "version": version,
                "vocabulary": vocabulary,
                "tags": dumps({} if tags is None else dict(tags), "tags"),
                "priority": priority,
                "catch_up": catch_up,
                "overlap": overlap,
                "requested_by": requested_by,
                "request_id": request_id,
            },
            conn,
        )

    async def pause_schedule(
        self,
        schedule: str,
        reason: str,
        requested_by: str,
        *,
        namespace: str = "default",
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Let the times of a schedule pass until it is resumed; tasks that were created go on."""
        await self._by_hand(
            sql.PAUSE_SCHEDULE, schedule, reason, requested_by, request_id, conn, {"namespace": namespace}
        )

    async def resume_schedule(
        self,
        schedule: str,
        reason: str,
        requested_by: str,
        *,
        namespace: str = "default",
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> dt.datetime:
        """Let a paused schedule go on; returns its next time. What passed meanwhile: ``backfill_schedule``."""
        next_due_at = await self._by_hand(
            sql.RESUME_SCHEDULE, schedule, reason, requested_by, request_id, conn, {"namespace": namespace}
        )
        return dt.datetime.fromisoformat(next_due_at)

    async def remove_schedule(
        self,
        schedule: str,
        reason: str,
        requested_by: str,
        *,
        namespace: str = "default",
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Remove a schedule; tasks that were created go on."""
        await self._by_hand(
            sql.REMOVE_SCHEDULE, schedule, reason, requested_by, request_id, conn, {"namespace": namespace}
        )

    async def backfill_schedule(
        self,
        schedule: str,
        since: dt.datetime,
        until: dt.datetime,
        reason: str,
        requested_by: str,
        *,
        namespace: str = "default",
        dry_run: bool = True,
        conn: AsyncCallersConnection | None = None,
    ) -> list[ScheduledTask]:
        """Return the tasks of a schedule for times that passed, both ends included; create those that are missing.

        Args:
            schedule: its name.
            since: the first moment; at most 10,000 times lie between it and the last.
            until: the last moment, not in the future.
            reason: why, kept as an event.
            requested_by: who asks.
            namespace: of the schedule.
            dry_run: only say what is missing.
            conn: the caller's transaction.

        Raises:
            NotFound: no such schedule.
            InvalidDefinition: no such period, or too many times in it.
        """
        return await self._rows(
            sql.BACKFILL_SCHEDULE,
            {
                "schedule": schedule,
                "since": since,
                "until": until,
                "reason": reason,
                "requested_by": requested_by,
                "namespace": namespace,
                "dry_run": dry_run,
            },
            conn,
        )

    async def schedules(
        self, namespace: str | None = None, *, conn: AsyncCallersConnection | None = None
    ) -> list[Schedule]:
        """Return the schedules, of one namespace if given, by name."""
        return await self._rows(sql.SCHEDULES, {"namespace": namespace}, conn)

    async def cron_times(
        self,
        cron: str,
        time_zone: str = "UTC",
        after: dt.datetime | None = None,
        until: dt.datetime | None = None,
        limit: int = 10,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[dt.datetime]:
        """Return the next times of a cron expression after ``after`` (None: now), at most ``limit``.

        Raises:
            InvalidDefinition: no cron expression, or no such time zone.
        """
        return await self._rows(
            sql.CRON_TIMES,
            {"cron": cron, "time_zone": time_zone, "after": after, "until": until, "limit": limit},
            conn,
        )

    # ------------------------------------------------------------------------------------------------------- events

    async def emit_event(
        self,
        event: str,
        key: str,
        payload: Any = None,
        *,
        namespace: str = "default",
        requested_by: str | None = None,
        keep: float | dt.timedelta | None = 90 * 86400.0,
        conn: AsyncCallersConnection | None = None,
    ) -> Emission:
        """Tell that something happened: steps that wait for it go on, now or when they come to wait.

        The first to tell it wins. Told again with the same payload the outcome is ``repeated``, with another one
        ``differs``; either changes nothing, and the answer says what is there.

        Args:
            event: what happened, such as ``approved``.
            key: to what, such as the number of an order.
            payload: JSON-able; input of the steps that wait, under the event's name.
            namespace: of the tasks that wait.
            requested_by: who tells it; kept with it and in the audit.
            keep: seconds until it may be forgotten; None: never.
            conn: the caller's transaction: it is told when that commits.

        Raises:
            InvalidDefinition: no event, no key, or one that is too long.
            NotFound: no such namespace.
            NotOwner: the login is bound to other namespaces.
        """
        return await self._one(
            sql.EMIT_EVENT,
            {
                "event": event,
                "key": key,
                "payload": dumps({} if payload is None else payload, "payload"),
                "namespace": namespace,
                "requested_by": requested_by,
                "keep": None if keep is None else as_seconds(keep, "keep"),
            },
            conn,
        )

    async def get_event(
        self, event: str, key: str, *, namespace: str = "default", conn: AsyncCallersConnection | None = None
    ) -> EmittedEvent | None:
        """Return an event; None when it was not emitted, or is forgotten."""
        found = await self._rows(sql.GET_EVENT, {"event": event, "key": key, "namespace": namespace}, conn)
        return found[0] if found else None

    async def emitted_events(
        self,
        namespace: str | None = None,
        event: str | None = None,
        limit: int = 100,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[EmittedEvent]:
        """Return the newest events, of one namespace or name if given."""
        return await self._rows(sql.EMITTED_EVENTS, {"namespace": namespace, "event": event, "limit": limit}, conn)

    # ----------------------------------------------------------------------------------- tools, breakers, limits

    async def configure_tool(
        self,
        tool: str,
        timeout: float | dt.timedelta | None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Say how long one attempt of a step with this tool may take where the step does not say it (seed 002).

        Args:
            tool: what steps name as their tool; their handler where they name none.
            timeout: seconds; None takes the default of 300 s. Holds for tasks created from now on.
            request_id: makes the call safe to repeat.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: a timeout that is not longer than nothing.
        """
        seconds = None if timeout is None else as_seconds(timeout, "timeout")
        await self._one(sql.CONFIGURE_TOOL, {"tool": tool, "timeout": seconds, "request_id": request_id}, conn)

    async def configure_breaker(
        self,
        tool: str,
        failure_threshold: int = 5,
        cooldown: float | dt.timedelta = 60.0,
        success_threshold: int = 1,
        max_error_repeats: int | None = None,
        vocabulary: str = "tasker",
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Give a tool a circuit breaker, or change its settings; returns its state (seeds 001 and 002).

        Args:
            tool: what steps name as their tool; their handler where they name none.
            failure_threshold: so many failures in a row open it.
            cooldown: seconds it stays open.
            success_threshold: so many successful trials close it.
            max_error_repeats: the same error repeated more often opens it; None: not looked at.
            vocabulary: whose breaker lifecycle it follows.
            request_id: makes the call safe to repeat.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: settings that make no sense.
        """
        return await self._one(
            sql.CONFIGURE_BREAKER,
            {
                "tool": tool,
                "failure_threshold": failure_threshold,
                "cooldown": as_seconds(cooldown, "cooldown"),
                "success_threshold": success_threshold,
                "max_error_repeats": max_error_repeats,
                "vocabulary": vocabulary,
                "request_id": request_id,
            },
            conn,
        )

    async def set_limit(
        self,
        scope: str,
        name: str,
        concurrency: int | None = None,
        rate: int | None = None,
        per: float | dt.timedelta = 1.0,
        namespace: str | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> UUID:
        """Limit how many steps run at once, how many start in a time, or both; returns the key of the limit.

        Called again for the same it sets both anew. Steps that run go on; those beyond wait in line and use up no
        attempt.

        Args:
            scope: ``tool``, ``namespace`` or ``template``.
            name: of the tool (what steps name as theirs; their handler where they name none), namespace or template.
            concurrency: so many run at once; None: any number.
            rate: so many start in any stretch of time as long as ``per``; None: any number.
            per: seconds.
            namespace: where the template stands (``default``), or whose steps of the tool are counted; None counts
                those of all namespaces together.
            request_id: makes the call safe to repeat.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: no scope, or numbers that make no sense.
            NotFound: there is no such namespace.
            PermissionDenied: the login is bound, and what it limits is shared.
        """
        return await self._one(
            sql.SET_LIMIT,
            {
                "scope": scope,
                "name": name,
                "concurrency": concurrency,
                "rate": rate,
                "per": as_seconds(per, "per"),
                "namespace": namespace,
                "request_id": request_id,
            },
            conn,
        )

    async def remove_limit(
        self,
        scope: str,
        name: str,
        namespace: str | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> None:
        """Take a limit away: what waits for it is queued.

        Raises:
            NotFound: there is none.
        """
        await self._one(
            sql.REMOVE_LIMIT,
            {"scope": scope, "name": name, "namespace": namespace, "request_id": request_id},
            conn,
        )

    async def breaker_state(self, tool: str, *, conn: AsyncCallersConnection | None = None) -> str | None:
        """Return the state of a tool's breaker; None when it has none."""
        return await self._one(sql.BREAKER_STATE, {"tool": tool}, conn)

    async def breaker_permit(
        self, tool: str, lease: float | dt.timedelta = 60.0, *, conn: AsyncCallersConnection | None = None
    ) -> BreakerPermit:
        """Ask whether a tool may be called now, for callers that are no steps.

        A half-open breaker allows exactly one trial, which must report with ``record_breaker_result`` and its
        ``permit_uuid`` within ``lease`` seconds.

        Raises:
            NotFound: the tool has no breaker.
        """
        return await self._one(sql.BREAKER_PERMIT, {"tool": tool, "lease": as_seconds(lease, "lease")}, conn)

    async def breaker_allows(self, tool: str, *, conn: AsyncCallersConnection | None = None) -> bool:
        """Return True when a tool may be called now.

        Raises:
            CircuitOpen: it may not; ``detail["retry_at"]`` says when to ask again.
            NotFound: the tool has no breaker.
        """
        return await self._one(sql.BREAKER_ALLOWS, {"tool": tool}, conn)

    async def record_breaker_result(
        self,
        tool: str,
        success: bool,
        error: Any = None,
        permit_uuid: UUID | str | None = None,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Report how a call of a tool ended, for callers that are no steps; returns the state of its breaker."""
        return await self._one(
            sql.RECORD_BREAKER_RESULT,
            {
                "tool": tool,
                "success": success,
                "error": None if error is None else dumps(error, "error"),
                "permit_uuid": as_uuid(permit_uuid, "permit_uuid"),
                "request_id": request_id,
            },
            conn,
        )

    async def reset_breaker(
        self,
        tool: str,
        reason: str,
        requested_by: str,
        *,
        request_id: str | None = None,
        conn: AsyncCallersConnection | None = None,
    ) -> str:
        """Close the breaker of a tool by hand (seed 001, Recovery 3); returns its state."""
        return await self._by_hand(sql.RESET_BREAKER, tool, reason, requested_by, request_id, conn)

    # -------------------------------------------------------------------------------------------------------- read

    async def task_status(self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> TaskOverview:
        """Return one task with its progress counters.

        Raises:
            NotFound: no such task.
        """
        found = await self._rows(sql.TASK_STATUS, {"task_uuid": as_uuid(task_uuid, "task_uuid")}, conn)
        return _only(found, "task", task_uuid)

    async def task(self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> TaskOverview:
        """The same as ``task_status``."""
        return await self.task_status(task_uuid, conn=conn)

    async def tasks(
        self,
        namespace: str | None = None,
        state: str | None = None,
        limit: int = 50,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[TaskOverview]:
        """Return the newest tasks, newest first, of one namespace and in one state if given; at most 1,000."""
        return (await self.find_tasks(namespace, state=state, limit=limit, conn=conn)).tasks

    async def find_tasks(
        self,
        namespace: str | None = None,
        name: str | None = None,
        state: str | None = None,
        phase: str | None = None,
        before: UUID | str | None = None,
        limit: int = 50,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> TaskPage:
        """Return a page of tasks, newest first.

        Args:
            namespace: only of this one.
            name: only of the workflow of this name.
            state: only in this state.
            phase: only in states of this canonical phase, whatever they are called.
            before: the ``next_before`` of the page before; None begins with the newest.
            limit: 1 to 1,000. A page may be shorter and still have a next one.
            conn: the caller's transaction.
        """
        found = await self._rows(
            sql.FIND_TASKS,
            {
                "namespace": namespace,
                "name": name,
                "state": state,
                "phase": phase,
                "before": as_uuid(before, "before"),
                "limit": limit,
            },
            conn,
        )
        return TaskPage([task for _, task in found if task is not None], found[0][0])

    async def steps(
        self,
        task_uuid: UUID | str,
        after_ordinal: int = 0,
        limit: int | None = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[StepOverview]:
        """Return the steps of a task in the order of its definition, from behind ``after_ordinal``."""
        return await self._rows(
            sql.STEPS,
            {"task_uuid": as_uuid(task_uuid, "task_uuid"), "after_ordinal": after_ordinal, "limit": limit},
            conn,
        )

    async def step(self, step_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> StepOverview:
        """Return one step.

        Raises:
            NotFound: no such step.
        """
        found = await self._rows(sql.STEP, {"step_uuid": as_uuid(step_uuid, "step_uuid")}, conn)
        return _only(found, "step", step_uuid)

    async def workers(
        self,
        ended: bool = False,
        before: UUID | str | None = None,
        limit: int = 100,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[WorkerOverview]:
        """Return the newest workers, newest first; those that have ended only if ``ended``."""
        return await self._rows(
            sql.WORKERS,
            {"worker_uuid": None, "ended": ended, "before": as_uuid(before, "before"), "limit": limit},
            conn,
        )

    async def worker(self, worker_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> WorkerOverview:
        """Return one worker.

        Raises:
            NotFound: no such worker.
        """
        found = await self._rows(
            sql.WORKERS,
            {"worker_uuid": as_uuid(worker_uuid, "worker_uuid"), "ended": True, "before": None, "limit": 1},
            conn,
        )
        return _only(found, "worker", worker_uuid)

    async def breakers(self, *, conn: AsyncCallersConnection | None = None) -> list[BreakerOverview]:
        """Return all circuit breakers, by the name of their tool."""
        return await self._rows(sql.BREAKERS, {"tool": None}, conn)

    async def breaker(self, tool: str, *, conn: AsyncCallersConnection | None = None) -> BreakerOverview:
        """Return the circuit breaker of a tool.

        Raises:
            NotFound: it has none.
        """
        return _only(await self._rows(sql.BREAKERS, {"tool": tool}, conn), "circuit_breaker", tool)

    async def limits(self, *, conn: AsyncCallersConnection | None = None) -> list[LimitOverview]:
        """Return all limits with what they have given away and how many steps wait for them."""
        return await self._rows(sql.LIMITS, {}, conn)

    async def timeline(
        self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> list[TimelineEntry]:
        """Return every transition of a task and its steps, oldest first."""
        return await self._rows(sql.TIMELINE, {"task_uuid": as_uuid(task_uuid, "task_uuid")}, conn)

    async def allowed_events(
        self, kind: Literal["task", "step"], uuid: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> list[AllowedEvent]:
        """Return the events that the current state knows, and whether their guards hold now."""
        return await self._rows(sql.ALLOWED_EVENTS, {"kind": kind, "uuid": as_uuid(uuid, "uuid")}, conn)

    async def explain_task(self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None) -> Explanation:
        """Tell in words why a task is not moving, with the calls that would move it."""
        found = await self._one(sql.EXPLAIN_TASK, {"task_uuid": as_uuid(task_uuid, "task_uuid")}, conn)
        return Explanation.from_json(found)

    async def get_step_readiness_status(
        self,
        task_uuid: UUID | str,
        step_uuids: Iterable[UUID | str] | None = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Return for each step of a task (or for some of them) whether it may start and what is missing; one dict a
        step.
        """
        return await self._rows(
            sql.STEP_READINESS,
            {"task_uuid": as_uuid(task_uuid, "task_uuid"), "step_uuids": as_uuids(step_uuids, "step_uuids")},
            conn,
        )

    async def get_task_execution_context(
        self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> dict[str, Any]:
        """Return the counts and the recommended action of a task as one dict.

        Raises:
            NotFound: no such task.
        """
        found = await self._rows(sql.TASK_EXECUTION_CONTEXT, {"task_uuid": as_uuid(task_uuid, "task_uuid")}, conn)
        return _only(found, "task", task_uuid)

    async def wait(
        self, task_uuid: UUID | str, timeout: float | dt.timedelta | None = None, *, blocked: bool = False
    ) -> TaskOverview:
        """Wait until a task has ended and return it. Notifications shorten the wait, polling makes it sure.

        Args:
            task_uuid: the task; it must be visible to other transactions, that is, committed.
            timeout: seconds; None waits for ever.
            blocked: also return when the task is blocked, that is, waits for somebody to decide.

        Raises:
            WaitTimeout: the time is up; the task goes on.
            NotFound: no such task.
        """
        wanted = as_uuid(task_uuid, "task_uuid")
        seconds = as_seconds(timeout, "timeout")
        deadline = None if seconds is None else time.monotonic() + seconds
        await self._ready_pool()
        listener = self._listener("tasker_task_state")
        pause = 0.02
        try:
            # Listen first, look afterwards: an end between the two is seen by the look.
            await listener.connect()
            while True:
                found = await self.task_status(task_uuid)
                if found.is_terminal or (blocked and found.phase == "blocked"):
                    return found
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    raise WaitTimeout(
                        f"task {task_uuid} has not ended within {seconds:g} s; it is in state {found.state}",
                        detail={"task_uuid": str(task_uuid), "state": found.state},
                        hint="See explain_task for what it waits for.",
                    )
                await listener.wait(left, matching=lambda payload: str(wanted) in payload)
                pause = min(pause * 1.5, 1.0)
        finally:
            await listener.close()

    # ------------------------------------------------------------------------------------------------------- audit

    async def get_step_audit_history(
        self, task_uuid: UUID | str, step_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> list[AuditRecord]:
        """Return the audit records of a step, newest first (seed 004, "Via Client")."""
        return await self._rows(
            sql.STEP_AUDIT,
            {"task_uuid": as_uuid(task_uuid, "task_uuid"), "step_uuid": as_uuid(step_uuid, "step_uuid")},
            conn,
        )

    async def get_task_audit_history(
        self, task_uuid: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> list[AuditRecord]:
        """Return the audit records of a task, newest first."""
        return await self._rows(sql.TASK_AUDIT, {"task_uuid": as_uuid(task_uuid, "task_uuid")}, conn)

    async def get_audit_by_worker(
        self, worker_uuid: UUID | str, limit: int = 100, *, conn: AsyncCallersConnection | None = None
    ) -> list[AuditRecord]:
        """Return the newest audit records of a worker (attribution)."""
        return await self._rows(
            sql.WORKER_AUDIT, {"worker_uuid": as_uuid(worker_uuid, "worker_uuid"), "limit": limit}, conn
        )

    async def get_audit_by_correlation_id(
        self, correlation_id: UUID | str, *, conn: AsyncCallersConnection | None = None
    ) -> list[AuditRecord]:
        """Return the audit records of one traced request, newest first."""
        return await self._rows(
            sql.CORRELATION_AUDIT, {"correlation_id": as_uuid(correlation_id, "correlation_id")}, conn
        )

    # --------------------------------------------------------------------------------------------- feed, operation

    async def changes_after(
        self, cursor: str | None = None, limit: int = 1000, *, conn: AsyncCallersConnection | None = None
    ) -> list[Change]:
        """Return up to ``limit`` transitions after a cursor (None: from the beginning), without gaps."""
        return await self._rows(sql.CHANGES_AFTER, {"cursor": cursor, "limit": limit}, conn)

    async def current_cursor(self, *, conn: AsyncCallersConnection | None = None) -> str:
        """Return the cursor of now: ``changes_after`` it gives what happens from now on."""
        return await self._one(sql.CURRENT_CURSOR, None, conn)

    async def events(
        self,
        cursor: str | None = None,
        *,
        follow: bool = True,
        limit: int = 1000,
        poll_interval: float = 0.5,
    ) -> AsyncGenerator[Change]:
        """Iterate over all transitions of tasks and steps, without gaps and each once, across broken connections.

        Keep the ``cursor`` of the last change you have dealt with, and go on from it after a restart.

        Args:
            cursor: where to go on; None is the beginning of the log, ``current_cursor()`` is now.
            follow: wait for what is still to come, for ever; False ends the iteration at the present.
            limit: changes fetched at once.
            poll_interval: seconds between looks when no notification comes.
        """
        await self._ready_pool()
        listener = self._listener("tasker_task_state", "tasker_step_state")
        backoff = Backoff(repeatable=True)
        try:
            if follow:
                await listener.connect()
            while not self._closed:
                try:
                    page = await self._rows(sql.CHANGES_AFTER, {"cursor": cursor, "limit": limit})
                except psycopg.OperationalError:
                    if not follow or self._closed:
                        raise
                    await asyncio.sleep(backoff.next_delay(0.1, 5.0))
                    continue
                backoff.reset()
                for change in page:
                    cursor = change.cursor
                    yield change
                if page:
                    continue
                if not follow:
                    return
                await listener.wait(poll_interval)
        finally:
            await listener.close()

    async def check_consistency(
        self,
        task_uuid: UUID | str | None = None,
        *,
        unfinished_only: bool = False,
        conn: AsyncCallersConnection | None = None,
    ) -> list[Finding]:
        """Recompute every cached number of a task (or of all) from the logs; an empty list is the right answer.

        Args:
            task_uuid: the task; None for all.
            unfinished_only: of all, those that have not ended: reads no log of what is over.
            conn: a connection of the caller's to run on.
        """
        arguments = {"task_uuid": as_uuid(task_uuid, "task_uuid"), "unfinished_only": unfinished_only}
        return await self._rows(sql.CHECK_CONSISTENCY, arguments, conn)

    async def command_all(
        self,
        command: str,
        filter: Mapping[str, Any],
        reason: str,
        requested_by: str,
        *,
        dry_run: bool = True,
        limit: int = 1000,
        conn: AsyncCallersConnection | None = None,
    ) -> list[Commanded]:
        """Give one command to all tasks, or steps of tasks, that a filter finds and for which the rules have it.

        Args:
            command: ``cancel_task``, ``give_up_task``, ``resolve_task``, ``reset_task``, ``fail_validation``,
                ``cancel_step``, ``skip_step`` or ``retry_step``.
            filter: at least one of ``namespace``, ``name``, ``state``, ``phase``, ``tags`` (an object),
                ``correlation_id``, ``requested_by``, ``created_after``, ``created_before`` (ISO 8601 with offset);
                for steps also ``step``, ``step_state``, ``handler``.
            reason: why, kept in the log of each.
            requested_by: who asks.
            dry_run: only show what is found.
            limit: at most so many; call again while as many are answered.
            conn: the caller's transaction.

        Raises:
            InvalidDefinition: no such command or filter.
            NotOwner: no right to the command.
        """
        return await self._rows(
            sql.COMMAND_ALL,
            {
                "command": command,
                "filter": dumps(dict(filter), "filter"),
                "reason": reason,
                "requested_by": requested_by,
                "dry_run": dry_run,
                "limit": limit,
            },
            conn,
        )

    async def find_stuck(
        self, older_than: float | dt.timedelta = 600.0, *, conn: AsyncCallersConnection | None = None
    ) -> list[dict[str, Any]]:
        """Return what has not moved for longer than ``older_than`` though it could; one dict a finding."""
        return await self._rows(sql.FIND_STUCK, {"older_than": as_seconds(older_than, "older_than")}, conn)

    async def recover(
        self,
        dry_run: bool = True,
        task_uuid: UUID | str | None = None,
        reason: str | None = None,
        requested_by: str | None = None,
        *,
        conn: AsyncCallersConnection | None = None,
    ) -> list[Recovery]:
        """Find work that nothing would move any more, and mend it (seed 001, recovery procedures).

        Args:
            dry_run: only say what would be done.
            task_uuid: look at this task only.
            reason: why, kept in the log; needed unless it is a dry run.
            requested_by: who asks; needed unless it is a dry run.
            conn: the caller's transaction.
        """
        return await self._rows(
            sql.RECOVER,
            {
                "dry_run": dry_run,
                "task_uuid": as_uuid(task_uuid, "task_uuid"),
                "reason": reason,
                "requested_by": requested_by,
            },
            conn,
        )

    async def purge_expired(self, limit: int = 10000, *, conn: AsyncCallersConnection | None = None) -> int:
        """Remove stored answers to request ids that are too old; returns how many. ``tick`` does it too."""
        return await self._one(sql.PURGE_EXPIRED, {"limit": limit}, conn)


def _only(found: list[T], kind: str, key: UUID | str) -> T:
    if not found:
        raise NotFound(f"there is no {kind} {key}", detail={"kind": kind, "uuid": str(key)})
    return found[0]


async def _execute(
    conn: psycopg.AsyncConnection[Any], statement: sql.Statement[T], parameters: dict[str, Any] | None
) -> list[T]:
    # The cursor class is named on purpose: the caller's connection may make cursors with other placeholders or row
    # types.
    async with psycopg.AsyncCursor(conn, row_factory=statement.row_factory) as cursor:
        await cursor.execute(statement.sql, parameters)
        return await cursor.fetchall()
