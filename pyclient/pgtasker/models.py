"""SQLAlchemy maps of the tables and views, to read with: for audits, reports and joins with an application's own data.

They are read-only. State changes only through the functions of schema ``tasker``; a flush that would write one of
these raises ``ReadOnlyModelError`` (and the roles meant for reading could not write them anyway).

    with Session(engine) as session:
        for record in WorkflowStepResultAudit.get_audit_history(session, step_uuid):
            print(record.worker_uuid, record.success, record.transition.to_state)

Needs SQLAlchemy 2 (``pip install 'pgtasker[migrations]'``). Source of the tables: seed 004, "Transition Storage" and
"Audit Table Design".
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import ForeignKey, MetaData, Select, event, select
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Mapper,
    joinedload,
    mapped_column,
    relationship,
)
from sqlalchemy.types import BigInteger, DateTime, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

__all__ = [
    "Base",
    "CircuitBreaker",
    "CircuitBreakerTransition",
    "Event",
    "EventWait",
    "IdempotencyKey",
    "JobWorker",
    "Lifecycle",
    "LifecycleState",
    "LifecycleTransition",
    "NamedTask",
    "ReadOnlyModelError",
    "Schedule",
    "StepCheckpoint",
    "StepOverview",
    "StepPayload",
    "Task",
    "TaskNamespace",
    "TaskOverview",
    "TaskTransition",
    "Timeline",
    "Worker",
    "WorkerTransition",
    "WorkflowStep",
    "WorkflowStepEdge",
    "WorkflowStepResultAudit",
    "WorkflowStepTransition",
]


class ReadOnlyModelError(TypeError):
    """Somebody tried to write through a model; call the function of schema ``tasker`` instead."""


class Base(DeclarativeBase):
    """Base of all maps; ``Base.metadata`` must not be used to create tables, the migrations do that."""

    metadata = MetaData(schema="tasker")
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads a plain dict)
        str: Text,
        dt.datetime: DateTime(timezone=True),
        dt.timedelta: INTERVAL,
        list[str]: ARRAY(Text),
    }


def _refuse(mapper: Mapper[Any], connection: Connection, target: Base) -> None:
    raise ReadOnlyModelError(
        f"{type(target).__name__} is read-only: state changes only through the functions of schema tasker"
    )


for _name in ("before_insert", "before_update", "before_delete"):
    event.listen(Base, _name, _refuse, propagate=True)


class TaskNamespace(Base):
    """A namespace with its queue."""

    __tablename__ = "task_namespaces"

    namespace: Mapped[str] = mapped_column(primary_key=True)
    queue_name: Mapped[str]
    notifications: Mapped[str]
    description: Mapped[str | None]
    created_at: Mapped[dt.datetime]
    paused_at: Mapped[dt.datetime | None]
    payload_threshold: Mapped[int]
    payload_limit: Mapped[int]


class NamedTask(Base):
    """One version of a workflow template."""

    __tablename__ = "named_tasks"

    named_task_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(ForeignKey("task_namespaces.namespace"))
    name: Mapped[str]
    version: Mapped[str]
    vocabulary: Mapped[str]
    description: Mapped[str | None]
    configuration: Mapped[Any] = mapped_column(JSONB)
    content_hash: Mapped[str]
    created_at: Mapped[dt.datetime]


class Task(Base):
    """One run of a workflow. Its state is its newest transition; see ``TaskOverview`` for both in one row."""

    __tablename__ = "tasks"

    task_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(ForeignKey("task_namespaces.namespace"))
    named_task_uuid: Mapped[UUID | None] = mapped_column(ForeignKey("named_tasks.named_task_uuid"))
    name: Mapped[str]
    version: Mapped[str | None]
    vocabulary: Mapped[str]
    lifecycle: Mapped[str] = mapped_column(ForeignKey("lifecycles.lifecycle"))
    parent_task_uuid: Mapped[UUID | None] = mapped_column(ForeignKey("tasks.task_uuid"))
    correlation_id: Mapped[UUID]
    idempotency_key: Mapped[str | None]
    priority: Mapped[int]
    requested_by: Mapped[str | None]
    context: Mapped[Any] = mapped_column(JSONB)
    tags: Mapped[Any] = mapped_column(JSONB)
    total_steps: Mapped[int]
    pending_steps: Mapped[int]
    in_flight_steps: Mapped[int]
    waiting_retry_steps: Mapped[int]
    satisfied_steps: Mapped[int]
    failed_steps: Mapped[int]
    failed_critical_steps: Mapped[int]
    timeout: Mapped[dt.timedelta | None]
    retry_count: Mapped[int]
    max_retries: Mapped[int]
    worker_count: Mapped[int | None]
    depth: Mapped[int]
    final_validation: Mapped[bool]
    start_at: Mapped[dt.datetime | None]
    unique_key: Mapped[str | None]
    compensates_task_uuid: Mapped[UUID | None] = mapped_column(ForeignKey("tasks.task_uuid"))
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]

    steps: Mapped[list[WorkflowStep]] = relationship(
        back_populates="task", order_by="WorkflowStep.ordinal", viewonly=True
    )
    transitions: Mapped[list[TaskTransition]] = relationship(
        back_populates="task", order_by="TaskTransition.sort_key", viewonly=True
    )


class WorkflowStep(Base):
    """One step of a task."""

    __tablename__ = "workflow_steps"

    workflow_step_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"))
    namespace: Mapped[str]
    named_step_uuid: Mapped[UUID | None]
    name: Mapped[str]
    handler: Mapped[str]
    lifecycle: Mapped[str]
    ordinal: Mapped[int]
    unmet_dependencies: Mapped[int]
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    retryable: Mapped[bool]
    base_delay: Mapped[dt.timedelta]
    max_delay: Mapped[dt.timedelta]
    jitter: Mapped[float]
    timeout: Mapped[dt.timedelta]
    claim_uuid: Mapped[UUID | None]
    worker_uuid: Mapped[UUID | None]
    last_attempted_at: Mapped[dt.datetime | None]
    result_transition_uuid: Mapped[UUID | None]
    arguments: Mapped[Any] = mapped_column(JSONB)
    tool: Mapped[str | None]
    requires: Mapped[list[str]]
    acceptance: Mapped[Any] = mapped_column(JSONB)
    on_failure: Mapped[str]
    handed_out_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime]

    task: Mapped[Task] = relationship(back_populates="steps", viewonly=True)
    transitions: Mapped[list[WorkflowStepTransition]] = relationship(
        back_populates="step", order_by="WorkflowStepTransition.sort_key", viewonly=True
    )
    depends_on: Mapped[list[WorkflowStep]] = relationship(
        secondary="tasker.workflow_step_edges",
        primaryjoin="WorkflowStep.workflow_step_uuid == WorkflowStepEdge.to_step_uuid",
        secondaryjoin="WorkflowStep.workflow_step_uuid == WorkflowStepEdge.from_step_uuid",
        order_by="WorkflowStep.ordinal",
        viewonly=True,
    )


class WorkflowStepEdge(Base):
    """``to_step`` waits for ``from_step``."""

    __tablename__ = "workflow_step_edges"

    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"))
    from_step_uuid: Mapped[UUID] = mapped_column(ForeignKey("workflow_steps.workflow_step_uuid"), primary_key=True)
    to_step_uuid: Mapped[UUID] = mapped_column(ForeignKey("workflow_steps.workflow_step_uuid"), primary_key=True)


class TaskTransition(Base):
    """One line of the log of task states; the row with ``most_recent`` is the current state."""

    __tablename__ = "task_transitions"

    task_transition_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"))
    namespace: Mapped[str]
    lifecycle: Mapped[str]
    to_state: Mapped[str]
    from_state: Mapped[str | None]
    event: Mapped[str]
    processor_uuid: Mapped[UUID | None]
    transition_metadata: Mapped[Any] = mapped_column("metadata", JSONB)
    sort_key: Mapped[int]
    most_recent: Mapped[bool]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]

    task: Mapped[Task] = relationship(back_populates="transitions", viewonly=True)

    @classmethod
    def get_current(cls, session: Session, task_uuid: UUID) -> TaskTransition | None:
        """Return the newest transition of a task (seed 004, "Current State Resolution")."""
        return session.scalars(select(cls).where(cls.task_uuid == task_uuid, cls.most_recent.is_(True))).one_or_none()


class WorkflowStepTransition(Base):
    """One line of the log of step states; results stand in its metadata."""

    __tablename__ = "workflow_step_transitions"

    workflow_step_transition_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    workflow_step_uuid: Mapped[UUID] = mapped_column(ForeignKey("workflow_steps.workflow_step_uuid"))
    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"))
    namespace: Mapped[str]
    lifecycle: Mapped[str]
    to_state: Mapped[str]
    from_state: Mapped[str | None]
    event: Mapped[str]
    transition_metadata: Mapped[Any] = mapped_column("metadata", JSONB)
    sort_key: Mapped[int]
    most_recent: Mapped[bool]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]

    step: Mapped[WorkflowStep] = relationship(back_populates="transitions", viewonly=True)

    @classmethod
    def get_current(cls, session: Session, step_uuid: UUID) -> WorkflowStepTransition | None:
        """Return the newest transition of a step (seed 004, "Current State Resolution")."""
        found = select(cls).where(cls.workflow_step_uuid == step_uuid, cls.most_recent.is_(True))
        return session.scalars(found).one_or_none()


class WorkflowStepResultAudit(Base):
    """The audit trail of step results (seed 004, "Step Result Audit System"); the queries of "Via Model" are its
    methods.
    """

    __tablename__ = "workflow_step_result_audit"

    workflow_step_result_audit_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    workflow_step_uuid: Mapped[UUID] = mapped_column(ForeignKey("workflow_steps.workflow_step_uuid"))
    workflow_step_transition_uuid: Mapped[UUID] = mapped_column(
        ForeignKey("workflow_step_transitions.workflow_step_transition_uuid")
    )
    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"))
    namespace: Mapped[str]
    recorded_at: Mapped[dt.datetime]
    worker_uuid: Mapped[UUID | None]
    correlation_id: Mapped[UUID | None]
    success: Mapped[bool]
    execution_time_ms: Mapped[int | None] = mapped_column(BigInteger)
    is_backfilled: Mapped[bool]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]

    transition: Mapped[WorkflowStepTransition] = relationship(viewonly=True)
    step: Mapped[WorkflowStep] = relationship(viewonly=True)

    @classmethod
    def _newest_first(cls) -> Select[Any]:
        return (
            select(cls)
            .options(joinedload(cls.transition), joinedload(cls.step))
            .order_by(cls.recorded_at.desc(), cls.workflow_step_result_audit_uuid.desc())
        )

    @classmethod
    def get_audit_history(cls, session: Session, step_uuid: UUID) -> Sequence[WorkflowStepResultAudit]:
        """Return the audit records of a step with their transitions, newest first."""
        return session.scalars(cls._newest_first().where(cls.workflow_step_uuid == step_uuid)).all()

    @classmethod
    def get_task_audit_history(cls, session: Session, task_uuid: UUID) -> Sequence[WorkflowStepResultAudit]:
        """Return the audit records of all steps of a task, newest first."""
        return session.scalars(cls._newest_first().where(cls.task_uuid == task_uuid)).all()

    @classmethod
    def get_by_worker(
        cls, session: Session, worker_uuid: UUID, limit: int | None = 100
    ) -> Sequence[WorkflowStepResultAudit]:
        """Return the newest audit records of a worker (attribution); ``limit`` None returns all."""
        return session.scalars(cls._newest_first().where(cls.worker_uuid == worker_uuid).limit(limit)).all()

    @classmethod
    def get_by_correlation_id(cls, session: Session, correlation_id: UUID) -> Sequence[WorkflowStepResultAudit]:
        """Return the audit records of one traced request, newest first."""
        return session.scalars(cls._newest_first().where(cls.correlation_id == correlation_id)).all()


class StepPayload(Base):
    """A result that is too big to stand in the log."""

    __tablename__ = "step_payloads"

    payload_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    workflow_step_uuid: Mapped[UUID]
    task_uuid: Mapped[UUID]
    namespace: Mapped[str]
    size: Mapped[int]
    sha256: Mapped[str]
    payload: Mapped[Any] = mapped_column(JSONB)
    created_at: Mapped[dt.datetime]


class StepCheckpoint(Base):
    """What the latest attempt of a step saved while it ran (seed 002)."""

    __tablename__ = "step_checkpoints"

    workflow_step_uuid: Mapped[UUID] = mapped_column(ForeignKey("workflow_steps.workflow_step_uuid"), primary_key=True)
    task_uuid: Mapped[UUID]
    namespace: Mapped[str]
    checkpoint: Mapped[Any] = mapped_column(JSONB)
    attempt: Mapped[int]
    saved_at: Mapped[dt.datetime]


class Worker(Base):
    """One start of a worker process. Its state is its newest transition."""

    __tablename__ = "workers"

    worker_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    vocabulary: Mapped[str]
    namespaces: Mapped[list[str] | None]
    capabilities: Mapped[list[str]]
    max_concurrent: Mapped[int]
    registered_at: Mapped[dt.datetime]
    last_heartbeat_at: Mapped[dt.datetime]
    lifecycle: Mapped[str | None]
    heartbeat_interval: Mapped[dt.timedelta]
    max_missed_heartbeats: Mapped[int]
    shutdown_requested_at: Mapped[dt.datetime | None]
    handlers: Mapped[list[str] | None]

    transitions: Mapped[list[WorkerTransition]] = relationship(
        back_populates="worker", order_by="WorkerTransition.sort_key", viewonly=True
    )


class WorkerTransition(Base):
    """One line of the log of worker states (seeds 000 and 003)."""

    __tablename__ = "worker_transitions"

    worker_transition_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    worker_uuid: Mapped[UUID] = mapped_column(ForeignKey("workers.worker_uuid"))
    lifecycle: Mapped[str]
    to_state: Mapped[str]
    from_state: Mapped[str | None]
    event: Mapped[str]
    transition_metadata: Mapped[Any] = mapped_column("metadata", JSONB)
    sort_key: Mapped[int]
    most_recent: Mapped[bool]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]

    worker: Mapped[Worker] = relationship(back_populates="transitions", viewonly=True)

    @classmethod
    def get_current(cls, session: Session, worker_uuid: UUID) -> WorkerTransition | None:
        """Return the newest transition of a worker."""
        found = select(cls).where(cls.worker_uuid == worker_uuid, cls.most_recent.is_(True))
        return session.scalars(found).one_or_none()


class JobWorker(Base):
    """Which supervised worker was given to which job (seed 003)."""

    __tablename__ = "job_workers"

    task_uuid: Mapped[UUID] = mapped_column(ForeignKey("tasks.task_uuid"), primary_key=True)
    worker_uuid: Mapped[UUID] = mapped_column(ForeignKey("workers.worker_uuid"), primary_key=True)
    allocated_at: Mapped[dt.datetime]
    released_at: Mapped[dt.datetime | None]


class Schedule(Base):
    """What creates tasks by the clock: a cron expression in a time zone, and what ``create_task`` is asked for."""

    __tablename__ = "schedules"

    namespace: Mapped[str] = mapped_column(ForeignKey("task_namespaces.namespace"), primary_key=True)
    schedule: Mapped[str] = mapped_column(primary_key=True)
    cron: Mapped[str]
    time_zone: Mapped[str]
    template: Mapped[str]
    version: Mapped[str | None]
    vocabulary: Mapped[str | None]
    context: Mapped[Any] = mapped_column(JSONB)
    tags: Mapped[Any] = mapped_column(JSONB)
    priority: Mapped[int]
    catch_up: Mapped[str]
    overlap: Mapped[str]
    requested_by: Mapped[str | None]
    created_at: Mapped[dt.datetime]
    paused_at: Mapped[dt.datetime | None]
    next_due_at: Mapped[dt.datetime | None]
    last_due_at: Mapped[dt.datetime | None]
    last_task_uuid: Mapped[UUID | None]
    last_refusal: Mapped[str | None]


class Event(Base):
    """What was told from outside; the first to tell it wins."""

    __tablename__ = "events"

    namespace: Mapped[str] = mapped_column(ForeignKey("task_namespaces.namespace"), primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    payload: Mapped[Any] = mapped_column(JSONB)
    emitted_by: Mapped[str | None]
    emitted_at: Mapped[dt.datetime]
    keep_until: Mapped[dt.datetime | None]


class EventWait(Base):
    """Which step waits, or waited, for which event."""

    __tablename__ = "event_waits"

    workflow_step_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    task_uuid: Mapped[UUID]
    namespace: Mapped[str]
    event: Mapped[str]
    key: Mapped[str]
    since: Mapped[dt.datetime]
    due_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    timed_out: Mapped[bool]


class CircuitBreaker(Base):
    """The circuit breaker of one tool (seeds 001 and 002). Its state is its newest transition."""

    __tablename__ = "circuit_breakers"

    circuit_breaker_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    tool: Mapped[str]
    lifecycle: Mapped[str]
    failure_threshold: Mapped[int]
    cooldown: Mapped[dt.timedelta]
    success_threshold: Mapped[int]
    max_error_repeats: Mapped[int | None]
    failures: Mapped[int]
    successes: Mapped[int]
    last_error_signature: Mapped[str | None]
    error_repeats: Mapped[int]
    generation: Mapped[int]
    cools_until: Mapped[dt.datetime | None]
    trial_step_uuid: Mapped[UUID | None]
    trial_permit_uuid: Mapped[UUID | None]
    trial_expires_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime]

    transitions: Mapped[list[CircuitBreakerTransition]] = relationship(
        back_populates="circuit_breaker", order_by="CircuitBreakerTransition.sort_key", viewonly=True
    )


class CircuitBreakerTransition(Base):
    """One line of the log of circuit breaker states."""

    __tablename__ = "circuit_breaker_transitions"

    circuit_breaker_transition_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    circuit_breaker_uuid: Mapped[UUID] = mapped_column(ForeignKey("circuit_breakers.circuit_breaker_uuid"))
    lifecycle: Mapped[str]
    to_state: Mapped[str]
    from_state: Mapped[str | None]
    event: Mapped[str]
    transition_metadata: Mapped[Any] = mapped_column("metadata", JSONB)
    sort_key: Mapped[int]
    most_recent: Mapped[bool]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]

    circuit_breaker: Mapped[CircuitBreaker] = relationship(back_populates="transitions", viewonly=True)


class IdempotencyKey(Base):
    """The stored answer to a request id (seed 003)."""

    __tablename__ = "idempotency_keys"

    request_id: Mapped[str] = mapped_column(primary_key=True)
    login: Mapped[str] = mapped_column(primary_key=True)
    endpoint: Mapped[str]
    request_hash: Mapped[str]
    response_status: Mapped[int]
    response_body: Mapped[str]
    hits: Mapped[int]
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]


class Lifecycle(Base):
    """One state machine."""

    __tablename__ = "lifecycles"

    lifecycle: Mapped[str] = mapped_column(primary_key=True)
    vocabulary: Mapped[str]
    kind: Mapped[str]
    initial_state: Mapped[str]
    description: Mapped[str]

    states: Mapped[list[LifecycleState]] = relationship(order_by="LifecycleState.ordinal", viewonly=True)
    transitions: Mapped[list[LifecycleTransition]] = relationship(
        primaryjoin="Lifecycle.lifecycle == foreign(LifecycleTransition.lifecycle)",
        order_by="(LifecycleTransition.from_state, LifecycleTransition.ordinal)",
        viewonly=True,
    )


class LifecycleState(Base):
    """A state with its canonical phase and the seed's property flags."""

    __tablename__ = "lifecycle_states"

    lifecycle: Mapped[str] = mapped_column(ForeignKey("lifecycles.lifecycle"), primary_key=True)
    state: Mapped[str] = mapped_column(primary_key=True)
    phase: Mapped[str]
    ordinal: Mapped[int]
    is_terminal: Mapped[bool]
    requires_ownership: Mapped[bool]
    is_active: Mapped[bool]
    is_waiting: Mapped[bool]
    can_be_processed: Mapped[bool]
    is_error: Mapped[bool]
    is_in_processing_pipeline: Mapped[bool]
    is_ready_for_claiming: Mapped[bool]
    satisfies_dependencies: Mapped[bool]
    counts_as: Mapped[str]
    description: Mapped[str]


