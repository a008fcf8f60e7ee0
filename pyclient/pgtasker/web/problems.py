"""Refusals as HTTP: RFC 9457 problem details, with the status that ``tasker.error_catalogue`` gives each code."""

from __future__ import annotations

import datetime as dt
import logging
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg.rows import args_row
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from pgtasker._statements import Statement
from pgtasker.errors import PgtaskerError
from pgtasker.web.gate import TokenFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

    from pgtasker import AsyncClient

log = logging.getLogger("pgtasker.web")

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: Literal["about:blank"] = "about:blank"
    title: str = Field(description="The name of the code, or of the status.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, in the caller's words.")
    code: str | None = Field(default=None, description="SQLSTATE: TK409 and its like stand in tasker.error_catalogue.")
    hint: str | None = Field(default=None, description="What would be right.")
    facts: dict[str, Any] = Field(
        default={}, description="The facts; problems lists everything that is wrong with the input."
    )


class StateTransitionResult(Problem):
    """A refused transition: the problem, and the result of seed 003 with the same facts (1.4, 1.5)."""

    model_config = ConfigDict(json_schema_extra={"description": "409: nothing changed."})

    worker_id: str | None = Field(default=None, description="The worker, if it was one.")
    task_uuid: str | None = Field(default=None, description="The task, if it was one.")
    step_uuid: str | None = Field(default=None, description="The step, if it was one.")
    from_state: str | None = Field(default=None, description="The state it is in; null when a key was used twice.")
    to_state: str | None = Field(default=None, description="Where it would have led, if one state only.")
    timestamp: dt.datetime = Field(description="When it was refused.")
    success: Literal[False] = False
    error: str = Field(description="The same as detail.")


class Kind(BaseModel):
    """One row of the catalogue."""

    name: str
    status: int


_CATALOGUE = Statement(
    b"SELECT code, name, http_status FROM tasker.error_catalogue",
    args_row(lambda code, name, status: (code, Kind(name=name, status=status))),
    repeatable=True,
)
# What PostgreSQL itself refuses.
_OWN = {
    "42501": Kind(name="forbidden", status=403),
    "25006": Kind(name="read_only", status=403),
    "57014": Kind(name="timeout", status=504),
}
_UNAVAILABLE = Kind(name="unavailable", status=503)
_BAD_INPUT = Kind(name="invalid_definition", status=400)
# The input cannot be stored: out of range, not well formed, text that PostgreSQL cannot hold.
_DATA_EXCEPTION = "22"
_ENTITY_FIELDS = {"worker": "worker_id", "task": "task_uuid", "step": "step_uuid"}

catalogue: dict[str, Kind] = {}


async def learn(client: AsyncClient) -> None:
    """Read the catalogue, once for each process."""
    if not catalogue:
        catalogue.update(await client._rows(_CATALOGUE))


def kind_of(error: Exception) -> Kind | None:
    """Return status and name for an error; None for one that nobody foresaw."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    if sqlstate in _OWN:
        return _OWN[sqlstate]
    if isinstance(error, PgtaskerError):
        return catalogue.get(sqlstate, _BAD_INPUT if sqlstate == "TK400" else _UNAVAILABLE)
    if sqlstate.startswith(_DATA_EXCEPTION) or (isinstance(error, psycopg.DataError) and not sqlstate):
        return _BAD_INPUT
    return _UNAVAILABLE if isinstance(error, psycopg.OperationalError) else None


def problem_of(kind: Kind, error: Exception) -> Problem:
    """Return the body for an error that was foreseen."""
    if kind is _UNAVAILABLE:
        # Where the server is and why it does not answer is for the log.
        return Problem(title=kind.name, status=kind.status, detail="the database does not answer; try again later")
    if isinstance(error, PgtaskerError):
        problem = Problem(
            title=kind.name,
            status=kind.status,
            detail=error.message,
            code=error.sqlstate,
            hint=error.hint,
            facts=error.detail,
        )
        return problem if kind.status != 409 else _refused(problem)
    diagnosis = getattr(error, "diag", None)
    return Problem(
        title=kind.name,
        status=kind.status,
        detail=(diagnosis and diagnosis.message_primary) or str(error),
        code=getattr(error, "sqlstate", None),
    )


def _refused(problem: Problem) -> StateTransitionResult:
    facts = problem.facts
    entity = _ENTITY_FIELDS.get(str(facts.get("kind")))
    return StateTransitionResult.model_validate(
        {
            **problem.model_dump(),
            **({entity: facts.get("uuid")} if entity else {}),
            "from_state": facts.get("from_state"),
            "to_state": facts.get("to_state"),
            "timestamp": dt.datetime.now(dt.UTC),
            "error": problem.detail,
        }
    )


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response for a problem."""
    return JSONResponse(
        problem.model_dump(mode="json"), status_code=problem.status, headers=headers, media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Make the application answer every error as a problem, and none with a stack trace."""

    async def foreseen(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, PgtaskerError) and not catalogue and (client := getattr(request.state, "client", None)):
            await learn(client)
        kind = kind_of(error)
        if kind is None:
            return await unforeseen(request, error)
        if kind is _UNAVAILABLE:
            log.error("%s %s: %s", request.method, request.url.path, error)
        return answer(problem_of(kind, error))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101 (what it is registered for)
        problems = [
            {"path": ".".join(str(part) for part in item["loc"]), "message": item["msg"]} for item in error.errors()
        ]
        return answer(
            Problem(
                title=_BAD_INPUT.name,
                status=_BAD_INPUT.status,
                detail="; ".join(f"{problem['path']}: {problem['message']}" for problem in problems[:1]),
                code="TK400",
                facts={"problems": problems},
            )
        )

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101
        return answer(
            Problem(
                title=str(error.detail),
                status=error.status_code,
                detail=_PLAIN.get(error.status_code, str(error.detail)),
            ),
            error.headers,
        )

    async def closed(request: Request, error: Exception) -> JSONResponse:
        log.error("no caller is let in: %s", error)
        return answer(Problem(title=_UNAVAILABLE.name, status=503, detail="tokens cannot be read; try again later"))

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s", request.method, request.url.path, exc_info=error)
        return answer(
            Problem(title="internal_error", status=500, detail="something went wrong here; the log knows more")
        )

    app.add_exception_handler(PgtaskerError, foreseen)
    app.add_exception_handler(psycopg.Error, foreseen)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(TokenFileError, closed)
    app.add_exception_handler(Exception, unforeseen)


_PLAIN = {
    401: "a bearer token is needed: Authorization: Bearer TOKEN",
    404: "there is nothing at this address",
    405: "this address does not know that method",
}
