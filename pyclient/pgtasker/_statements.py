"""Every SQL statement the Python package sends to the engine, in one place.

A statement names its columns, so that a newer schema with more columns serves this client too, and casts its
parameters, so that the server sees the same types whatever Python object came in. Durations travel as seconds.
"""

# ruff: noqa: S608 (statements are put together from the constants of this module alone)

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from psycopg.rows import args_row, dict_row, scalar_row, tuple_row

from . import _rows as rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.rows import BaseRowFactory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One statement and what it returns.

    ``repeatable`` says that sending it twice does no harm, so that it may be repeated when the connection broke and
    nobody knows whether it was carried out.
    """

    sql: bytes
    row_factory: BaseRowFactory[T]
    repeatable: bool = False


def _columns(row: type) -> str:
    # "timeout", "name", "event", ... are column names that some context could read as keywords: quoted, they never are.
    return ", ".join(f'"{field.name}"' for field in dataclasses.fields(row))


def _call(function: str, parameters: dict[str, str]) -> str:
    arguments = []
    for name, sql_type in parameters.items():
        value = f"%({name})s::{sql_type}"
        if sql_type == "interval":
            value = f"make_interval(secs => %({name})s::float8)"
        arguments.append(f"p_{name} => {value}")
    return f"tasker.{function}({', '.join(arguments)})"


def _scalar(
    function: str,
    returns: type[T],
    parameters: dict[str, str] | None = None,
    *,
    repeatable: bool = False,
) -> Statement[T]:
    """A function that returns one value (or a set of single values)."""
    factory: Any = scalar_row
    return Statement(f"SELECT {_call(function, parameters or {})}".encode(), factory, repeatable)


def _set(
    function: str,
    row: Callable[..., T],
    columns: str,
    parameters: dict[str, str] | None = None,
    *,
    repeatable: bool = False,
) -> Statement[T]:
    """A function that returns rows."""
    return Statement(f"SELECT {columns} FROM {_call(function, parameters or {})}".encode(), args_row(row), repeatable)


def _records(function: str, parameters: dict[str, str]) -> Statement[dict[str, Any]]:
    """A function whose rows are passed on as they are."""
    return Statement(f"SELECT * FROM {_call(function, parameters)}".encode(), dict_row, repeatable=True)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a person: its name, the parameter that names its target, and the statement that gives it.

    ``documents``: those of its further parameters that are JSON.
    """

    name: str
    target: str
    statement: Statement[str]
    documents: frozenset[str]


def _command(function: str, target: str, target_type: str = "uuid", **more: str) -> Command:
    """A command by hand; what it returns is read as text."""
    parameters = {target: target_type, **_BY_HAND, **more}
    statement: Statement[str] = Statement(f"SELECT {_call(function, parameters)}::text".encode(), scalar_row)
    return Command(function, target, statement, frozenset(name for name, kind in more.items() if kind == "jsonb"))


# ----------------------------------------------------------------------------------------------------- definitions

_REQUEST = {"request_id": "text"}
_BY_HAND = {"reason": "text", "requested_by": "text", **_REQUEST}

REGISTER_TEMPLATE = _scalar("register_template", UUID, {"template": "jsonb", **_REQUEST}, repeatable=True)
DEFINE_VOCABULARY = _scalar("define_vocabulary", str, {"definition": "jsonb"}, repeatable=True)
ENSURE_NAMESPACE = _scalar("ensure_namespace", str, {"namespace": "text", "description": "text"}, repeatable=True)
SET_NAMESPACE_NOTIFICATIONS: Statement[str] = _scalar(
    "set_namespace_notifications", str, {"namespace": "text", "mode": "text"}, repeatable=True
)
SET_PAYLOAD_LIMITS: Statement[str] = _scalar(
    "set_payload_limits", str, {"namespace": "text", "threshold": "int", "limit": "int"}, repeatable=True
)
PAUSE_NAMESPACE = _command("pause_namespace", "namespace", "text")
RESUME_NAMESPACE = _command("resume_namespace", "namespace", "text")
SCHEMA_VERSION = _scalar("schema_version", str, repeatable=True)
LIFECYCLE_DIAGRAM = _scalar("lifecycle_diagram", str, {"lifecycle": "text", "format": "text"}, repeatable=True)

# ----------------------------------------------------------------------------------------------------------- tasks

