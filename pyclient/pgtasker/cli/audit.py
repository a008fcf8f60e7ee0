"""``pgtasker audit``: who produced which result; seals over all evidence, and what does not fit them."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Reason, RequestedBy, Step, TaskUuid, requested_by
from pgtasker.cli._database import database, parse_uuid
from pgtasker.cli._errors import OK, REFUSED, CommandError, usage_error
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import LiteralString

    from pgtasker import AuditRecord
    from pgtasker.cli._database import Database

app = App(name="audit", help="Read the audit trail, seal it and verify it.", result_action="return_value")

COLUMNS = ("recorded_at", "step_name", "success", "execution_time_ms", "worker_uuid", "workflow_step_uuid")


@app.command
def task(task: TaskUuid, /) -> int:
    """All results of a task."""
    task_uuid = parse_uuid(task, "list tasks: pgtasker task list")
    with database() as db:
        db.client.task(task_uuid)  # refused here if there is no such task
        return _print(db.client.get_task_audit_history(task_uuid))


@app.command
def step(step: Step, /) -> int:
    """All results of a step: one for every attempt."""
    with database() as db:
        step_uuid = db.step_uuid(step)
        task_uuid = db.value("select task_uuid from tasker.workflow_steps where workflow_step_uuid = %s", (step_uuid,))
        if task_uuid is None:
            raise CommandError(f"there is no step {step}", hint="list a task's steps: pgtasker task steps TASK_UUID")
        return _print(db.client.get_step_audit_history(task_uuid, step_uuid))


@app.command
def worker(worker: Annotated[str, Parameter(name="WORKER", help="The worker's uuid.")], /, *, limit: int = 100) -> int:
    """The latest results of a worker."""
    with database() as db:
        return _print(db.client.get_audit_by_worker(parse_uuid(worker, "list workers: pgtasker worker list"), limit))


@app.command
def correlation(
    correlation: Annotated[str, Parameter(name="CORRELATION", help="The correlation id, a uuid.")], /
) -> int:
    """All results of the tasks that carry a correlation id."""
    with database() as db:
        return _print(db.client.get_audit_by_correlation_id(parse_uuid(correlation, "a correlation id is a uuid")))


@app.command
def seal(
    *,
    limit: Annotated[int, Parameter(help="Rows in one seal, and one transaction.")] = 100_000,
) -> int:
    """Seal what was committed and is not sealed yet. Run it from cron, every minute or hour."""
    made = []
    with database() as db:
        while True:
            sealed = db.row("select * from tasker.seal_audit(%s)", (limit,)) or {}
            if sealed["changes"]:
                made.append({name: value for name, value in sealed.items() if name != "more"})
            if not sealed["more"]:
                break
    output.emit_rows(made, ("seal_number", "changes", "row_count", "digest"), empty="nothing new to seal")
    return OK


@app.command
def verify(
    *,
    digest: Annotated[
        Path | None, Parameter(help="Digests kept outside of the database, as export-digest wrote them.")
    ] = None,
    first_seal: Annotated[int, Parameter(help="Leave out older seals.")] = 1,
) -> int:
    """Compute every seal again and name what was changed, removed or inserted. Exit code 1 if anything was found."""
    lines = [] if digest is None else _digest_lines(digest)
    with database() as db:
        findings = db.rows("select * from tasker.verify_audit(%s)", (first_seal,))
        for line in lines:
            findings += [
                {**found, "log": "seal", "row_uuid": None}
                for found in db.rows("select * from tasker.verify_digest(%s)", (line,))
            ]
        status = db.row(
            "select count(*) as seals, max(total_rows) as rows, max(sealed_at) as sealed_at from tasker.audit_seals"
        )
    output.emit_rows(
        findings, ("finding", "seal_number", "log", "row_uuid", "detail"), empty=_verified(status or {}, len(lines))
    )
    return REFUSED if findings else OK


@app.command(name="export-digest")
def export_digest(
    *,
    out: Annotated[Path | None, Parameter(help="Append it to this file instead of printing it.")] = None,
) -> int:
    """Print the newest digest as one line. Keep it where nobody who can write the database can write."""
    with database() as db:
        line = db.value("select tasker.audit_digest()")
    if line is None:
        raise CommandError("nothing is sealed yet", hint="seal it: pgtasker audit seal")
    if out is None:
        sys.stdout.write(line + "\n")
    else:
        with out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    return OK


Policy = Annotated[str, Parameter(name="POLICY", help="A retention policy.")]
Batch = Annotated[int, Parameter(help="Families of tasks in one transaction.")]


@app.command
def policy(
    policy: Policy,
    /,
    *,
    archive_after: Annotated[str, Parameter(help="How long after its end a task is archived, such as '30 days'.")],
    purge_after: Annotated[str, Parameter(help="How long after its end it is purged, such as '7 years'.")],
    description: Annotated[str, Parameter(help="Which rule of the organisation this follows.")],
    namespace: Annotated[str | None, Parameter(help="Only for tasks of this namespace.")] = None,
) -> int:
    """Set a retention policy. It does nothing by itself: run archive and purge from cron."""
    with database() as db:
        db.row(
            "select tasker.set_retention_policy(%s, %s::interval, %s::interval, %s, %s)",
            (policy, archive_after, purge_after, description, namespace),
        )
    output.talk(f"policy {policy} is set")
    return OK


@app.command
def archive(policy: Policy, /, *, limit: Batch = 100, by: RequestedBy = None) -> int:
    """Move tasks that ended long enough ago out of the way, with their log and audit rows."""
    return _retain("select * from tasker.archive_tasks(%s, %s, %s)", policy, by, limit, "archived")


@app.command
def purge(policy: Policy, /, *, limit: Batch = 100, by: RequestedBy = None) -> int:
    """Remove archived tasks for good; who removed what under which policy stays."""
    return _retain("select * from tasker.purge_archive(%s, %s, %s)", policy, by, limit, "purged")


@app.command
def hold(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None) -> int:
    """Legal hold: the task and its family are neither archived nor purged."""
    _attempt("hold_task", task, reason, by)
    output.talk(f"task {task} is held")
    return OK


@app.command
def release(task: TaskUuid, /, *, reason: Reason, by: RequestedBy = None) -> int:
    """End a legal hold."""
    released = _attempt("release_task", task, reason, by) == "released"
    output.talk(f"task {task} is released" if released else f"task {task} was not held")
    return OK


def _attempt(command: str, task: str, reason: str, by: str | None) -> str:
    task_uuid = parse_uuid(task, "a task is named by its uuid")
    with database() as db:
        return db.client.attempt_command(command, task_uuid, reason, requested_by(by))


def _retain(query: LiteralString, policy: str, by: str | None, limit: int, done: str) -> int:
    tasks = rows = 0
    with database() as db:
        while True:
            batch = db.row(query, (policy, requested_by(by), limit)) or {}
            tasks, rows = tasks + batch["tasks"], rows + batch["rows"]
            if not batch["more"]:
                break
    output.emit_record({done: tasks, "rows": rows})
    return OK


Population = Literal["results", "tasks", "interventions", "refusals"]
Report = Literal[
    "summary", "interventions", "actions", "worker", "correlation", "failures", "completeness", "population", "sample",
    "retention", "access",
]  # fmt: skip

_REPORTS: dict[str, LiteralString] = {
    "summary": "select * from tasker.report_summary(%(since)s, %(until)s, %(verify)s)",
    "interventions": "select * from tasker.report_interventions(%(since)s, %(until)s)",
    "actions": "select * from tasker.report_actions_of(%(of)s, %(since)s, %(until)s)",
    "worker": "select * from tasker.report_worker(%(of)s, %(since)s, %(until)s, %(after_at)s, %(after)s, %(page)s)",
    "correlation": "select * from tasker.report_correlation(%(of)s)",
    "failures": "select * from tasker.report_failures(%(since)s, %(until)s)",
    "completeness": "select * from tasker.report_completeness(%(since)s, %(until)s)",
    "population": (
        "select * from tasker.report_population(%(kind)s, %(since)s, %(until)s, %(after_at)s, %(after)s, %(page)s)"
    ),
    "sample": "select * from tasker.report_sample(%(kind)s, %(since)s, %(until)s, %(size)s, %(seed)s)",
    "retention": "select * from tasker.report_retention(%(since)s, %(until)s)",
    "access": "select * from tasker.access_members",
}
_PAGED = ("worker", "population")
_PAGE = 10_000
_OF = {"actions": "a name or login", "worker": "a worker's uuid", "correlation": "a correlation id"}


@app.command
def report(
    report: Annotated[Report, Parameter(name="REPORT", help="Which report.")] = "summary",
    /,
    *,
    since: Annotated[str, Parameter(name="--from", help="First moment, ISO 8601; a date is its midnight in UTC.")],
    until: Annotated[str, Parameter(name="--to", help="First moment that is not in it any more.")],
    format_: Annotated[Literal["table", "csv", "jsonl"], Parameter(name="--format")] = "table",
    of: Annotated[str | None, Parameter(help="Whose: a name or login, a worker's uuid, a correlation id.")] = None,
    kind: Annotated[Population, Parameter(help="Of which population.")] = "results",
    size: Annotated[int, Parameter(help="Of the sample.")] = 25,
    seed: Annotated[str | None, Parameter(help="Of the sample: the same seed draws it again.")] = None,
    verify: Annotated[bool, Parameter(negative="", help="Compute all seals again for the summary.")] = False,
) -> int:
    """Answer an auditor's question about a period; without a name, print the page that is signed."""
    if report in _OF and of is None:
        raise usage_error(f"whose? this report takes --of, {_OF[report]}")
    if report in ("worker", "correlation") and of is not None:
        parse_uuid(of, f"--of takes {_OF[report]}")
    if report == "sample" and seed is None:
        raise usage_error("a sample takes a --seed, so that it can be drawn again")
    asked = {"since": since, "until": until, "of": of, "kind": kind, "size": size, "seed": seed, "verify": verify}
    with database() as db:
        db.connection.execute("set timezone = 'UTC'")
        # one moment for all pages
        db.connection.execute("begin isolation level repeatable read read only")
        _emit_report(report, _report_rows(db, report, asked), "jsonl" if settings.json else format_)
    return OK


