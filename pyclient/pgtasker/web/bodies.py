"""What requests carry, and the small answers that are no row of a view."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pgtasker._rows import AuditRecord, StepOverview, TaskOverview, TimelineEntry, WorkerOverview

# PostgreSQL text holds no U+0000, and a reason that is blank is none: the document says so, as the database does.
Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=100_000)]
Name = Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=255)]
Said = Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", max_length=2000)]
RequestKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/=+-]+$", min_length=1, max_length=150)]
Namespace = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
Priority = Annotated[int, Field(ge=-9, le=9, description="Steps of a higher one are handed out first.")]
Seconds = Annotated[float, Field(ge=0, le=366 * 86400)]
Json = dict[str, Any]


class Body(BaseModel):
    """A request's body; fields that it does not have are refused."""

    model_config = ConfigDict(extra="forbid")

    request_id: RequestKey | None = Field(
        default=None,
        description="Makes the call safe to repeat for an hour: the same id gets the first answer. Or send the header"
        " Idempotency-Key.",
    )


class Attributed(Body):
    """A request of which the log keeps who asked."""

    requested_by: Said | None = Field(
        default=None, description="On whose behalf; the log keeps it together with the name of the token."
    )


class NewTask(Attributed):
    """A task from a template."""

    name: Name = Field(description="The template.")
    context: Json = Field(default={}, description="Data that every step of the task sees.")
    namespace: Namespace = "default"
    version: Name | None = Field(default=None, description="The template's version; null: the newest.")
    vocabulary: Name | None = Field(default=None, description="By whose names of states it runs; null: the template's.")
    idempotency_key: Name | None = Field(default=None, description="The same key makes the task once, for good.")
    correlation_id: UUID | None = None
    priority: Priority = 0
    parent_task_uuid: UUID | None = None
    tags: Json = {}
    start: bool = Field(default=True, description="False leaves it in its first state.")
    start_at: AwareDatetime | None = Field(default=None, description="Not before; null: at once.")
    unique_key: Name | None = Field(default=None, description="While a task with this key runs, no other is created.")
    unique_seconds: Seconds | None = Field(
        default=None, description="None is created so long after the last one, instead of while it runs."
    )
    debounce_seconds: Seconds | None = Field(
        default=None, description="It starts so long after the last request with its key, with the context of that one."
    )
    debounce_max_seconds: Seconds | None = Field(
        default=None, description="But no longer than this after the first request."
    )


class NewJob(NewTask):
    """A job of seed 003: a task of its vocabulary."""

    vocabulary: Name | None = "supervision"


class NewGraph(Attributed):
    """A task from a graph of its own."""

    graph: Json = Field(description="As a template, without a version: docs/workflows.md.")
    context: Json = {}
    namespace: Namespace | None = None
    idempotency_key: Name | None = None
    correlation_id: UUID | None = None
    priority: Priority = 0
    parent_task_uuid: UUID | None = None
    tags: Json = {}
    start: bool = True
    start_at: AwareDatetime | None = None


class NewSchedule(Attributed):
    """What creates tasks by the clock."""

    cron: Name = Field(description="Minute, hour, day, month, day of the week; or @hourly, @daily, ...")
    template: Name = Field(description="The template.")
    context: Json = {}
    time_zone: Name = Field(default="UTC", description="Whose clock is meant, such as Europe/Berlin.")
    version: Name | None = Field(default=None, description="Of the template; null: the newest when the time comes.")
    vocabulary: Name | None = None
    tags: Json = {}
    priority: Priority = 0
    catch_up: Literal["latest", "all", "none"] = Field(
        default="latest", description="Of times that passed unseen: a task for the newest, for all, or for none."
    )
    overlap: Literal["allow", "skip"] = Field(
        default="allow", description="skip creates none while the task before is not finished."
    )


class NewEvent(BaseModel):
    """What happened outside. It is told once, so the call is safe to repeat as it is."""

    model_config = ConfigDict(extra="forbid")

    payload: Any = Field(default={}, description="Input of the steps that wait, under the event's name.")
    requested_by: Said | None = Field(default=None, description="On whose behalf; kept with the name of the token.")
    keep: Annotated[float, Field(ge=3600, le=366 * 86400)] | None = Field(
        default=90 * 86400, description="Seconds until it may be forgotten; null: never."
    )


class NewTemplate(Body):
    """A template."""

    template: Json = Field(description="docs/workflows.md lists its fields.")


class Command(Attributed):
    """A manual action: why, and for whom."""

    reason: Said = Field(description="Why; kept in the log.")


class Resolution(Command):
    """A step declared settled by hand."""

    result: Any = Field(default=None, description="What its dependents shall see.")


class Event(Body):
    """An event for the generic door."""

    event: Name
    metadata: Json = Field(default={}, description="Kept with the transition. Commands want reason and requested_by.")


