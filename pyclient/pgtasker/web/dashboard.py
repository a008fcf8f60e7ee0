"""The dashboard: pages from the database alone (docs/dashboard.md).

Pages are whole HTML documents that work without scripts. With them, a page that shows something alive asks for itself
again when the database says that it changed, and puts its ``#live`` part in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID, uuid4

import psycopg
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Receive, Scope, Send

from pgtasker import AsyncClient, __version__
from pgtasker.errors import NotFound, PgtaskerError
from pgtasker.web import drawing, problems, queries
from pgtasker.web.gate import Gate, Token
from pgtasker.web.limits import Limits

HERE = Path(__file__).resolve().parent
COOKIE = "pgtasker_dashboard"
PAGE = 50
STEPS_A_PAGE = 100
SPANS_A_PAGE = 100
LOG_A_PAGE = 200
MAX_JSON = 100_000
WATCH_EVERY = 1.0
OVERVIEW_EVERY = 5.0
KEEP_ALIVE_EVERY = 20.0

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    # with no-referrer browsers would send Origin: null with our own forms
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# What a command is done to, by the end of its name.
KINDS = {"task": "task", "validation": "task", "step": "step", "worker": "worker", "breaker": "circuit_breaker"}

Page = Callable[["View"], Awaitable[Response]]


class View:
    """One request of somebody who is let in: the client, what was asked, and how a page is made."""

    def __init__(self, request: Request, token: Token, text: str, client: AsyncClient) -> None:
        self.request = request
        self.token = token
        self.client = client
        self.csrf = csrf_of(text)

    async def rows(self, statement: Any, **parameters: Any) -> list[Any]:
        """The rows of a query."""
        return await self.client._rows(statement, parameters)

    def uuid(self, name: str) -> UUID:
        """A key of the path; what is none leads nowhere."""
        try:
            return UUID(self.request.path_params[name])
        except ValueError:
            raise HTTPException(404) from None

    def text(self, name: str) -> str | None:
        """A field of the query, None where it is empty."""
        return self.request.query_params.get(name, "").strip().replace("\x00", "") or None

    def number(self, name: str, default: int, most: int) -> int:
        """A number of the query, within bounds."""
        text = self.text(name) or ""
        return max(0, min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 12 else default

    @property
    def address(self) -> str:
        """Where this page asks for itself again."""
        url = self.request.url
        return f"{url.path}?{url.query}" if url.query else url.path

    async def commands(self, kind: str, target: object) -> list[dict[str, Any]]:
        """The manual actions to offer; none where nobody may act here."""
        if not self.request.app.state.actions:
            return []
        return await self.rows(queries.COMMANDS, kind=kind, target=str(target))

    def page(self, template: str, status: int = 200, **context: Any) -> Response:
        """The page."""
        shown = {"view": self, "actions": self.request.app.state.actions, "now": dt.datetime.now(dt.UTC), **context}
        return _templates.TemplateResponse(self.request, template, shown, status_code=status)


def csrf_of(token: str) -> str:
    """What a form must carry: only a page made for the holder of the token has it."""
    return hmac.new(token.encode(), b"pgtasker form", hashlib.sha256).hexdigest()


# ------------------------------------------------------------------------------------------------------------ pages


async def overview(view: View) -> Response:
    """What is going on."""
    phases = await view.rows(queries.PHASES)
    breakers = await view.client.breakers()
    by_phase: dict[str, int] = {}
    by_namespace: dict[str, dict[str, int]] = {}
    for row in await view.rows(queries.COUNTS):
        by_phase[row["phase"]] = by_phase.get(row["phase"], 0) + row["tasks"]
        space = by_namespace.setdefault(row["namespace"], {})
        space[row["phase"]] = space.get(row["phase"], 0) + row["tasks"]
    return view.page(
        "overview.html",
        phases=[{**row, "tasks": by_phase[row["phase"]]} for row in phases if row["phase"] in by_phase],
        namespaces=sorted(by_namespace.items()),
        paused=set(await view.rows(queries.PAUSED)),
        order=[row["phase"] for row in phases],
        chart=_chart(await view.rows(queries.THROUGHPUT)),
        queues=await view.rows(queries.QUEUES),
        waits=await view.rows(queries.WAITS),
        workers=await view.rows(queries.WORKER_PHASES),
        breakers=[breaker for breaker in breakers if breaker.phase != "closed"],
        blocked=(await view.client.find_tasks(phase="blocked", limit=6)).tasks,
        failed=(await view.client.find_tasks(phase="failed", limit=6)).tasks,
    )


def _chart(minutes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bars of results a minute: geometry in a box of 600 by 120."""
    highest = max((row["succeeded"] + row["failed"] for row in minutes), default=0) or 1
    wide = 600 / max(len(minutes), 1)
    bars = []
    for index, row in enumerate(minutes):
        well, badly = row["succeeded"] / highest * 112, row["failed"] / highest * 112
        bars.append(
            {
                "x": round(index * wide + 1, 2),
                "width": round(wide - 2, 2),
                "well": round(well, 2),
                "badly": round(badly, 2),
                "top": round(120 - well - badly, 2),
                **row,
            }
        )
    # the running minute is not over, so the rate is that of the one before
    last = minutes[-2] if len(minutes) > 1 else {"succeeded": 0, "failed": 0}
    return {
        "bars": bars,
        "highest": highest if any(row["succeeded"] + row["failed"] for row in minutes) else 0,
        "succeeded": sum(row["succeeded"] for row in minutes),
        "failed": sum(row["failed"] for row in minutes),
        "rate": last["succeeded"] + last["failed"],
        "minutes": len(minutes),
    }


