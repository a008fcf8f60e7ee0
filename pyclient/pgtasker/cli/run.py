"""``pgtasker run``: drive workflow files to their end with worker processes of its own."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal
from uuid import UUID

from cyclopts import Parameter

from pgtasker import graphs
from pgtasker.cli import _output as output
from pgtasker.cli import _verify
from pgtasker.cli._arguments import Flag, WorkflowFile, json_object, load_files, requested_by
from pgtasker.cli._database import Database, database
from pgtasker.cli._errors import OK, REFUSED, CommandError, usage_error
from pgtasker.cli._progress import follow, is_over
from pgtasker.cli._settings import settings
from pgtasker.cli._workers import WorkerProcesses
from pgtasker.cli.task import SUCCEEDED_PHASES, ad_hoc, print_explanation

BUILT_IN_TARGET = "pgtasker.cli.handlers:worker"
DEFAULT_NAMESPACE = "run"
_FAILED_SHOWN = 10


def run(
    *files: WorkflowFile,
    workers: Annotated[int, Parameter(name=["--workers", "-n"], help="Worker processes.")] = 2,
    concurrency: Annotated[int, Parameter(help="Steps at once in each process.")] = 16,
    speedup: Annotated[
        float | None, Parameter(help="Divides every 'sleep' (the run times of a trace); 0 or inf: no sleep.")
    ] = None,
    handlers: Annotated[
        str | None, Parameter(help="module:worker with handlers of your own, besides the built-in ones.")
    ] = None,
    namespace: Annotated[str | None, Parameter(help="Namespace to run in; the file's own, else 'run'.")] = None,
    context: Annotated[str | None, Parameter(help="JSON object the handlers read, or @FILE.")] = None,
    timeout: Annotated[float | None, Parameter(help="Give up (and cancel the task) after this many seconds.")] = None,
    verify: Annotated[bool, Flag] = False,
    format_: Annotated[
        Literal["text", "markdown"], Parameter(name="--format", help="markdown: one table of all files.")
    ] = "text",
) -> int:
    """Run workflow files to their end, one after the other, and check each in the database.

    Built-in handlers: sleep, noop, echo, shell. --verify also proves from the log that every edge was respected, and
    counts audit rows. With --json one object a line for each file. Exit code 0 when every task completed and nothing
    was found, else 1.
    """
    loaded = load_files(files)
    if workers < 1 or concurrency < 1:
        raise usage_error("--workers and --concurrency take numbers from 1 on")
    if speedup is not None and not speedup >= 0:
        raise usage_error("--speedup takes a number from 0 on")
    target, environment = _handlers(loaded, handlers)
    task_context = json_object(context, "--context")
    if speedup is not None:
        # JSON has no infinity; the handler takes 0 for it.
        task_context["speedup"] = 0 if math.isinf(speedup) else speedup

    summaries: list[dict[str, Any]] = []
    with database() as db:
        for home, group in _by_namespace(loaded, namespace).items():
            db.client.ensure_namespace(home)
            with WorkerProcesses(
                target, workers, dsn=db.dsn, namespace=home, concurrency=concurrency, environment=environment
            ) as pool:
                pool.wait_until_registered(db)
                for each in group:
                    summary = _run_one(db, pool, each, home, task_context, timeout, verify)
                    summaries.append(summary)
                    if settings.json:
                        output.emit_json_line(summary)
                    elif format_ == "text":
                        _print_summary(db, summary)
    if format_ == "markdown" and not settings.json:
        _print_markdown(summaries)
    return OK if all(summary["ok"] for summary in summaries) else REFUSED


def _handlers(loaded: list[graphs.GraphFile], user_target: str | None) -> tuple[str, dict[str, str]]:
    """The workers' target and environment; refuses steps that no handler would take, before anything is created."""
    from pgtasker.cli.handlers import BUILT_IN, USER_WORKER_VARIABLE
    from pgtasker.worker import load_worker

    if user_target is not None:
        try:
            load_worker(user_target)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise usage_error(
                f"cannot load {user_target}: {error}", "--handlers takes module:attribute of a pgtasker.Worker"
            ) from error
        return BUILT_IN_TARGET, {USER_WORKER_VARIABLE: user_target}
    for each in loaded:
        if unknown := sorted(each.handlers - set(BUILT_IN)):
            raise usage_error(
                f"{each.source}: no handler named {', '.join(unknown)}",
                f"built in are {', '.join(BUILT_IN)}; bring your own with --handlers module:worker",
            )
    return BUILT_IN_TARGET, {USER_WORKER_VARIABLE: ""}


def _by_namespace(loaded: list[graphs.GraphFile], namespace: str | None) -> dict[str, list[graphs.GraphFile]]:
    groups: dict[str, list[graphs.GraphFile]] = {}
    for each in loaded:
        groups.setdefault(namespace or str(each.graph.get("namespace") or DEFAULT_NAMESPACE), []).append(each)
    return groups