class TaskEvent(Event):
    """An event for a task."""

    processor_uuid: UUID | None = Field(
        default=None, description="The processor that moves it; seed 004 wants it to own it."
    )


class NewWorker(Body):
    """A worker (seed 003: POST /api/workers)."""

    name: Name | None = Field(default=None, description="Shown to people; null: the workspace's.")
    workspace_id: Namespace | None = Field(default=None, description="The namespace that it works for; null: all.")
    vocabulary: Name = "supervision"
    capabilities: list[Name] = Field(default=[], max_length=100)
    max_concurrent: int = Field(default=10, ge=1, le=100_000)
    handlers: list[Name] | None = Field(
        default=None, description="It is given no step of another one; null: any.", max_length=1000
    )


class Supervision(Attributed):
    """A supervisor's request (seed 003: StateTransitionRequest)."""

    reason: Said | None = Field(default=None, description="Why; kept in the log. Null: the log names the route.")


class Claim(BaseModel):
    """What a worker wants to have."""

    model_config = ConfigDict(extra="forbid")

    namespaces: list[Namespace] | None = Field(default=None, description="Null: those of the worker.", max_length=1000)
    limit: int = Field(default=1, ge=1, le=1000)
    lease: float = Field(default=30.0, ge=1, le=86400, description="Seconds.")


class Completion(Body):
    """A claimed step that was done."""

    claim_uuid: UUID
    result: Any = None
    execution_time_ms: int | None = Field(default=None, ge=0, le=2**53)


class Failure(Body):
    """A claimed step that failed."""

    claim_uuid: UUID
    error: Any
    category: Literal["transient", "permanent", "unknown"] = "unknown"
    retry_after: Seconds | None = None
    execution_time_ms: int | None = Field(default=None, ge=0, le=2**53)


class BreakerSettings(Body):
    """The settings of a circuit breaker."""

    failure_threshold: int = Field(default=5, ge=1, le=2**31 - 1)
    cooldown: Seconds = Field(default=60.0, description="Seconds.")
    success_threshold: int = Field(default=1, ge=1, le=2**31 - 1)
    max_error_repeats: int | None = Field(default=None, ge=1, le=2**31 - 1)
    vocabulary: Name = "tasker"


class LimitSettings(Body):
    """How many steps may run at once, how many may start in a time, or both."""

    concurrency: int | None = Field(default=None, ge=1, le=2**31 - 1)
    rate: int | None = Field(default=None, ge=1, le=2**31 - 1)
    per: Seconds = Field(default=1.0, description="Seconds: so many start in any stretch of time as long as this.")


# ------------------------------------------------------------------------------------------------------- answers


class TaskKey(BaseModel):
    """The key of a task."""

    task_uuid: UUID


class WorkerKey(BaseModel):
    """The key of a worker."""

    id: UUID


class TemplateKey(BaseModel):
    """The key of a template."""

    named_task_uuid: UUID


class LimitKey(BaseModel):
    """The key of a limit."""

    limit_uuid: UUID


class NextTime(BaseModel):
    """When a schedule creates its next task; null while it is paused."""

    next_due_at: dt.datetime | None


class NewState(BaseModel):
    """The state after a call."""

    state: str


class Detail(BaseModel):
    """A worker or job as seed 003 answers it: id and status."""

    id: UUID
    status: str


class Tasks(BaseModel):
    """A page of tasks, newest first."""

    tasks: list[TaskOverview]
    next_before: UUID | None = Field(description="Hand it in as before for the next page; null: there is none.")


class Steps(BaseModel):
    """A page of steps in the order of the definition."""

    steps: list[StepOverview]
    next_after: int | None = Field(description="Hand it in as after for the next page; null: there is none.")


class Workers(BaseModel):
    """A page of workers, newest first."""

    workers: list[WorkerOverview]
    next_before: UUID | None = Field(description="Hand it in as before for the next page; null: there is none.")


class Transitions(BaseModel):
    """The log of a task and its steps, oldest first."""

    transitions: list[TimelineEntry]


class Audit(BaseModel):
    """Audit records, newest first (seed 004)."""

    records: list[AuditRecord]


class Feed(BaseModel):
    """A page of the change feed."""

    changes: list[Json] = Field(description="As tasker.changes_after gives them, each with its cursor.")
    cursor: str | None = Field(description="Hand it in as cursor for what comes after; null: from the beginning.")


class Drawing(BaseModel):
    """A lifecycle, drawn from its rows."""

    lifecycle: str
    format: Literal["mermaid", "dot", "table"]
    drawing: str


class LifecycleName(BaseModel):
    """A lifecycle and what follows it."""

    lifecycle: str
    kind: str
    description: str | None


class Token(BaseModel):
    """Who calls."""

    name: str
    role: str
    login: str | None
    expires_at: dt.datetime | None