async def tasks(view: View) -> Response:
    """Tasks, page by page."""
    filters = {name: view.text(name) for name in ("namespace", "name", "state", "phase")}
    before = view.text("before")
    page = await view.client.find_tasks(**filters, before=before, limit=PAGE)  # type: ignore[arg-type]
    kept = {name: value for name, value in filters.items() if value}
    return view.page(
        "tasks.html",
        page=page,
        filters=filters,
        before=before,
        namespaces=await view.rows(queries.NAMESPACES),
        phases=[row for row in await view.rows(queries.PHASES) if row["applies_to"] in ("any", "task")],
        newest="?" + urlencode(kept),
        older="?" + urlencode({**kept, "before": str(page.next_before)}) if page.next_before else None,
    )


async def task(view: View) -> Response:
    """One task: why it is where it is, and its graph, steps, times, log or audit."""
    task_uuid = view.uuid("task_uuid")
    shown = view.request.query_params.get("view", "graph")
    if shown not in _TASK_VIEWS:
        raise HTTPException(404)
    found = await view.client.task_status(task_uuid)
    context = {
        "task": found,
        "shown": shown,
        "explanation": await view.client.explain_task(task_uuid),
        "phases": await view.rows(queries.STEP_PHASES, task_uuid=task_uuid),
        "order": [row["phase"] for row in await view.rows(queries.PHASES)],
        "commands": await view.commands("task", task_uuid),
        "children": await view.rows(queries.CHILDREN, task_uuid=task_uuid),
        "revision": (await view.rows(queries.REVISION, task_uuid=task_uuid))[0],
    }
    return view.page("task.html", **context, **await _TASK_VIEWS[shown](view, task_uuid))


async def _graph(view: View, task_uuid: UUID) -> dict[str, Any]:
    steps = await view.rows(queries.GRAPH_STEPS, task_uuid=task_uuid)
    found = await view.rows(queries.GRAPH_EDGES, task_uuid=task_uuid)
    edges = [(row["from_step_uuid"], row["to_step_uuid"]) for row in found]
    if len(steps) <= drawing.WHOLE:
        graph: Any = drawing.draw([step["workflow_step_uuid"] for step in steps], edges)
        return {"graph": graph, "steps": {step["workflow_step_uuid"]: step for step in steps}, "groups": None}
    groups, joined, bands = drawing.fold(steps, edges)
    return {"graph": drawing.draw(list(groups), joined, bands), "groups": groups, "steps": None}


