"""What the calls return: one frozen dataclass per row shape, fields in the order of the columns that ``_statements``
selects.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

__all__ = [
    "AllowedEvent",
    "AuditRecord",
    "BreakerOverview",
    "BreakerPermit",
    "Change",
    "ClaimedStep",
    "DriveCounts",
    "Explanation",
    "Finding",
    "Reason",
    "Recovery",
    "StepOutcome",
    "StepOverview",
    "SubmittedTask",
    "TaskOverview",
    "TaskPage",
    "TickCounts",
    "TimelineEntry",
    "WorkerOverview",
]


@dataclass(frozen=True, slots=True)
class TaskOverview:
    """One task as view ``tasker.task_overview`` shows it."""

    task_uuid: UUID
    namespace: str
    name: str
    version: str | None
    vocabulary: str
    state: str
    phase: str
    is_terminal: bool
    total_steps: int
    pending_steps: int
    in_flight_steps: int
    waiting_retry_steps: int
    satisfied_steps: int
    failed_steps: int
    priority: int
    tags: Any
    correlation_id: UUID
    parent_task_uuid: UUID | None
    requested_by: str | None
    context: Any
    created_at: dt.datetime
    started_at: dt.datetime | None
    completed_at: dt.datetime | None
    state_since: dt.datetime
    compensates_task_uuid: UUID | None
    compensated_by: UUID | None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of tasks, newest first; ``next_before`` leads to the next one, None: there is none."""

    tasks: list[TaskOverview]
    next_before: UUID | None


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """What became of a request for a task.

    ``outcome``: ``created``; ``found``, the task that its idempotency key made before; ``duplicate``, nothing was
    created, since this task stands for its unique key; ``pushed_back``, the same, and it starts later with the new
    context.
    """

    task_uuid: UUID
    outcome: str


@dataclass(frozen=True, slots=True)
class StepOverview:
    """One step as view ``tasker.step_overview`` shows it; ``result`` and ``last_error`` are decoded JSON.

    ``left_out``: its condition did not hold, or that of a step it depends on (seed 002: SKIPPED). ``waits_for``: what
    it waits for besides its dependencies, such as ``event approved of order-7``.
    """

    workflow_step_uuid: UUID
    task_uuid: UUID
    namespace: str
    name: str
    handler: str
    state: str
    phase: str
    is_terminal: bool
    attempts: int
    max_attempts: int
    unmet_dependencies: int
    arguments: Any
    worker_uuid: UUID | None
    claim_uuid: UUID | None
    lease_expires_at: dt.datetime | None
    next_retry_at: dt.datetime | None
    result: Any
    last_error: Any
    created_at: dt.datetime
    state_since: dt.datetime
    left_out: bool
    waits_for: str | None
    ordinal: int


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One transition of a task or of one of its steps, as view ``tasker.timeline`` shows it."""

    at: dt.datetime
    task_uuid: UUID
    kind: str
    entity_uuid: UUID
    name: str
    from_state: str | None
    to_state: str
    event: str | None
    sort_key: int
    worker_uuid: UUID | None
    processor_uuid: UUID | None
    requested_by: str | None
    reason: str | None
    metadata: Any


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """A step that the calling worker may run until ``lease_expires_at``.

    ``inputs`` holds the results of the step's dependencies by their names; of big ones, which ``payloads`` names, that
    by which ``load_result`` finds them. ``claim_uuid`` is the fence every report must carry. ``acceptance`` are the
    checks the result must pass, ``checkpoint`` what an earlier attempt saved.
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
    lease_expires_at: dt.datetime
    timeout: dt.timedelta | None
    arguments: Any
    context: Any
    inputs: dict[str, Any]
    correlation_id: UUID | None
    tool: str
    acceptance: list[Any]
    checkpoint: Any
    payloads: list[str] | None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The answer to one reported result: the step's new state, or the TK code and message of a refusal."""

    workflow_step_uuid: UUID | None
    state: str | None
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class DriveCounts:
    """What one ``orchestrate`` call did."""

    messages: int
    steps_settled: int
    steps_enqueued: int
    tasks_moved: int
    tasks_finished: int


@dataclass(frozen=True, slots=True)
class TickCounts:
    """What one ``tick`` call did, and when the next timer is due (None: no timer waits)."""

    timers_fired: int
    leases_expired: int
    steps_enqueued: int
    tasks_moved: int
    next_due_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class AllowedEvent:
    """One way out of the current state; ``guard_holds`` is None when the transition has no guard."""

    event: str
    to_state: str
    fired_by: str
    guard: str | None
    guard_holds: bool | None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One row of ``tasker.workflow_step_result_audit`` with its transition (seed 004, "Querying Audit History")."""

    workflow_step_result_audit_uuid: UUID
    workflow_step_uuid: UUID
    workflow_step_transition_uuid: UUID
    task_uuid: UUID
    recorded_at: dt.datetime
    worker_uuid: UUID | None
    correlation_id: UUID | None
    success: bool
    execution_time_ms: int | None
    is_backfilled: bool
    step_name: str
    from_state: str | None
    to_state: str
    event: str | None
    metadata: Any
    transition_created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """How ``attempt_command`` ended: a state, or the code of a refusal with what belongs to it."""

    state: str | None
    code: str | None
    message: str | None
    detail: Any
    hint: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement found by ``check_consistency``; ``proposed_call`` is the SQL that would repair it."""

    finding: str
    entity_kind: str
    entity_uuid: UUID | None
    detail: Any
    proposed_call: str | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """One thing that ``recover`` found and what it does about it; ``done`` is False for a dry run."""

    problem: str
    entity_kind: str
    entity_uuid: UUID
    action: str
    done: bool


