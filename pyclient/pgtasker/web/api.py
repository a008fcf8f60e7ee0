"""The HTTP API: one route, one call of a SQL function or view (docs/http.md).

FastAPI makes routes, checks and the OpenAPI document from the types; answers are the client's own rows.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from psycopg.rows import args_row
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from pgtasker import AsyncClient, Explanation, __version__
from pgtasker import _rows as rows
from pgtasker._statements import Statement
from pgtasker.errors import InvalidDefinition, NotFound
from pgtasker.web import bodies, dashboard, problems
from pgtasker.web.gate import Gate, Token
from pgtasker.web.limits import MAX_BODY_BYTES, Limits

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_LIFECYCLES = Statement(
    b"SELECT lifecycle, kind, description FROM tasker.lifecycles ORDER BY lifecycle",
    args_row(lambda lifecycle, kind, text: bodies.LifecycleName(lifecycle=lifecycle, kind=kind, description=text)),
    repeatable=True,
)


class Caller:
    """Who calls, and the client whose sessions act as that caller."""

    def __init__(self, token: Token, client: AsyncClient) -> None:
        self.token = token
        self.client = client

    def named(self, requested_by: str | None) -> str:
        """Who asked, for the log: the name of the token always stands last, whatever the request claims."""
        return f"{requested_by} via {self.token.name}" if requested_by else self.token.name

    def request_id(self, body: str | None, header: str | None) -> str | None:
        """The id under which the answer is kept. Tokens that share a login do not share ids."""
        if body is not None and header is not None and body != header:
            raise InvalidDefinition(
                "request_id and Idempotency-Key differ", hint="Send one of them.", detail={"request_id": body}
            )
        key = body or header
        return key and f"{self.token.name}/{key}"


_bearer = HTTPBearer(auto_error=False, description="A token of the server's file of tokens.")


async def _caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
) -> Caller:
    gate: Gate = request.app.state.gate
    token = gate.caller(given.credentials if given else None)
    if token is None:
        raise HTTPException(401, "unauthorized", {"WWW-Authenticate": "Bearer"})
    request.state.client = gate.client(token)
    return Caller(token, request.state.client)


Calling = Annotated[Caller, Depends(_caller)]
Key = Annotated[
    bodies.RequestKey | None,
    Header(alias="Idempotency-Key", description="Makes the call safe to repeat: as request_id in the body."),
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Tool = Annotated[bodies.Name, Path(description="What steps name as their tool; their handler where they name none.")]


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {
            "model": problems.StateTransitionResult if status == 409 else problems.Problem,
            "description": {
                400: "The input is wrong: facts.problems lists everything (TK400).",
                401: "No token, or none that is known.",
                403: "The caller may not do this (42501, TK403).",
                404: "There is no such thing, or none that the caller may see (TK404).",
                409: "Not from this state (TK409), or the key belongs to another request (TK423).",
                412: "The claim is not current any more (TK412).",
                413: "The request is too large, or what is in it for its namespace (TK413).",
                422: "A guard does not hold (TK422).",
                429: "A limit is reached (TK429).",
                503: "The database cannot be reached, or a circuit breaker is open (TK503).",
                504: "It took too long; nothing changed.",
            }[status],
        }
        for status in statuses
    }


READING = _refusals(400, 401, 403, 404, 503, 504)
WRITING = _refusals(400, 401, 403, 404, 409, 412, 413, 422, 429, 503, 504)

v1 = APIRouter(prefix="/v1")
supervised = APIRouter(prefix="/api", tags=["supervision (seed 003)"])

# --------------------------------------------------------------------------------------------------------- tasks


STANDS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": rows.SubmittedTask,
        "description": "Nothing was created: this task stands for the unique key, or was pushed back.",
    }
}


async def _new_task(
    caller: Caller, response: Response, body: bodies.NewTask, key: str | None, place: str
) -> rows.SubmittedTask:
    wanted = body.model_dump(mode="json", exclude={"requested_by", "request_id"}, exclude_none=True)
    (submitted,) = await caller.client.submit_tasks(
        [{**wanted, "requested_by": caller.named(body.requested_by)}],
        request_id=caller.request_id(body.request_id, key),
    )
    response.headers["Location"] = f"{place}/{submitted.task_uuid}"
    if submitted.outcome in ("duplicate", "pushed_back"):
        response.status_code = 200
    return submitted


@v1.post("/tasks", status_code=201, tags=["tasks"], responses=WRITING | STANDS)
async def create_task(caller: Calling, response: Response, body: bodies.NewTask, key: Key = None) -> rows.SubmittedTask:
    """Create a task from a template, with all its steps, unless one stands for its unique key."""
    return await _new_task(caller, response, body, key, "/v1/tasks")


@v1.post("/tasks/graph", status_code=201, tags=["tasks"], responses=WRITING)
async def create_task_from_graph(
    caller: Calling, response: Response, body: bodies.NewGraph, key: Key = None
) -> bodies.TaskKey:
    """Create a task from a graph of its own, without a template."""
    fields = body.model_dump(exclude={"requested_by", "request_id"})
    task_uuid = await caller.client.create_task_from_graph(
        fields.pop("graph"),
        fields.pop("context"),
        **fields,
        requested_by=caller.named(body.requested_by),
        request_id=caller.request_id(body.request_id, key),
    )
    response.headers["Location"] = f"/v1/tasks/{task_uuid}"
    return bodies.TaskKey(task_uuid=task_uuid)


@v1.get("/tasks", tags=["tasks"], responses=READING)
async def find_tasks(
    caller: Calling,
    namespace: bodies.Namespace | None = None,
    name: bodies.Name | None = None,
    state: bodies.Name | None = None,
    phase: bodies.Name | None = None,
    before: UUID | None = None,
    limit: Limit = 50,
) -> bodies.Tasks:
    """List tasks, newest first. A page may be shorter than asked for and still have a next one."""
    page = await caller.client.find_tasks(namespace, name, state, phase, before, limit)
    return bodies.Tasks(tasks=page.tasks, next_before=page.next_before)


@v1.get("/tasks/{task_uuid}", tags=["tasks"], responses=READING)
async def get_task(caller: Calling, task_uuid: UUID) -> rows.TaskOverview:
    """One task with its state and progress."""
    return await caller.client.task_status(task_uuid)


@v1.get("/tasks/{task_uuid}/explanation", tags=["tasks"], responses=READING)
async def explain_task(caller: Calling, task_uuid: UUID) -> Explanation:
    """Why the task is not further, in words, with the calls that would move it."""
    return await caller.client.explain_task(task_uuid)


@v1.get("/tasks/{task_uuid}/execution_context", tags=["tasks"], responses=READING)
async def get_task_execution_context(caller: Calling, task_uuid: UUID) -> bodies.Json:
    """Counts of a task and the recommended action (seed 004)."""
    return await caller.client.get_task_execution_context(task_uuid)


@v1.get("/tasks/{task_uuid}/allowed_events", tags=["tasks"], responses=READING)
async def allowed_task_events(caller: Calling, task_uuid: UUID) -> list[rows.AllowedEvent]:
    """The events that the current state knows, and whether their guards hold now."""
    return await caller.client.allowed_events("task", task_uuid)


@v1.get("/tasks/{task_uuid}/transitions", tags=["tasks"], responses=READING)
async def get_transitions(caller: Calling, task_uuid: UUID) -> bodies.Transitions:
    """Every transition of a task and its steps, oldest first."""
    return bodies.Transitions(transitions=await caller.client.timeline(task_uuid))


@v1.post("/tasks/{task_uuid}/transitions", tags=["tasks"], responses=WRITING)
async def transition_task(caller: Calling, task_uuid: UUID, body: bodies.TaskEvent, key: Key = None) -> bodies.NewState:
    """Send an event to a task through the generic door."""
    state = await caller.client.transition_task(
        task_uuid,
        body.event,
        body.processor_uuid,
        body.metadata,
        request_id=caller.request_id(body.request_id, key),
    )
    return bodies.NewState(state=state)


# --------------------------------------------------------------------------------------------------------- steps


@v1.get("/tasks/{task_uuid}/workflow_steps", tags=["steps"], responses=READING)
async def get_steps(
    caller: Calling, task_uuid: UUID, after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0, limit: Limit = 100
) -> bodies.Steps:
    """The steps of a task in the order of its definition."""
    steps = await caller.client.steps(task_uuid, after, limit)
    return bodies.Steps(steps=steps, next_after=steps[-1].ordinal if len(steps) == limit else None)


@v1.get("/workflow_steps/{step_uuid}", tags=["steps"], responses=READING)
async def get_step(caller: Calling, step_uuid: UUID) -> rows.StepOverview:
    """One step with its state, claim and latest result."""
    return await caller.client.step(step_uuid)


@v1.get("/workflow_steps/{step_uuid}/result", tags=["steps"], responses=READING)
async def get_result(caller: Calling, step_uuid: UUID) -> Any:
    """The latest result of a step in full, also where it is too big to stand in the log."""
    return await caller.client.load_result(step_uuid)


@v1.get("/workflow_steps/{step_uuid}/allowed_events", tags=["steps"], responses=READING)
async def allowed_step_events(caller: Calling, step_uuid: UUID) -> list[rows.AllowedEvent]:
    """The events that the current state knows, and whether their guards hold now."""
    return await caller.client.allowed_events("step", step_uuid)


@v1.post("/workflow_steps/{step_uuid}/transitions", tags=["steps"], responses=WRITING)
async def transition_step(caller: Calling, step_uuid: UUID, body: bodies.Event, key: Key = None) -> bodies.NewState:
    """Send an event to a step through the generic door."""
    state = await caller.client.transition_step(
        step_uuid, body.event, body.metadata, request_id=caller.request_id(body.request_id, key)
    )
    return bodies.NewState(state=state)


# ------------------------------------------------------------------------------------------------------- commands


async def _command(
    caller: Caller, command: str, target: object, body: bodies.Command, key: str | None, **arguments: Any
) -> str:
    return await caller.client.attempt_command(
        command,
        str(target),
        body.reason,
        caller.named(body.requested_by),
        arguments,
        request_id=caller.request_id(body.request_id, key),
    )


def _command_route(command: str, key_name: str, says: str) -> Callable[..., Coroutine[Any, Any, bodies.NewState]]:
    async def carry_out(
        caller: Calling, target: Annotated[UUID, Path(alias=key_name)], body: bodies.Command, key: Key = None
    ) -> bodies.NewState:
        return bodies.NewState(state=await _command(caller, command, target, body, key))

    carry_out.__name__ = command
    carry_out.__doc__ = says
    return carry_out


for _command_name, _says in {
    "cancel_task": "Cancel a task, its open steps and its children.",
    "give_up_task": "Let a blocked task end in failure.",
    "resolve_task": "Declare a blocked task settled by hand.",
    "reset_task": "Let a failed task begin anew.",
    "pass_validation": "Accept a task that waits for a verdict on the whole.",
    "fail_validation": "Reject a task that waits for a verdict on the whole.",
}.items():
    _verb = _command_name.removesuffix("_task")
    v1.post(f"/tasks/{{task_uuid}}/{_verb}", tags=["tasks"], responses=WRITING)(
        _command_route(_command_name, "task_uuid", _says)
    )
for _verb, _says in {
    "cancel": "Cancel a step.",
    "skip": "Leave a step out.",
    "retry": "Let a failed step try again now.",
    "reset": "Let a failed step begin anew with all its attempts.",
}.items():
    v1.post(f"/workflow_steps/{{step_uuid}}/{_verb}", tags=["steps"], responses=WRITING)(
        _command_route(f"{_verb}_step", "step_uuid", _says)
    )


@v1.post("/tasks/{task_uuid}/resume", status_code=201, tags=["tasks"], responses=WRITING)
async def resume_task(
    caller: Calling, response: Response, task_uuid: UUID, body: bodies.Command, key: Key = None
) -> bodies.TaskKey:
    """Go on in a new task where one ended without success."""
    new = UUID(await _command(caller, "resume_task", task_uuid, body, key))
    response.headers["Location"] = f"/v1/tasks/{new}"
    return bodies.TaskKey(task_uuid=new)


@v1.post("/workflow_steps/{step_uuid}/resolve", tags=["steps"], responses=WRITING)
async def resolve_step(caller: Calling, step_uuid: UUID, body: bodies.Resolution, key: Key = None) -> bodies.NewState:
    """Declare a failed step settled by hand, with the result that its dependents shall see."""
    given = {} if body.result is None else {"result": body.result}
    return bodies.NewState(state=await _command(caller, "resolve_step", step_uuid, body, key, **given))


# ---------------------------------------------------------------------------------------------------------- audit


@v1.get("/tasks/{task_uuid}/workflow_steps/{step_uuid}/audit", tags=["audit"], responses=READING)
async def get_step_audit_history(caller: Calling, task_uuid: UUID, step_uuid: UUID) -> bodies.Audit:
    """The audit records of a step with full transition details, newest first (seed 004, "Via API")."""
    return bodies.Audit(records=await caller.client.get_step_audit_history(task_uuid, step_uuid))


@v1.get("/tasks/{task_uuid}/audit", tags=["audit"], responses=READING)
async def get_task_audit_history(caller: Calling, task_uuid: UUID) -> bodies.Audit:
    """The audit records of a task, newest first."""
    return bodies.Audit(records=await caller.client.get_task_audit_history(task_uuid))


@v1.get("/audit/workers/{worker_uuid}", tags=["audit"], responses=READING)
async def get_audit_by_worker(caller: Calling, worker_uuid: UUID, limit: Limit = 100) -> bodies.Audit:
    """The newest audit records of a worker."""
    return bodies.Audit(records=await caller.client.get_audit_by_worker(worker_uuid, limit))


@v1.get("/audit/correlations/{correlation_id}", tags=["audit"], responses=READING)
async def get_audit_by_correlation_id(caller: Calling, correlation_id: UUID) -> bodies.Audit:
    """The audit records of one traced request, newest first."""
    return bodies.Audit(records=await caller.client.get_audit_by_correlation_id(correlation_id))


@v1.get("/changes", tags=["audit"], responses=READING)
async def changes_after(caller: Calling, cursor: bodies.Name | None = None, limit: Limit = 100) -> bodies.Feed:
    """Every transition after a cursor, without gaps: the change feed."""
    page = await caller.client.changes_after(cursor, limit)
    return bodies.Feed(
        changes=[{"cursor": change.cursor, **change.raw} for change in page], cursor=page[-1].cursor if page else cursor
    )


# ------------------------------------------------------------------------------------------------------- templates


@v1.post("/templates", status_code=201, tags=["templates"], responses=WRITING)
async def register_template(caller: Calling, body: bodies.NewTemplate, key: Key = None) -> bodies.TemplateKey:
    """Store a template; the same content again gives the same key."""
    found = await caller.client.register_template(body.template, request_id=caller.request_id(body.request_id, key))
    return bodies.TemplateKey(named_task_uuid=found)


@v1.get("/lifecycles", tags=["rules"], responses=READING)
async def list_lifecycles(caller: Calling) -> list[bodies.LifecycleName]:
    """All lifecycles."""
    return await caller.client._rows(_LIFECYCLES)


@v1.get("/lifecycles/{lifecycle}", tags=["rules"], responses=READING)
async def lifecycle_diagram(
    caller: Calling, lifecycle: bodies.Name, format: Literal["mermaid", "dot", "table"] = "mermaid"
) -> bodies.Drawing:
    """A lifecycle such as tasker.task, drawn from its rows."""
    drawing = await caller.client.lifecycle_diagram(lifecycle, format)
    return bodies.Drawing(lifecycle=lifecycle, format=format, drawing=drawing)


@v1.get("/caller", tags=["rules"], responses=_refusals(401, 503))
async def who_calls(caller: Calling) -> bodies.Token:
    """What the token stands for."""
    token = caller.token
    return bodies.Token(name=token.name, role=token.role, login=token.login, expires_at=token.expires_at)


# ---------------------------------------------------------------------------------------- schedules and namespaces

Space = Annotated[bodies.Namespace, Path()]
ScheduleName = Annotated[bodies.Name, Path(description="Its name, unique in its namespace.")]


@v1.get("/schedules", tags=["schedules"], responses=READING)
async def list_schedules(caller: Calling, namespace: bodies.Namespace | None = None) -> list[rows.Schedule]:
    """What creates tasks by the clock."""
    return await caller.client.schedules(namespace)


@v1.put("/schedules/{namespace}/{schedule}", tags=["schedules"], responses=WRITING)
async def schedule_tasks(
    caller: Calling, namespace: Space, schedule: ScheduleName, body: bodies.NewSchedule, key: Key = None
) -> bodies.NextTime:
    """Create a task from a template whenever a cron expression says so, or change when."""
    fields = body.model_dump(exclude={"requested_by", "request_id"})
    next_due_at = await caller.client.schedule_tasks(
        schedule,
        fields.pop("cron"),
        fields.pop("template"),
        fields.pop("context"),
        **fields,
        namespace=namespace,
        requested_by=caller.named(body.requested_by),
        request_id=caller.request_id(body.request_id, key),
    )
    return bodies.NextTime(next_due_at=next_due_at)


def _schedule_route(verb: str, says: str) -> None:
    async def change(
        caller: Calling, namespace: Space, schedule: ScheduleName, body: bodies.Command, key: Key = None
    ) -> bodies.NewState:
        state = await _command(caller, f"{verb}_schedule", schedule, body, key, namespace=namespace)
        return bodies.NewState(state=state)

    change.__name__ = f"{verb}_schedule"
    change.__doc__ = says
    v1.post(f"/schedules/{{namespace}}/{{schedule}}/{verb}", tags=["schedules"], responses=WRITING)(change)


_schedule_route("pause", "Let the times of a schedule pass until it is resumed.")
_schedule_route("resume", "Let a paused schedule go on; the answer is its next time.")
_schedule_route("remove", "Remove a schedule; tasks that were created go on.")


def _namespace_route(verb: str, says: str) -> None:
    async def change(caller: Calling, namespace: Space, body: bodies.Command, key: Key = None) -> bodies.NewState:
        return bodies.NewState(state=await _command(caller, f"{verb}_namespace", namespace, body, key))

    change.__name__ = f"{verb}_namespace"
    change.__doc__ = says
    v1.post(f"/namespaces/{{namespace}}/{verb}", tags=["schedules"], responses=WRITING)(change)


_namespace_route("pause", "Hand out no step of a namespace until it is resumed.")
_namespace_route("resume", "Hand out the steps of a paused namespace again.")

# ------------------------------------------------------------------------------------------------------------ events

EventName = Annotated[str, Path(pattern=r"^[^\x00]+$", max_length=200, description="What happened.")]
EventKey = Annotated[str, Path(pattern=r"^[^\x00]+$", max_length=500, description="To what.")]


@v1.get("/events", tags=["events"], responses=READING)
async def list_events(
    caller: Calling, namespace: bodies.Namespace | None = None, event: bodies.Name | None = None, limit: Limit = 50
) -> list[rows.EmittedEvent]:
    """The newest events."""
    return await caller.client.emitted_events(namespace, event, limit)


@v1.get("/events/{namespace}/{event}/{key:path}", tags=["events"], responses=READING)
async def get_event(caller: Calling, namespace: Space, event: EventName, key: EventKey) -> rows.EmittedEvent:
    """One event."""
    found = await caller.client.get_event(event, key, namespace=namespace)
    if found is None:
        raise NotFound(f"event {event} of {key} was not emitted")
    return found


@v1.put("/events/{namespace}/{event}/{key:path}", tags=["events"], responses=WRITING)
async def emit_event(
    caller: Calling, namespace: Space, event: EventName, key: EventKey, body: bodies.NewEvent
) -> rows.Emission:
    """Tell that something happened; the first to tell it wins, and the answer says what is there."""
    return await caller.client.emit_event(
        event,
        key,
        body.payload,
        namespace=namespace,
        requested_by=caller.named(body.requested_by),
        keep=body.keep,
    )


# -------------------------------------------------------------------------------------------------- circuit breakers


@v1.get("/breakers", tags=["breakers"], responses=READING)
async def list_breakers(caller: Calling) -> list[rows.BreakerOverview]:
    """All circuit breakers, by their tools."""
    return await caller.client.breakers()


@v1.get("/breakers/{tool}", tags=["breakers"], responses=READING)
async def get_breaker(caller: Calling, tool: Tool) -> rows.BreakerOverview:
    """The circuit breaker of a tool."""
    return await caller.client.breaker(tool)


@v1.put("/breakers/{tool}", tags=["breakers"], responses=WRITING)
async def configure_breaker(
    caller: Calling, tool: Tool, body: bodies.BreakerSettings, key: Key = None
) -> bodies.NewState:
    """Give a tool a circuit breaker, or set all settings of the one it has."""
    state = await caller.client.configure_breaker(
        tool, **body.model_dump(exclude={"request_id"}), request_id=caller.request_id(body.request_id, key)
    )
    return bodies.NewState(state=state)


@v1.post("/breakers/{tool}/reset", tags=["breakers"], responses=WRITING)
async def reset_breaker(caller: Calling, tool: Tool, body: bodies.Command, key: Key = None) -> bodies.NewState:
    """Close the circuit breaker of a tool by hand."""
    return bodies.NewState(state=await _command(caller, "reset_breaker", tool, body, key))


# ------------------------------------------------------------------------------------------------------------ limits

Scope = Annotated[Literal["tool", "namespace", "template"], Path(description="What is limited.")]
Limited = Annotated[bodies.Name, Path(description="Which tool, namespace or template.")]
OfNamespace = Annotated[
    bodies.Namespace | None,
    Query(description="Where the template stands, or whose steps of a tool are counted; without it those of all."),
]


@v1.get("/limits", tags=["limits"], responses=READING)
async def list_limits(caller: Calling) -> list[rows.LimitOverview]:
    """All limits, with what each has given away and who waits for it."""
    return await caller.client.limits()


@v1.put("/limits/{scope}/{name:path}", tags=["limits"], responses=WRITING)
async def set_limit(
    caller: Calling,
    scope: Scope,
    name: Limited,
    body: bodies.LimitSettings,
    namespace: OfNamespace = None,
    key: Key = None,
) -> bodies.LimitKey:
    """Limit how many steps run at once, how many start in a time, or both; set again, both are new."""
    limit_uuid = await caller.client.set_limit(
        scope,
        name,
        **body.model_dump(exclude={"request_id"}),
        namespace=namespace,
        request_id=caller.request_id(body.request_id, key),
    )
    return bodies.LimitKey(limit_uuid=limit_uuid)


@v1.delete("/limits/{scope}/{name:path}", tags=["limits"], responses=WRITING, status_code=204)
async def remove_limit(
    caller: Calling, scope: Scope, name: Limited, namespace: OfNamespace = None, key: Key = None
) -> None:
    """Take a limit away: what waits for it is queued."""
    await caller.client.remove_limit(scope, name, namespace, request_id=caller.request_id(None, key))


# -------------------------------------------------------------------------------- workers that work over HTTP


@v1.post("/workers/{worker_uuid}/claims", tags=["work"], responses=WRITING)
async def claim_steps(caller: Calling, worker_uuid: UUID, body: bodies.Claim) -> list[rows.ClaimedStep]:
    """Take ready steps for a worker; they are in progress when this answers."""
    return await caller.client.claim_steps(worker_uuid, body.namespaces, body.limit, body.lease)


@v1.post("/workers/{worker_uuid}/heartbeat", tags=["work"], responses=WRITING)
async def worker_heartbeat(caller: Calling, worker_uuid: UUID) -> bodies.NewState:
    """Tell that a worker lives."""
    return bodies.NewState(state=await caller.client.worker_heartbeat(worker_uuid))


@v1.post("/workflow_steps/{step_uuid}/complete", tags=["work"], responses=WRITING)
async def complete_step(caller: Calling, step_uuid: UUID, body: bodies.Completion, key: Key = None) -> bodies.NewState:
    """Report that a claimed step was done."""
    state = await caller.client.complete_step(
        step_uuid,
        body.claim_uuid,
        body.result,
        body.execution_time_ms,
        request_id=caller.request_id(body.request_id, key),
    )
    return bodies.NewState(state=state)


@v1.post("/workflow_steps/{step_uuid}/fail", tags=["work"], responses=WRITING)
async def fail_step(caller: Calling, step_uuid: UUID, body: bodies.Failure, key: Key = None) -> bodies.NewState:
    """Report that a claimed step failed; the engine decides on a retry."""
    state = await caller.client.fail_step(
        step_uuid,
        body.claim_uuid,
        body.error,
        body.category,
        body.retry_after,
        body.execution_time_ms,
        request_id=caller.request_id(body.request_id, key),
    )
    return bodies.NewState(state=state)


# ----------------------------------------------------------------------------------------- supervision, seed 003


@supervised.post("/workers", status_code=201, responses=WRITING)
async def register_worker(
    caller: Calling, response: Response, body: bodies.NewWorker, key: Key = None
) -> bodies.WorkerKey:
    """Make a worker known (seed 003, 6.2)."""
    worker_uuid = await caller.client.register_worker(
        body.name or body.workspace_id or caller.token.name,
        body.capabilities,
        body.max_concurrent,
        body.vocabulary,
        None if body.workspace_id is None else [body.workspace_id],
        handlers=body.handlers,
        request_id=caller.request_id(body.request_id, key),
    )
    response.headers["Location"] = f"/api/workers/{worker_uuid}"
    return bodies.WorkerKey(id=worker_uuid)


@supervised.get("/workers", responses=READING)
async def list_workers(
    caller: Calling, ended: bool = False, before: UUID | None = None, limit: Limit = 100
) -> bodies.Workers:
    """List workers, newest first; those that have ended only if asked for."""
    workers = await caller.client.workers(ended, before, limit)
    return bodies.Workers(workers=workers, next_before=workers[-1].worker_uuid if len(workers) == limit else None)


@supervised.get("/workers/{worker_id}", responses=READING)
async def get_worker(caller: Calling, worker_id: UUID) -> rows.WorkerOverview:
    """One worker with its state and load."""
    return await caller.client.worker(worker_id)


def _supervision(body: bodies.Supervision | None, route: str) -> bodies.Command:
    # The seed leaves the reason out where it likes; the log then says what was called.
    fields = body.model_dump() if body else {}
    return bodies.Command(**{**fields, "reason": fields.get("reason") or route})


def _supervision_route(path: str, verb: str, says: str) -> None:
    async def supervise(
        caller: Calling, worker_id: UUID, body: bodies.Supervision | None = None, key: Key = None
    ) -> bodies.Detail:
        command = _supervision(body, f"POST /api{path}")
        return bodies.Detail(id=worker_id, status=await _command(caller, f"{verb}_worker", worker_id, command, key))

    supervise.__name__ = f"{verb}_worker"
    supervise.__doc__ = says
    supervised.post(path, responses=WRITING)(supervise)


_supervision_route("/workers/{worker_id}/start", "start", "Start a worker.")
_supervision_route("/supervisor/workers/{worker_id}/pause", "pause", "Suspend a worker: it claims nothing.")
_supervision_route("/supervisor/workers/{worker_id}/resume", "resume", "Let a suspended worker go on.")
_supervision_route("/supervisor/workers/{worker_id}/terminate", "terminate", "Stop a worker by force.")


@supervised.post("/supervisor/workers/{worker_id}/shutdown", responses=WRITING)
async def shutdown_worker(
    caller: Calling, worker_id: UUID, body: bodies.Supervision | None = None, key: Key = None
) -> bodies.Detail:
    """Let a worker end when it holds nothing any more."""
    asked = body or bodies.Supervision()
    state = await caller.client.shutdown_worker(
        worker_id, asked.reason, request_id=caller.request_id(asked.request_id, key)
    )
    return bodies.Detail(id=worker_id, status=state)


@supervised.post("/jobs", status_code=201, responses=WRITING | STANDS)
async def submit_job(caller: Calling, response: Response, body: bodies.NewJob, key: Key = None) -> rows.SubmittedTask:
    """Submit a job: a task from a template, which may ask for workers."""
    return await _new_task(caller, response, body, key, "/api/jobs")


@supervised.get("/jobs/{job_id}", responses=READING)
async def get_job(caller: Calling, job_id: UUID) -> rows.TaskOverview:
    """One job with its state and progress."""
    return await caller.client.task_status(job_id)


@supervised.post("/jobs/{job_id}/cancel", responses=WRITING)
async def cancel_job(
    caller: Calling, job_id: UUID, body: bodies.Supervision | None = None, key: Key = None
) -> bodies.Detail:
    """Cancel a job and release its workers."""
    command = _supervision(body, "POST /api/jobs/{job_id}/cancel")
    return bodies.Detail(id=job_id, status=await _command(caller, "cancel_task", job_id, command, key))


# ------------------------------------------------------------------------------------------------------ application


def create_app(gate: Gate, *, max_body_bytes: int = MAX_BODY_BYTES, with_dashboard: Starlette | None = None) -> FastAPI:
    """Return the API as an ASGI application.

    Args:
        gate: who may call, and as whom; it is closed when the application ends.
        max_body_bytes: longer requests are refused with 413.
        with_dashboard: a dashboard to serve beside it, below ``/dashboard``; it is closed as well.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        yield
        await gate.close()
        if with_dashboard is not None:
            await dashboard.close(with_dashboard)

    app = FastAPI(
        title="pgtasker",
        version=__version__,
        summary="Workflows whose every rule lives in PostgreSQL.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        # An address is right or wrong: no redirects that lose the body.
        redirect_slashes=False,
    )
    app.state.gate = gate
    app.include_router(v1)
    app.include_router(supervised)
    if with_dashboard is not None:
        app.mount("/dashboard", dashboard.beside(with_dashboard))
    problems.install(app)
    app.add_middleware(Limits, headers=HEADERS, max_body_bytes=max_body_bytes)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document. Refusals are problem details, which FastAPI can't be told for a model."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for operations in document["paths"].values():
            for operation in operations.values():
                for status, response in operation["responses"].items():
                    if status >= "400":
                        response["content"] = {problems.MEDIA_TYPE: response["content"]["application/json"]}
        app.openapi_schema = document
    return app.openapi_schema