async def _steps(view: View, task_uuid: UUID) -> dict[str, Any]:
    after = view.number("after", 0, 2**31 - 1)
    wanted = {"phase": view.text("phase"), "name": view.text("name")}
    rows = await view.rows(queries.STEPS, task_uuid=task_uuid, after=after, limit=STEPS_A_PAGE, **wanted)
    kept = {"view": "steps", **{name: value for name, value in wanted.items() if value}}
    return {
        "rows": rows,
        "wanted": wanted,
        "after": after,
        "first": "?" + urlencode(kept),
        "next": "?" + urlencode({**kept, "after": rows[-1]["ordinal"]}) if len(rows) == STEPS_A_PAGE else None,
    }


async def _timeline(view: View, task_uuid: UUID) -> dict[str, Any]:
    after = view.number("after", 0, 2**31 - 1)
    spans = await view.rows(queries.SPANS, task_uuid=task_uuid, after=after, limit=SPANS_A_PAGE)
    begin = min((span["from_at"] for span in spans), default=None)
    end = max((span["until_at"] or span["from_at"] for span in spans), default=None)
    whole = (end - begin).total_seconds() if begin and end else 0.0
    scale = 1000 / (whole or 1)
    lanes: dict[UUID, dict[str, Any]] = {}
    for span in spans:
        lane = lanes.setdefault(span["workflow_step_uuid"], {**span, "bars": []})
        x = (span["from_at"] - begin).total_seconds()
        took = ((span["until_at"] or span["from_at"]) - span["from_at"]).total_seconds()
        lane["bars"].append({**span, "took": took, "x": round(scale * x, 2), "width": round(max(scale * took, 2), 2)})
    more = len(lanes) == SPANS_A_PAGE
    return {
        "lanes": list(lanes.values()),
        "begin": begin,
        "end": end,
        "ticks": _ticks(whole),
        "after": after,
        "next": "?" + urlencode({"view": "timeline", "after": spans[-1]["ordinal"]}) if more else None,
    }


def _ticks(seconds: float) -> list[dict[str, Any]]:
    """Round times along an axis of 1000."""
    if seconds <= 0:
        return []
    steps = [10.0**power * factor for power in range(-4, 2) for factor in (1, 2, 5)]
    steps += [minutes * 60.0 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)]
    steps += [days * 86400.0 for days in (1, 2, 7, 30)]
    step = next((step for step in sorted(steps) if seconds / step <= 8), seconds / 8)
    return [
        {"x": round(1000 * index * step / seconds, 2), "label": duration(dt.timedelta(seconds=index * step))}
        for index in range(int(seconds / step) + 1)
    ]


async def _log(view: View, task_uuid: UUID) -> dict[str, Any]:
    return {"log": await view.rows(queries.TASK_LOG, task_uuid=task_uuid)}


async def _audit(view: View, task_uuid: UUID) -> dict[str, Any]:
    return {"records": (await view.client.get_task_audit_history(task_uuid))[:LOG_A_PAGE]}


async def _data(view: View, task_uuid: UUID) -> dict[str, Any]:
    return {}


_TASK_VIEWS: dict[str, Callable[[View, UUID], Awaitable[dict[str, Any]]]] = {
    "graph": _graph,
    "steps": _steps,
    "timeline": _timeline,
    "log": _log,
    "audit": _audit,
    "data": _data,
}