def _report_rows(db: Database, report: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a report; those that may be long page by page."""
    page: list[dict[str, Any]] = []
    while True:
        after = (
            {"after_at": page[-1]["at"], "after": page[-1]["row_uuid"]} if page else {"after_at": None, "after": None}
        )
        page = db.rows(_REPORTS[report], {**asked, **after, "page": _PAGE})
        yield from page
        if report not in _PAGED or len(page) < _PAGE:
            return


def _emit_report(report: str, found: Iterator[dict[str, Any]], format_: str) -> None:
    if format_ == "jsonl":
        for row in found:
            output.emit_json_line(row)
    elif format_ == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for number, row in enumerate(found):
            if number == 0:
                writer.writerow(row)
            writer.writerow([_cell(value) for value in row.values()])
    elif report == "summary":
        _print_summary(list(found))
    else:
        rows = list(found)
        columns = [name for name in (rows[0] if rows else ()) if name not in ("detail", "record")]
        output.emit_rows(rows, columns, empty="nothing in this period")
        output.talk(f"{len(rows):,} rows")


def _cell(value: Any) -> Any:
    """A value in a CSV file: nothing for NULL, JSON for what is not plain, the rest as PostgreSQL says it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=output.json_default, ensure_ascii=False)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _print_summary(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["item"]) for row in rows)
    section = None
    for row in rows:
        if row["section"] != section:
            section = row["section"]
            output.heading(section)
        output.line(f"{row['item']:<{width}}  {output.show(row['value'])}")
    output.heading("signed")
    for who in ("prepared by, date", "reviewed by, date"):
        output.line(f"{who:<{width}}  {'_' * 40}")


def _digest_lines(path: Path) -> list[str]:
    """The lines of a file of digests; an empty file proves nothing and is refused."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"can't read {path}: {error}", "write it: pgtasker audit export-digest --out FILE") from None
    if not lines:
        raise usage_error(f"there is no digest in {path}", "write one: pgtasker audit export-digest --out FILE")
    return lines


def _verified(status: dict[str, object], digests: int) -> str:
    if not status["seals"]:
        return "nothing is sealed yet: pgtasker audit seal"
    kept = f", {digests} kept {'digest fits' if digests == 1 else 'digests fit'}" if digests else ""
    until = output.show(status["sealed_at"])
    return f"{status['seals']:,} seals over {status['rows']:,} rows fit{kept}; the last one was made at {until}"


def _print(records: Iterable[AuditRecord]) -> int:
    output.emit_rows([dataclasses.asdict(record) for record in records], COLUMNS, empty="no result recorded")
    return OK