_TASK_OPTIONS = {
    "namespace": "text",
    "idempotency_key": "text",
    "correlation_id": "uuid",
    "priority": "int",
    "parent_task_uuid": "uuid",
    "tags": "jsonb",
    "requested_by": "text",
    "start_at": "timestamptz",
    "start": "boolean",
    **_REQUEST,
}
CREATE_TASK = _scalar(
    "create_task",
    UUID,
    {
        "name": "text",
        "context": "jsonb",
        "version": "text",
        "vocabulary": "text",
        "unique_key": "text",
        "unique_seconds": "float8",
        "debounce_seconds": "float8",
        "debounce_max_seconds": "float8",
        **_TASK_OPTIONS,
    },
)
CREATE_TASK_ONCE = dataclasses.replace(CREATE_TASK, repeatable=True)
CREATE_TASKS = _scalar("create_tasks", UUID, {"requests": "jsonb"})
SUBMIT_TASKS = _set("submit_tasks", rows.SubmittedTask, _columns(rows.SubmittedTask), {"requests": "jsonb", **_REQUEST})
CREATE_TASK_FROM_GRAPH = _scalar(
    "create_task_from_graph", UUID, {"graph": "jsonb", "context": "jsonb", **_TASK_OPTIONS}
)
CREATE_TASK_FROM_GRAPH_ONCE = dataclasses.replace(CREATE_TASK_FROM_GRAPH, repeatable=True)

CANCEL_TASK = _command("cancel_task", "task_uuid")
GIVE_UP_TASK = _command("give_up_task", "task_uuid")
RESOLVE_TASK = _command("resolve_task", "task_uuid")
RESET_TASK = _command("reset_task", "task_uuid")
PASS_VALIDATION = _command("pass_validation", "task_uuid")
FAIL_VALIDATION = _command("fail_validation", "task_uuid")
RESUME_TASK = _command("resume_task", "task_uuid")
TRANSITION_TASK = _scalar(
    "transition_task",
    str,
    {"task_uuid": "uuid", "event": "text", "processor_uuid": "uuid", "metadata": "jsonb", **_REQUEST},
)
TRANSITION_WITH_OWNERSHIP = _scalar(
    "transition_with_ownership",
    bool,
    {"task_uuid": "uuid", "from_state": "text", "to_state": "text", "processor_uuid": "uuid", "metadata": "jsonb"},
)

ATTEMPT_COMMAND = _set(
    "attempt_command",
    rows.Attempt,
    _columns(rows.Attempt),
    {"command": "text", "target": "text", **_BY_HAND, "arguments": "jsonb"},
)

# ----------------------------------------------------------------------------------------------------------- steps

_CLAIM = {"worker_uuid": "uuid", "namespaces": "text[]", "limit": "int", "lease": "interval"}

CLAIM_STEPS = _set("claim_steps", rows.ClaimedStep, _columns(rows.ClaimedStep), _CLAIM)
COMPLETE_STEPS = _set(
    "complete_steps", rows.StepOutcome, _columns(rows.StepOutcome), {"results": "jsonb"}, repeatable=True
)
COMPLETE_STEP = _scalar(
    "complete_step",
    str,
    {"step_uuid": "uuid", "claim_uuid": "uuid", "result": "jsonb", "execution_time_ms": "bigint", **_REQUEST},
)
FAIL_STEP = _scalar(
    "fail_step",
    str,
    {
        "step_uuid": "uuid",
        "claim_uuid": "uuid",
        "error": "jsonb",
        "category": "text",
        "retry_after": "interval",
        "execution_time_ms": "bigint",
        **_REQUEST,
    },
)
SAVE_CHECKPOINT: Statement[str] = _scalar(
    "save_checkpoint", str, {"step_uuid": "uuid", "claim_uuid": "uuid", "checkpoint": "jsonb"}, repeatable=True
)
LOAD_RESULT: Statement[Any] = _scalar("load_result", object, {"uuid": "uuid", "claim_uuid": "uuid"}, repeatable=True)
REPORT_VALIDATION = _scalar(
    "report_validation", str, {"step_uuid": "uuid", "claim_uuid": "uuid", "passed": "boolean", "details": "jsonb"}
)
EXTEND_LEASES = _scalar("extend_leases", int, {"worker_uuid": "uuid", "lease": "interval"}, repeatable=True)
HELD_CLAIMS = _scalar("held_claims", UUID, {"worker_uuid": "uuid"}, repeatable=True)
CANCEL_STEP = _command("cancel_step", "step_uuid")
SKIP_STEP = _command("skip_step", "step_uuid")
RETRY_STEP = _command("retry_step", "step_uuid")
RESET_STEP = _command("reset_step", "step_uuid")
RESOLVE_STEP = _command("resolve_step", "step_uuid", result="jsonb")
TRANSITION_STEP = _scalar(
    "transition_step", str, {"step_uuid": "uuid", "event": "text", "metadata": "jsonb", **_REQUEST}
)