async def step(view: View) -> Response:
    """One step: attempts, inputs, result or error, and what is around it."""
    step_uuid = view.uuid("step_uuid")
    found = await view.client.step(step_uuid)
    around = await view.rows(queries.NEIGHBOURS, step_uuid=step_uuid)
    checkpoint = await view.rows(queries.CHECKPOINT, step_uuid=step_uuid) if _may_read_contents(view) else []
    return view.page(
        "step.html",
        step=found,
        task=await view.client.task_status(found.task_uuid),
        log=await view.rows(queries.STEP_LOG, step_uuid=step_uuid),
        inputs=await view.rows(queries.INPUTS, step_uuid=step_uuid),
        needs=[row for row in around if row["side"] == "needs"],
        feeds=[row for row in around if row["side"] == "feeds"],
        records=await view.client.get_step_audit_history(found.task_uuid, step_uuid),
        checkpoint=checkpoint[0] if checkpoint else None,
        events=await view.client.allowed_events("step", step_uuid),
        commands=await view.commands("step", step_uuid),
        revision=(await view.rows(queries.REVISION, task_uuid=found.task_uuid))[0],
    )


def _may_read_contents(view: View) -> bool:
    """Checkpoints are granted to operators alone."""
    return view.token.role == "tasker_operator"


async def workers(view: View) -> Response:
    """Workers, the newest first."""
    ended, before = view.text("ended") == "on", view.text("before")
    found = await view.client.workers(ended, before, PAGE)
    kept = {"ended": "on"} if ended else {}
    return view.page(
        "workers.html",
        workers=found,
        ended=ended,
        older="?" + urlencode({**kept, "before": str(found[-1].worker_uuid)}) if len(found) == PAGE else None,
        before=before,
    )


async def worker(view: View) -> Response:
    """One worker: what it holds and what it was."""
    worker_uuid = view.uuid("worker_uuid")
    return view.page(
        "worker.html",
        worker=await view.client.worker(worker_uuid),
        held=await view.rows(queries.HELD_STEPS, worker_uuid=worker_uuid),
        log=await view.rows(queries.WORKER_LOG, worker_uuid=worker_uuid),
        records=await view.client.get_audit_by_worker(worker_uuid, 50),
        commands=await view.commands("worker", worker_uuid),
    )


async def schedules(view: View) -> Response:
    """What creates tasks by the clock."""
    return view.page("schedules.html", schedules=await view.client.schedules(view.text("namespace")))


async def breakers(view: View) -> Response:
    """Circuit breakers and limits."""
    return view.page("breakers.html", breakers=await view.client.breakers(), limits=await view.client.limits())


async def breaker(view: View) -> Response:
    """One circuit breaker."""
    tool = view.request.path_params["tool"]
    return view.page(
        "breaker.html",
        breaker=await view.client.breaker(tool),
        log=await view.rows(queries.BREAKER_LOG, tool=tool),
        commands=await view.commands("circuit_breaker", tool),
    )


async def audit(view: View) -> Response:
    """What auditors ask: who did what, what failed, what was refused."""
    shown = view.request.query_params.get("view", "interventions")
    key, days = view.text("key"), max(1, view.number("days", 7, 366))
    records: list[Any] = []
    actions: list[Any] = []
    refusals: list[Any] = []
    problem = None
    try:
        if shown == "interventions":
            actions = await view.rows(queries.INTERVENTIONS, days=days, limit=LOG_A_PAGE)
        elif shown == "failures":
            actions = await view.rows(queries.FAILURES, days=days, limit=LOG_A_PAGE)
        elif shown == "refusals":
            refusals = await view.rows(queries.REFUSALS, days=days, limit=LOG_A_PAGE)
        elif shown == "person" and key:
            actions = await view.rows(queries.ACTIONS, name=key, days=days, limit=LOG_A_PAGE)
        elif shown == "worker" and key:
            records = await view.client.get_audit_by_worker(key, LOG_A_PAGE)
        elif shown == "correlation" and key:
            records = (await view.client.get_audit_by_correlation_id(key))[:LOG_A_PAGE]
        elif shown not in ("person", "worker", "correlation"):
            raise HTTPException(404)
    except PgtaskerError as error:
        problem = error
    return view.page(
        "audit.html",
        shown=shown,
        key=key,
        days=days,
        records=records,
        log=actions,
        refusals=refusals,
        problem=problem,
        limit=LOG_A_PAGE,
    )