@dataclass(frozen=True, slots=True)
class Commanded:
    """One task or step that ``command_all`` found: ``after`` is None for a dry run, ``code`` tells a refusal."""

    task_uuid: UUID
    workflow_step_uuid: UUID | None
    name: str
    before: str
    after: str | None
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A row of ``tasker.schedules``: what creates tasks by the clock, and when it does so next (None: it is paused)."""

    namespace: str
    schedule: str
    cron: str
    time_zone: str
    template: str
    version: str | None
    vocabulary: str | None
    context: Any
    tags: Any
    priority: int
    catch_up: str
    overlap: str
    requested_by: str | None
    paused_at: dt.datetime | None
    next_due_at: dt.datetime | None
    last_due_at: dt.datetime | None
    last_task_uuid: UUID | None
    last_refusal: str | None


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """One time of a schedule and its task; ``is_new`` where ``backfill_schedule`` created it, or would (then None)."""

    due_at: dt.datetime
    task_uuid: UUID | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    """A row of ``tasker.events``: what was told from outside. ``keep_until`` None: it is never forgotten."""

    namespace: str
    event: str
    key: str
    payload: Any
    emitted_by: str | None
    emitted_at: dt.datetime
    keep_until: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Emission:
    """What ``emit_event`` answers: ``emitted``, ``repeated`` or ``differs``, and the event as it stands."""

    outcome: str
    payload: Any
    emitted_by: str | None
    emitted_at: dt.datetime
    message: str


@dataclass(frozen=True, slots=True)
class WorkerOverview:
    """One worker as view ``tasker.worker_overview`` shows it."""

    worker_uuid: UUID
    name: str
    vocabulary: str
    state: str
    phase: str
    is_terminal: bool
    namespaces: list[str] | None
    capabilities: list[str]
    max_concurrent: int
    held_steps: int
    registered_at: dt.datetime
    last_heartbeat_at: dt.datetime
    shutdown_requested_at: dt.datetime | None
    state_since: dt.datetime
    job_uuid: UUID | None
    handlers: list[str] | None


@dataclass(frozen=True, slots=True)
class BreakerOverview:
    """One circuit breaker as view ``tasker.breaker_overview`` shows it."""

    tool: str
    state: str
    phase: str
    failures: int
    failure_threshold: int
    cooldown: dt.timedelta
    success_threshold: int
    max_error_repeats: int | None
    successes: int
    cools_until: dt.datetime | None
    held_back_steps: int
    state_since: dt.datetime


@dataclass(frozen=True, slots=True)
class LimitOverview:
    """One limit as view ``tasker.limit_overview`` shows it: what it has given away, and who waits for it."""

    scope: str
    name: str
    namespace: str | None
    concurrency: int | None
    running: int
    rate: int | None
    per: dt.timedelta | None
    started: int
    reserved: int
    waiting: int
    waiting_since: dt.datetime | None
    next_start_at: dt.datetime | None
    created_at: dt.datetime
    limit_uuid: UUID


@dataclass(frozen=True, slots=True)
class BreakerPermit:
    """The answer of ``breaker_permit``: where it is not ``allowed``, ``retry_at`` says when to ask again."""

    allowed: bool
    permit_uuid: UUID | None
    state: str
    retry_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a task is not moving, and the call that would move it."""

    step: str | None
    state: str | None
    why: str | None
    call: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of ``explain_task``."""

    task_uuid: UUID
    state: str
    summary: str
    reasons: list[Reason]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Explanation:
        """Return the explanation that ``explain_task`` answered with."""
        return cls(
            task_uuid=UUID(value["task_uuid"]),
            state=value["state"],
            summary=value["summary"],
            reasons=[
                Reason(item.get("step"), item.get("state"), item.get("why"), item.get("call"))
                for item in value.get("reasons") or ()
            ],
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One transition of the change feed.

    ``cursor`` is opaque: hand it back to go on after this change. ``raw`` is the whole JSON object of the feed.
    """

    cursor: str
    log: str
    transition_uuid: UUID
    entity_uuid: UUID
    task_uuid: UUID | None
    from_state: str | None
    to_state: str
    event: str | None
    sort_key: int
    created_at: dt.datetime
    metadata: Any
    raw: dict[str, Any]

    @classmethod
    def from_row(cls, cursor: str, change: dict[str, Any]) -> Change:
        """Return the change of one row of ``changes_after``."""
        task_uuid = change.get("task_uuid")
        return cls(
            cursor=cursor,
            log=change["log"],
            transition_uuid=UUID(change["transition_uuid"]),
            entity_uuid=UUID(change["entity_uuid"]),
            task_uuid=UUID(task_uuid) if task_uuid else None,
            from_state=change.get("from_state"),
            to_state=change["to_state"],
            event=change.get("event"),
            sort_key=change["sort_key"],
            created_at=dt.datetime.fromisoformat(change["created_at"]),
            metadata=change.get("metadata"),
            raw=change,
        )