# -------------------------------------------------------------------------------------- drive, workers, processors

ORCHESTRATE = _set(
    "orchestrate",
    rows.DriveCounts,
    _columns(rows.DriveCounts),
    {"processor_uuid": "uuid", "limit": "int"},
    repeatable=True,
)
TICK = _set("tick", rows.TickCounts, _columns(rows.TickCounts), {"limit": "int"}, repeatable=True)
REGISTER_WORKER = _scalar(
    "register_worker",
    UUID,
    {
        "name": "text",
        "capabilities": "text[]",
        "max_concurrent": "int",
        "vocabulary": "text",
        "namespaces": "text[]",
        "heartbeat_interval": "interval",
        "max_missed_heartbeats": "int",
        "handlers": "text[]",
        **_REQUEST,
    },
)
WORKER_HEARTBEAT = _scalar("worker_heartbeat", str, {"worker_uuid": "uuid"}, repeatable=True)
SHUTDOWN_WORKER = _scalar("shutdown_worker", str, {"worker_uuid": "uuid", "reason": "text", **_REQUEST})
WORKER_STATE: Statement[str | None] = Statement(
    b"SELECT tasker.worker_state(%(worker_uuid)s::uuid)", scalar_row, repeatable=True
)
START_WORKER = _command("start_worker", "worker_uuid")
PAUSE_WORKER = _command("pause_worker", "worker_uuid")
RESUME_WORKER = _command("resume_worker", "worker_uuid")
TERMINATE_WORKER = _command("terminate_worker", "worker_uuid")
DRAIN_WORKER = _command("drain_worker", "worker_uuid")
IS_DRAINED = _scalar("is_drained", bool, {"worker_uuid": "uuid"}, repeatable=True)
REGISTER_PROCESSOR = _scalar("register_processor", UUID, {"name": "text", "lease": "interval"})
PROCESSOR_HEARTBEAT = _scalar(
    "processor_heartbeat", dt.datetime, {"processor_uuid": "uuid", "lease": "interval"}, repeatable=True
)

# --------------------------------------------------------------------------------------- tools, breakers, limits

CONFIGURE_TOOL: Statement[str] = _scalar(
    "configure_tool", str, {"tool": "text", "timeout": "interval", **_REQUEST}, repeatable=True
)
CONFIGURE_BREAKER = _scalar(
    "configure_breaker",
    str,
    {
        "tool": "text",
        "failure_threshold": "int",
        "cooldown": "interval",
        "success_threshold": "int",
        "max_error_repeats": "int",
        "vocabulary": "text",
        **_REQUEST,
    },
    repeatable=True,
)
BREAKER_STATE: Statement[str | None] = Statement(
    b"SELECT tasker.breaker_state(%(tool)s::text)", scalar_row, repeatable=True
)
BREAKER_PERMIT = _set(
    "breaker_permit", rows.BreakerPermit, _columns(rows.BreakerPermit), {"tool": "text", "lease": "interval"}
)
BREAKER_ALLOWS = _scalar("breaker_allows", bool, {"tool": "text"})
RECORD_BREAKER_RESULT = _scalar(
    "record_breaker_result",
    str,
    {"tool": "text", "success": "boolean", "error": "jsonb", "permit_uuid": "uuid", **_REQUEST},
)
RESET_BREAKER = _command("reset_breaker", "tool", "text")
SET_LIMIT = _scalar(
    "set_limit",
    UUID,
    {
        "scope": "text",
        "name": "text",
        "concurrency": "int",
        "rate": "int",
        "per": "interval",
        "namespace": "text",
        **_REQUEST,
    },
    repeatable=True,
)
REMOVE_LIMIT: Statement[str] = _scalar(
    "remove_limit", str, {"scope": "text", "name": "text", "namespace": "text", **_REQUEST}
)

# ------------------------------------------------------------------------------------------------------------ read

_TASK_COLUMNS = _columns(rows.TaskOverview)

TASK_STATUS = _set("task_status", rows.TaskOverview, _TASK_COLUMNS, {"task_uuid": "uuid"}, repeatable=True)


def _found_task(next_before: UUID | None, *columns: Any) -> tuple[UUID | None, rows.TaskOverview | None]:
    # An empty page may have a next one: then its only row has no task.
    return next_before, None if columns[0] is None else rows.TaskOverview(*columns)