async def lifecycles(view: View) -> Response:
    """All lifecycles, and one of them drawn from its rows."""
    every = await view.rows(queries.LIFECYCLES)
    name = view.request.path_params.get("lifecycle", "tasker.task")
    chosen = next((row for row in every if row["lifecycle"] == name), None)
    if chosen is None:
        raise HTTPException(404)
    states = await view.rows(queries.STATES, lifecycle=name)
    transitions = await view.rows(queries.TRANSITIONS, lifecycle=name)
    # What leads away from nearly everywhere would be drawn over everything else: it is said instead.
    ways = Counter((row["event"], row["to_state"]) for row in transitions)
    common = {way for way, count in ways.items() if count >= max(4, len(states) // 2)}
    loops = {(row["event"], row["to_state"]) for row in transitions if row["from_state"] == row["to_state"]}
    drawn = drawing.draw(
        [row["state"] for row in states],
        [
            (row["from_state"], row["to_state"])
            for row in transitions
            if (row["event"], row["to_state"]) not in common | loops
        ],
    )
    return view.page(
        "lifecycles.html",
        every=every,
        chosen=chosen,
        states={row["state"]: row for row in states},
        transitions=transitions,
        initial=(await view.rows(queries.INITIAL, lifecycle=name))[0],
        graph=drawn,
        common=sorted(common),
    )


async def find(view: View) -> Response:
    """From a key or a name to what it names."""
    asked = view.text("q") or ""
    try:
        key = UUID(asked)
    except ValueError:
        return _to(view.request, "tasks", name=asked) if asked else _to(view.request, "tasks")
    for row in await view.rows(queries.FIND_KEY, key=key):
        if row["kind"] == "correlation":
            return _to(view.request, "audit", view="correlation", key=str(key))
        return RedirectResponse(view.request.url_for(row["kind"], **{f"{row['kind']}_uuid": str(key)}), 303)
    raise NotFound(f"nothing has the key {key}")


def _to(request: Request, page: str, /, **query: str) -> Response:
    return RedirectResponse(f"{request.url_for(page)}?{urlencode(query)}" if query else request.url_for(page), 303)


# ------------------------------------------------------------------------------------------------------------- live


async def stream(view: View) -> Response:
    """Server-sent events: one named ``changed`` whenever the task has moved, or now and then for the overview."""
    given = view.request.path_params.get("task_uuid")
    task_uuid = view.uuid("task_uuid") if given else None

    async def events() -> AsyncGenerator[str]:
        seen = view.request.query_params.get("revision")
        quiet = 0.0
        pause = OVERVIEW_EVERY if task_uuid is None else WATCH_EVERY
        yield "retry: 3000\n\n"
        while not await view.request.is_disconnected():
            if task_uuid is None:
                changed = quiet > 0
            else:
                try:
                    found = (await view.rows(queries.REVISION, task_uuid=task_uuid))[0]
                except (psycopg.Error, PgtaskerError):
                    found = None  # the page stays as it is until the database answers again
                changed = found is not None and str(found) != seen
                seen = seen if found is None else str(found)
            if changed:
                quiet = 0.0
                yield f"event: changed\ndata: {seen}\n\n"
            elif quiet >= KEEP_ALIVE_EVERY:
                quiet = 0.0
                yield ": nothing new\n\n"
            await asyncio.sleep(pause)
            quiet += pause

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


# ---------------------------------------------------------------------------------------------------------- actions


async def act(view: View) -> Response:
    """Carry out a manual action, as the token's role and in its name."""
    request = view.request
    if not request.app.state.actions:
        raise HTTPException(403, "this dashboard only shows; start it with --actions")
    form = dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "the form was not sent from this page")
    if not hmac.compare_digest(form.get("csrf", "").encode(), view.csrf.encode()):
        raise HTTPException(403, "the form is too old; load the page again")
    command, target = form.get("command", ""), form.get("target", "")
    kind = KINDS.get(command.rpartition("_")[2])
    if kind is None:
        raise HTTPException(400, "there is no such action")
    said = form.get("reason", "").strip()
    client = request.app.state.acting.client(view.token)
    try:
        state = await client.attempt_command(
            command, target, said, view.token.name, request_id=f"{view.token.name}/{form.get('request_id', '')}"
        )
    except (PgtaskerError, psycopg.errors.InsufficientPrivilege) as error:
        return _refused(view, command, error)
    if command == "resume_task":
        return RedirectResponse(request.url_for("task", task_uuid=state), 303)
    back = {"circuit_breaker": "breaker"}.get(kind, kind)
    key = "tool" if back == "breaker" else f"{back}_uuid"
    return RedirectResponse(request.url_for(back, **{key: target}), 303)


def _refused(view: View, command: str, error: Exception) -> Response:
    return view.page(
        "error.html",
        status=409,
        title=f"{command.replace('_', ' ')} was refused",
        message=getattr(error, "message", None) or str(error),
        hint=getattr(error, "hint", None),
        code=getattr(error, "sqlstate", None),
    )


# ------------------------------------------------------------------------------------------------------ who is let in


async def sign_in(request: Request) -> Response:
    """Ask for a token and keep it in a cookie; ``?token=`` of the address that the command prints does the same."""
    gate: Gate = request.app.state.gate
    text = request.query_params.get("token")
    if request.method == "POST":
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise HTTPException(403, "the form was not sent from this page")
        text = dict(parse_qsl((await request.body()).decode(errors="replace"))).get("token", "").strip()
    if text is not None and gate.caller(text) is not None:
        answer = RedirectResponse(request.url_for("overview"), 303)
        answer.set_cookie(
            COOKIE,
            text,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
            path=request.scope.get("root_path") or "/",
        )
        return answer
    return _templates.TemplateResponse(
        request, "sign_in.html", {"wrong": text is not None}, status_code=200 if text is None else 401
    )


async def sign_out(view: View) -> Response:
    """Forget the token."""
    answer = RedirectResponse(view.request.url_for("sign_in"), 303)
    answer.delete_cookie(COOKIE, path=view.request.scope.get("root_path") or "/")
    return answer


def _page(path: str, page: Page, methods: Sequence[str] = ("GET",), name: str | None = None) -> Route:
    async def endpoint(request: Request) -> Response:
        gate: Gate = request.app.state.gate
        text = request.cookies.get(COOKIE, "")
        token = gate.caller(text)
        if token is None:
            return RedirectResponse(request.url_for("sign_in"), 303)
        view = View(request, token, text, gate.client(token))
        request.state.view = view
        try:
            return await page(view)
        except (PgtaskerError, psycopg.Error) as error:
            await _learn(view)
            kind = problems.kind_of(error)
            if kind is None:
                raise
            problem = problems.problem_of(kind, error)
            return view.page(
                "error.html",
                status=problem.status,
                title=problem.title.replace("_", " "),
                message=problem.detail,
                hint=problem.hint,
                code=problem.code,
            )

    return Route(path, endpoint, methods=list(methods), name=name or page.__name__)


async def _learn(view: View) -> None:
    with contextlib.suppress(psycopg.Error, PgtaskerError):
        await problems.learn(view.client)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 (what it is registered for)
    says = "There is nothing at this address." if error.status_code == 404 else str(error.detail)
    context = {"title": f"{error.status_code}", "message": says, "hint": None, "code": None}
    return _bare(request, error.status_code, context)


async def _unforeseen(request: Request, error: Exception) -> Response:
    problems.log.error("%s %s", request.method, request.url.path, exc_info=error)
    said = {"title": "500", "message": "Something went wrong; the log knows more.", "hint": None, "code": None}
    return _bare(request, 500, said)


def _bare(request: Request, status: int, context: dict[str, Any]) -> Response:
    view = getattr(request.state, "view", None)
    shown = {"view": view, "actions": False, "now": dt.datetime.now(dt.UTC), **context}
    return _templates.TemplateResponse(request, "error.html", shown, status_code=status)


# --------------------------------------------------------------------------------------------------------- templates


def duration(value: dt.timedelta | float | None, *, rough: bool = False) -> str:
    """A length of time for people: at most two units, or one where it need not be exact."""
    if value is None:
        return ""
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else float(value)
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, unit, smaller, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest and not rough else "")
    return f"{whole} s"