def _run_one(
    db: Database,
    pool: WorkerProcesses,
    file: graphs.GraphFile,
    namespace: str,
    context: dict[str, Any],
    timeout: float | None,
    verify: bool,
) -> dict[str, Any]:
    me = requested_by(None)
    if file.version is None:
        task_uuid = db.client.create_task_from_graph(ad_hoc(file.graph), context, namespace=namespace, requested_by=me)
    else:
        db.client.register_template({**file.graph, "namespace": namespace})
        task_uuid = db.client.create_task(
            file.name, context, namespace=namespace, version=file.version, requested_by=me
        )
    if not settings.json:
        output.talk(f"{file.name}: task {task_uuid}")
    try:
        overview = follow(db, task_uuid, look_after=pool.require_alive, timeout=timeout)
    except KeyboardInterrupt:
        db.client.cancel_task(task_uuid, "interrupted", me)
        output.talk(f"interrupted: task {task_uuid} is cancelled")
        raise
    if not is_over(overview):
        db.client.cancel_task(task_uuid, f"not done after {timeout:g} s", me)
        raise CommandError(f"{file.name} was {overview['state']} after {timeout:g} s; task {task_uuid} is cancelled")
    return _summary(db, file, overview, verify)


def _summary(db: Database, file: graphs.GraphFile, overview: dict[str, Any], verify: bool) -> dict[str, Any]:
    task_uuid: UUID = overview["task_uuid"]
    seconds = ((overview["completed_at"] or overview["state_since"]) - overview["created_at"]).total_seconds()
    findings = [dataclasses.asdict(finding) for finding in db.client.check_consistency(task_uuid)]
    summary: dict[str, Any] = {
        "file": file.source,
        "name": overview["name"],
        "task_uuid": task_uuid,
        "state": overview["state"],
        "steps": overview["total_steps"],
        "satisfied_steps": overview["satisfied_steps"],
        "failed_steps": overview["failed_steps"],
        "edges": _verify.edge_count(db, task_uuid),
        "seconds": round(seconds, 3),
        "steps_per_second": round(overview["total_steps"] / seconds, 1) if seconds > 0 else None,
        "findings": findings,
    }
    good = overview["phase"] in SUCCEEDED_PHASES and not findings
    if verify:
        violations = _verify.order_violations(db, task_uuid)
        summary["order_violations"] = violations
        summary["audit_rows"] = _verify.audit_row_count(db, task_uuid)
        good = good and not violations
    if overview["failed_steps"]:
        summary["failures"] = db.rows(
            """
            select name as step, state, attempts, last_error as error from tasker.step_overview
             where task_uuid = %s and is_terminal and last_error is not null and phase = 'failed'
             order by state_since, name limit %s
            """,
            (task_uuid, _FAILED_SHOWN),
        )
    return {**summary, "ok": good}


def _print_summary(db: Database, summary: dict[str, Any]) -> None:
    output.line(f"{summary['name']}: {summary['state']}", "green" if summary["ok"] else "red")
    findings = summary["findings"]
    shown = {
        "task": summary["task_uuid"],
        "steps": f"{summary['satisfied_steps']} of {summary['steps']}",
        "edges": summary["edges"],
        "seconds": summary["seconds"],
        "steps/s": summary["steps_per_second"],
        "check": f"{len(findings)} findings" if findings else "nothing found",
    }
    if "order_violations" in summary:
        shown["order"] = (
            f"{len(summary['order_violations'])} edges not respected"
            if summary["order_violations"]
            else "every edge respected"
        )
        shown["audit rows"] = summary["audit_rows"]
    for name, value in shown.items():
        output.line(f"  {name:<10}  {value}")
    for failure in summary.get("failures", []):
        output.line(
            f"  failed: {failure['step']} after {failure['attempts']} attempts: {_error_text(failure['error'])}", "red"
        )
    if findings:
        from pgtasker.cli.operate import FINDING_COLUMNS

        output.emit_rows(findings, FINDING_COLUMNS)
    if not summary["ok"]:
        print_explanation(db.client.explain_task(summary["task_uuid"]))


def _error_text(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return output.show(message if message is not None else error)


def _print_markdown(summaries: list[dict[str, Any]]) -> None:
    verified = all("order_violations" in summary for summary in summaries)
    head = [
        "workflow",
        "state",
        "steps",
        "edges",
        "seconds",
        "steps/s",
        *(["edges broken", "audit rows"] if verified else []),
        "findings",
    ]
    output.line("| " + " | ".join(head) + " |")
    output.line("|" + "|".join("---" if name in ("workflow", "state") else "---:" for name in head) + "|")
    total_steps = total_edges = 0
    for summary in summaries:
        total_steps += summary["steps"]
        total_edges += summary["edges"]
        cells = [summary[name] for name in ("name", "state", "steps", "edges", "seconds", "steps_per_second")]
        if verified:
            cells += [len(summary["order_violations"]), summary["audit_rows"]]
        output.line("| " + " | ".join(output.show(cell) for cell in [*cells, len(summary["findings"])]) + " |")
    output.line(f"| **{len(summaries)} workflows** | | {total_steps} | {total_edges} |" + " |" * (len(head) - 4))