FIND_TASKS: Statement[tuple[UUID | None, rows.TaskOverview | None]] = Statement(
    "SELECT next_before, {columns} FROM {call} f"
    " LEFT JOIN LATERAL (SELECT * FROM tasker.task_overview o WHERE o.task_uuid = ANY (f.task_uuids)) o ON true"
    " ORDER BY task_uuid DESC".format(
        columns=_TASK_COLUMNS,
        call=_call(
            "find_tasks",
            {"namespace": "text", "name": "text", "state": "text", "phase": "text", "before": "uuid", "limit": "int"},
        ),
    ).encode(),
    args_row(_found_task),
    repeatable=True,
)
STEPS = Statement(
    f"SELECT {_columns(rows.StepOverview)} FROM tasker.step_overview"
    " WHERE task_uuid = %(task_uuid)s::uuid AND ordinal > %(after_ordinal)s::int"
    " ORDER BY ordinal LIMIT %(limit)s::int".encode(),
    args_row(rows.StepOverview),
    repeatable=True,
)
STEP = Statement(
    f"SELECT {_columns(rows.StepOverview)} FROM tasker.step_overview"
    " WHERE workflow_step_uuid = %(step_uuid)s::uuid".encode(),
    args_row(rows.StepOverview),
    repeatable=True,
)
TIMELINE = Statement(
    f"SELECT {_columns(rows.TimelineEntry)} FROM tasker.timeline"
    " WHERE task_uuid = %(task_uuid)s::uuid ORDER BY at, sort_key, entity_uuid".encode(),
    args_row(rows.TimelineEntry),
    repeatable=True,
)
ALLOWED_EVENTS = _set(
    "allowed_events", rows.AllowedEvent, _columns(rows.AllowedEvent), {"kind": "text", "uuid": "uuid"}, repeatable=True
)
WORKERS = Statement(
    f"SELECT {_columns(rows.WorkerOverview)} FROM tasker.worker_overview"
    " WHERE (%(worker_uuid)s::uuid IS NULL OR worker_uuid = %(worker_uuid)s::uuid)"
    " AND (%(ended)s::boolean OR NOT is_terminal) AND (%(before)s::uuid IS NULL OR worker_uuid < %(before)s::uuid)"
    " ORDER BY worker_uuid DESC LIMIT %(limit)s::int".encode(),
    args_row(rows.WorkerOverview),
    repeatable=True,
)
BREAKERS = Statement(
    f"SELECT {_columns(rows.BreakerOverview)} FROM tasker.breaker_overview"
    " WHERE %(tool)s::text IS NULL OR tool = %(tool)s::text ORDER BY tool".encode(),
    args_row(rows.BreakerOverview),
    repeatable=True,
)
LIMITS = Statement(
    f"SELECT {_columns(rows.LimitOverview)} FROM tasker.limit_overview ORDER BY scope, name, namespace".encode(),
    args_row(rows.LimitOverview),
    repeatable=True,
)
EXPLAIN_TASK: Statement[dict[str, Any]] = _scalar("explain_task", dict, {"task_uuid": "uuid"}, repeatable=True)
STEP_READINESS = _records("get_step_readiness_status", {"task_uuid": "uuid", "step_uuids": "uuid[]"})
TASK_EXECUTION_CONTEXT = _records("get_task_execution_context", {"task_uuid": "uuid"})

# ------------------------------------------------------------------------------------------ audit, feed, operation

_AUDIT_COLUMNS = _columns(rows.AuditRecord)