def number(value: int | None) -> str:
    """A number with narrow spaces between thousands, at which no line ends."""
    return "" if value is None else f"{value:,}".replace(",", "\u202f")


def words(value: str) -> str:
    """A name with its underscores as spaces."""
    return value.replace("_", " ")


def pretty(value: Any) -> str:
    """JSON for people, cut where it would not be read any more."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_JSON else f"{text[:MAX_JSON]}\n... {number(len(text) - MAX_JSON)} characters more"


def _moment(value: dt.datetime | None) -> str:
    return "" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _ago(value: dt.datetime | None, now: dt.datetime) -> str:
    return "" if value is None else duration(max(now - value, dt.timedelta(0)), rough=True)


def _make_templates() -> Jinja2Templates:
    # Everything is escaped; trim_blocks keeps the pages readable.
    templates = Jinja2Templates(HERE / "templates")
    environment = templates.env
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters.update(
        duration=duration, number=number, words=words, pretty=pretty, moment=_moment, ago=_ago,
        iso=lambda value: value.isoformat(),
    )  # fmt: skip
    environment.globals.update(version=__version__, new_id=lambda: str(uuid4()))
    return templates


_templates = _make_templates()


# ------------------------------------------------------------------------------------------------------- application


def create_app(gate: Gate, acting: Gate | None = None) -> Starlette:
    """Return the dashboard as an ASGI application.

    Args:
        gate: who is let in, with connections that only read (``Gate(..., read_only=True)``).
        acting: the same tokens with connections that write; None: nothing can be done here.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        yield
        await close(app)

    routes = [
        Route("/sign-in", sign_in, methods=["GET", "POST"], name="sign_in"),
        _page("/sign-out", sign_out, ["POST"]),
        _page("/", overview),
        _page("/tasks", tasks),
        _page("/tasks/{task_uuid}", task),
        _page("/tasks/{task_uuid}/stream", stream, name="task_stream"),
        _page("/stream", stream, name="overview_stream"),
        _page("/steps/{step_uuid}", step),
        _page("/workers", workers),
        _page("/workers/{worker_uuid}", worker),
        _page("/schedules", schedules),
        _page("/breakers", breakers),
        _page("/breakers/{tool:path}", breaker),
        _page("/audit", audit),
        _page("/lifecycles", lifecycles),
        _page("/lifecycles/{lifecycle}", lifecycles, name="lifecycle"),
        _page("/find", find),
        _page("/actions", act, ["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static"), name="static"),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Limits, headers=HEADERS, max_body_bytes=64 * 1024)],
        exception_handlers={HTTPException: _http_error, Exception: _unforeseen},
        lifespan=lifespan,
    )
    app.state.gate = gate
    app.state.acting = acting
    app.state.actions = acting is not None
    return app


async def close(app: Starlette) -> None:
    """Close the connections of a dashboard; its own server does."""
    await app.state.gate.close()
    if app.state.acting is not None:
        await app.state.acting.close()


def beside(app: Starlette) -> ASGIApp:
    """Return a dashboard in a form that can be mounted in another application: its links stay its own."""

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        own = {key: value for key, value in scope.items() if key != "router"}
        await app({**own, "app_root_path": scope["root_path"]}, receive, send)

    return mounted