class LifecycleTransition(Base):
    """A transition rule."""

    __tablename__ = "lifecycle_transitions"

    lifecycle: Mapped[str] = mapped_column(ForeignKey("lifecycles.lifecycle"), primary_key=True)
    from_state: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    to_state: Mapped[str] = mapped_column(primary_key=True)
    ordinal: Mapped[int]
    fired_by: Mapped[str]
    operation: Mapped[str | None]
    guard: Mapped[str]
    severity: Mapped[str]
    reports_result: Mapped[bool]
    is_legacy: Mapped[bool]
    is_addition: Mapped[bool]
    description: Mapped[str]


class TaskOverview(Base):
    """View ``tasker.task_overview``: a task with its state and progress."""

    __tablename__ = "task_overview"

    task_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    namespace: Mapped[str]
    name: Mapped[str]
    version: Mapped[str | None]
    vocabulary: Mapped[str]
    state: Mapped[str]
    phase: Mapped[str]
    is_terminal: Mapped[bool]
    total_steps: Mapped[int]
    pending_steps: Mapped[int]
    in_flight_steps: Mapped[int]
    waiting_retry_steps: Mapped[int]
    satisfied_steps: Mapped[int]
    failed_steps: Mapped[int]
    priority: Mapped[int]
    tags: Mapped[Any] = mapped_column(JSONB)
    correlation_id: Mapped[UUID]
    parent_task_uuid: Mapped[UUID | None]
    requested_by: Mapped[str | None]
    context: Mapped[Any] = mapped_column(JSONB)
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]
    state_since: Mapped[dt.datetime]
    compensates_task_uuid: Mapped[UUID | None]
    compensated_by: Mapped[UUID | None]