STEP_AUDIT = _set(
    "get_step_audit_history",
    rows.AuditRecord,
    _AUDIT_COLUMNS,
    {"task_uuid": "uuid", "step_uuid": "uuid"},
    repeatable=True,
)
TASK_AUDIT = _set("get_task_audit_history", rows.AuditRecord, _AUDIT_COLUMNS, {"task_uuid": "uuid"}, repeatable=True)
WORKER_AUDIT = _set(
    "get_audit_by_worker", rows.AuditRecord, _AUDIT_COLUMNS, {"worker_uuid": "uuid", "limit": "int"}, repeatable=True
)
CORRELATION_AUDIT = _set(
    "get_audit_by_correlation_id", rows.AuditRecord, _AUDIT_COLUMNS, {"correlation_id": "uuid"}, repeatable=True
)
CHANGES_AFTER = _set(
    "changes_after", rows.Change.from_row, "cursor, change", {"cursor": "text", "limit": "int"}, repeatable=True
)
CURRENT_CURSOR = _scalar("current_cursor", str, repeatable=True)
CHECK_CONSISTENCY = _set(
    "check_consistency",
    rows.Finding,
    _columns(rows.Finding),
    {"task_uuid": "uuid", "unfinished_only": "boolean"},
    repeatable=True,
)
COMMAND_ALL = _set(
    "command_all",
    rows.Commanded,
    _columns(rows.Commanded),
    {
        "command": "text",
        "filter": "jsonb",
        "reason": "text",
        "requested_by": "text",
        "dry_run": "boolean",
        "limit": "int",
    },
)
FIND_STUCK = _records("find_stuck", {"older_than": "interval"})
RECOVER = _set(
    "recover",
    rows.Recovery,
    _columns(rows.Recovery),
    {"dry_run": "boolean", "task_uuid": "uuid", "reason": "text", "requested_by": "text"},
)
PURGE_EXPIRED = _scalar("purge_expired", int, {"limit": "int"}, repeatable=True)

# ------------------------------------------------------------------------------------------------------- schedules

SCHEDULE_TASKS: Statement[dt.datetime | None] = _scalar(
    "schedule_tasks",
    dt.datetime,
    {
        "schedule": "text",
        "cron": "text",
        "template": "text",
        "context": "jsonb",
        "namespace": "text",
        "time_zone": "text",
        "version": "text",
        "vocabulary": "text",
        "tags": "jsonb",
        "priority": "int",
        "catch_up": "text",
        "overlap": "text",
        "requested_by": "text",
        **_REQUEST,
    },
    repeatable=True,
)
PAUSE_SCHEDULE = _command("pause_schedule", "schedule", "text", namespace="text")
RESUME_SCHEDULE = _command("resume_schedule", "schedule", "text", namespace="text")
REMOVE_SCHEDULE = _command("remove_schedule", "schedule", "text", namespace="text")
BACKFILL_SCHEDULE = _set(
    "backfill_schedule",
    rows.ScheduledTask,
    _columns(rows.ScheduledTask),
    {
        "schedule": "text",
        "since": "timestamptz",
        "until": "timestamptz",
        "reason": "text",
        "requested_by": "text",
        "namespace": "text",
        "dry_run": "boolean",
    },
    repeatable=True,
)
CRON_TIMES = _scalar(
    "cron_times",
    dt.datetime,
    {"cron": "text", "time_zone": "text", "after": "timestamptz", "until": "timestamptz", "limit": "int"},
    repeatable=True,
)
SCHEDULES = Statement(
    f"SELECT {_columns(rows.Schedule)} FROM tasker.schedules"
    " WHERE namespace = coalesce(%(namespace)s, namespace) ORDER BY namespace, schedule".encode(),
    args_row(rows.Schedule),
    True,
)

# ---------------------------------------------------------------------------------------------------------- events

EMIT_EVENT = _set(
    "emit_event",
    rows.Emission,
    _columns(rows.Emission),
    {
        "event": "text",
        "key": "text",
        "payload": "jsonb",
        "namespace": "text",
        "requested_by": "text",
        "keep": "interval",
    },
    repeatable=True,
)
GET_EVENT = _set(
    "get_event",
    rows.EmittedEvent,
    _columns(rows.EmittedEvent),
    {"event": "text", "key": "text", "namespace": "text"},
    repeatable=True,
)
EMITTED_EVENTS = Statement(
    f"SELECT {_columns(rows.EmittedEvent)} FROM tasker.events"
    " WHERE namespace = coalesce(%(namespace)s, namespace) AND event = coalesce(%(event)s, event)"
    " ORDER BY emitted_at DESC, namespace, event, key LIMIT %(limit)s::int".encode(),
    args_row(rows.EmittedEvent),
    True,
)

# ---------------------------------------------------------------------------------------------------------- worker


class RawClaim(NamedTuple):
    """A claimed step whose JSON is still text.

    A worker decodes each step on its own, so that one undecodable step cannot take the rest of its batch with it. A
    tuple costs half of a dataclass to make, and there is one for each step.
    """

    workflow_step_uuid: UUID
    task_uuid: UUID
    namespace: str
    task_name: str
    name: str
    handler: str
    attempt: int
    max_attempts: int
    claim_uuid: UUID
    timeout: dt.timedelta | None
    correlation_id: UUID | None
    arguments: str | None
    context: str | None
    inputs: str | None
    tool: str
    acceptance: str | None
    checkpoint: str | None
    payloads: list[str] | None

    @property
    def key(self) -> tuple[UUID, UUID]:
        """Which run of which step this is; the steps of one batch share their claim key."""
        return self.workflow_step_uuid, self.claim_uuid


_JSON_AS_TEXT = {"arguments", "context", "inputs", "acceptance", "checkpoint"}

CLAIM_RAW = _set(
    "claim_steps",
    RawClaim,
    ", ".join(f'"{f}"{"::text" if f in _JSON_AS_TEXT else ""}' for f in RawClaim._fields),
    _CLAIM,
)


def _outcome_or_claim(*values: Any) -> tuple[rows.StepOutcome, bool] | RawClaim:
    outcome, (awaits, *claim) = values[:_OUTCOME], values[_OUTCOME:]
    return (rows.StepOutcome(*outcome), awaits) if awaits is not None else RawClaim(*claim)


_OUTCOME = len(dataclasses.fields(rows.StepOutcome))

REPORT_AND_CLAIM: Statement[tuple[rows.StepOutcome, bool] | RawClaim] = _set(
    "report_and_claim",
    _outcome_or_claim,
    ", ".join(
        [
            *(f'(outcome)."{f.name}"' for f in dataclasses.fields(rows.StepOutcome)),
            "awaits_orchestration",
            *(f'(claim)."{f}"{"::text" if f in _JSON_AS_TEXT else ""}' for f in RawClaim._fields),
        ]
    ),
    {"worker_uuid": "uuid", "results": "jsonb", **_CLAIM},
    repeatable=True,
)
# The due time as a delay by the server's own clock: the two machines' clocks need not agree.
TICK_DELAY: Statement[tuple[rows.TickCounts, float | None]] = _set(
    "tick",
    lambda *values: (rows.TickCounts(*values[:-1]), values[-1]),
    f"{_columns(rows.TickCounts)}, extract(epoch FROM next_due_at - clock_timestamp())::float8",
    {"limit": "int"},
    repeatable=True,
)

# Claims whose answer was lost with the connection: held here by name, known to nobody.
UNKNOWN_CLAIMS: Statement[tuple[UUID, UUID]] = Statement(
    b"SELECT workflow_step_uuid, claim_uuid FROM tasker.workflow_steps"
    b" WHERE workflow_step_uuid = ANY (%(step_uuids)s::uuid[]) AND worker_uuid = %(worker_uuid)s::uuid"
    b" AND claim_uuid IS NOT NULL",
    tuple_row,
    repeatable=True,
)
# The trace contexts in which tasks were created, of those that have one.
TRACES: Statement[tuple[UUID, str, str | None]] = Statement(
    b"SELECT task_uuid, tags ->> 'traceparent', tags ->> 'tracestate' FROM tasker.tasks"
    b" WHERE task_uuid = ANY (%(task_uuids)s::uuid[]) AND tags ->> 'traceparent' IS NOT NULL",
    tuple_row,
    repeatable=True,
)
TASKS_BY_UUID = Statement(
    f"SELECT {_TASK_COLUMNS} FROM tasker.task_overview WHERE task_uuid = ANY (%(task_uuids)s::uuid[])".encode(),
    args_row(rows.TaskOverview),
    repeatable=True,
)

# The states a worker of a vocabulary can end in, as its rules say.
WORKER_END_STATES = Statement(
    b"SELECT s.state FROM tasker.vocabularies v JOIN tasker.lifecycle_states s ON s.lifecycle = v.worker_lifecycle"
    b" WHERE v.vocabulary = %(vocabulary)s::text AND s.is_terminal",
    scalar_row,
    repeatable=True,
)
# A sign of life, and what is asked of the process.
BEAT: Statement[tuple[str, bool]] = Statement(
    b"SELECT tasker.worker_heartbeat(%(worker_uuid)s::uuid), tasker.is_drained(%(worker_uuid)s::uuid)",
    tuple_row,
    repeatable=True,
)
# Whether the lifecycle of a step has a phase of its own for its acceptance checks.
VALIDATES_AFTER_REPORT = Statement(
    b"SELECT EXISTS (SELECT FROM tasker.workflow_steps w JOIN tasker.lifecycle_states s ON s.lifecycle = w.lifecycle"
    b" WHERE w.workflow_step_uuid = %(step_uuid)s::uuid AND s.phase = 'validating')",
    scalar_row,
    repeatable=True,
)

NOTIFY = Statement(b"SELECT pg_notify(%(channel)s::text, %(payload)s::text)", scalar_row, repeatable=True)