class StepOverview(Base):
    """View ``tasker.step_overview``: a step with its state, lease, result and last error."""

    __tablename__ = "step_overview"

    workflow_step_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    task_uuid: Mapped[UUID]
    namespace: Mapped[str]
    name: Mapped[str]
    handler: Mapped[str]
    state: Mapped[str]
    phase: Mapped[str]
    is_terminal: Mapped[bool]
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    unmet_dependencies: Mapped[int]
    arguments: Mapped[Any] = mapped_column(JSONB)
    worker_uuid: Mapped[UUID | None]
    claim_uuid: Mapped[UUID | None]
    lease_expires_at: Mapped[dt.datetime | None]
    next_retry_at: Mapped[dt.datetime | None]
    result: Mapped[Any] = mapped_column(JSONB)
    last_error: Mapped[Any] = mapped_column(JSONB)
    created_at: Mapped[dt.datetime]
    state_since: Mapped[dt.datetime]
    ordinal: Mapped[int]


class Timeline(Base):
    """View ``tasker.timeline``: every transition of tasks and steps."""

    __tablename__ = "timeline"

    # A view has no key; entity and sort key name a log row.
    kind: Mapped[str] = mapped_column(primary_key=True)
    entity_uuid: Mapped[UUID] = mapped_column(primary_key=True)
    sort_key: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime]
    task_uuid: Mapped[UUID]
    name: Mapped[str]
    from_state: Mapped[str | None]
    to_state: Mapped[str]
    event: Mapped[str | None]
    worker_uuid: Mapped[UUID | None]
    processor_uuid: Mapped[UUID | None]
    requested_by: Mapped[str | None]
    reason: Mapped[str | None]
    transition_metadata: Mapped[Any] = mapped_column("metadata", JSONB)
