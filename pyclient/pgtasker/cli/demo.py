"""``pgtasker demo``: a real workflow on this machine, from an empty folder to an audit trail."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli import audit as audit_command
from pgtasker.cli._arguments import Flag, requested_by
from pgtasker.cli._database import Database, database, server_name
from pgtasker.cli._errors import OK, REFUSED, CommandError
from pgtasker.cli._progress import follow, is_over
from pgtasker.cli._settings import settings
from pgtasker.cli._workers import WorkerProcesses
from pgtasker.cli.task import SUCCEEDED_PHASES, TIMELINE_COLUMNS, print_explanation, timeline_rows
from pgtasker.demo.workflow import NAMESPACE, build_graph

TARGET = "pgtasker.demo:worker"
_WORKERS = 2
_TIMEOUT_SECONDS = 120.0
_AUDIT_SHOWN = 40


def demo(
    *,
    print_graph: Annotated[
        bool, Parameter(negative="", help="Only print the graph, as JSON; `pgtasker run` takes it.")
    ] = False,
    full: Annotated[bool, Flag] = False,
) -> int:
    """Run a small data pipeline over files of this machine with two worker processes, and show what was recorded.

    32 steps: a fan-out of 24, a diamond, two shell tools, and one step that really fails twice and is retried.
    --full prints the whole timeline instead of the task's own and that step's. Can be run again and again.
    """
    if print_graph:
        output.emit_json(build_graph())
        return OK
    talk = (lambda *_: None) if settings.json else output.talk
    talk("pgtasker demo", "bold")
    with database() as db:
        talk(f"  server    {server_name(db)}")
        talk(f"  schema    tasker {db.client.schema_version()}")
        db.client.ensure_namespace(NAMESPACE, "pgtasker demo")
        graph = build_graph()
        folder = tempfile.mkdtemp(prefix="pgtasker-demo-")
        with WorkerProcesses(TARGET, _WORKERS, dsn=db.dsn, namespace=NAMESPACE) as pool:
            talk(f"  workers   {_WORKERS} processes: pgtasker worker run {TARGET} -n {_WORKERS}")
            pool.wait_until_registered(db)
            task_uuid = db.client.create_task_from_graph(
                graph, {"folder": folder}, namespace=NAMESPACE, tags={"demo": "yes"}, requested_by=requested_by(None)
            )
            talk(f"  workflow  {graph['name']}, {len(graph['steps'])} steps, task {task_uuid}")
            talk("  one step, 'outbox', fails twice for real and is retried\n")
            overview = _follow(db, pool, task_uuid)
        return _show(db, task_uuid, overview, full)


def _follow(db: Database, pool: WorkerProcesses, task_uuid: UUID) -> dict[str, Any]:
    try:
        overview = follow(db, task_uuid, look_after=pool.require_alive, timeout=_TIMEOUT_SECONDS)
    except KeyboardInterrupt:
        db.client.cancel_task(task_uuid, "interrupted", requested_by(None))
        output.talk(f"interrupted: task {task_uuid} is cancelled")
        raise
    if not is_over(overview):
        raise CommandError(
            f"the demo's task is still {overview['state']} after {_TIMEOUT_SECONDS:g} s",
            hint=f"{invocation(db)} task explain {task_uuid}",
        )
    return overview


def _show(db: Database, task_uuid: UUID, overview: dict[str, Any], full: bool) -> int:
    ok = overview["phase"] in SUCCEEDED_PHASES
    report = db.value("select result from tasker.step_overview where task_uuid = %s and name = 'report'", (task_uuid,))
    timeline = timeline_rows(db, task_uuid)
    audit = [dataclasses.asdict(record) for record in reversed(db.client.get_task_audit_history(task_uuid))]
    if settings.json:
        output.emit_json({"task": overview, "report": report, "timeline": timeline, "audit": audit})
        return OK if ok else REFUSED
    if not ok:
        print_explanation(db.client.explain_task(task_uuid))
        return REFUSED

    output.heading("report")
    output.line(report["text"])
    shown = timeline if full else [row for row in timeline if row["kind"] == "task" or row["name"] == "outbox"]
    output.heading(
        f"timeline (all {len(timeline)} entries)"
        if full
        else f"timeline (the task's own and step 'outbox': {len(shown)} of {len(timeline)} entries)"
    )
    output.emit_rows([{**row, "at": _clock(row["at"])} for row in shown], TIMELINE_COLUMNS)
    output.heading(f"audit trail ({len(audit)} results, oldest first)")
    columns = [name for name in audit_command.COLUMNS if name != "workflow_step_uuid"]
    output.emit_rows([{**row, "recorded_at": _clock(row["recorded_at"])} for row in audit[:_AUDIT_SHOWN]], columns)
    output.heading("where to go next")
    for command, purpose in _next_commands(db, task_uuid):
        output.line(f"  {command:<{_command_width(db, task_uuid)}}  # {purpose}")
    output.talk(f"\nthe report was also written to {report['path']}")
    return OK


def _clock(at: Any) -> str:
    return str(at.astimezone().strftime("%H:%M:%S.%f")[:-3])


def _next_commands(db: Database, task_uuid: UUID) -> list[tuple[str, str]]:
    program = invocation(db)
    return [
        (f"{program} task show {task_uuid}", "the task and its steps"),
        (f"{program} task timeline {task_uuid}", "all that happened, in order"),
        (f"{program} step show {task_uuid}/outbox", "the step that failed twice"),
        (f"{program} audit task {task_uuid} --json", "who produced which result"),
        (f"{program} lifecycle show tasker.workflow_step", "the rules a step follows"),
        (f"{program} check", "recompute everything; must find nothing"),
        (f"{program} db psql -- -c 'table tasker.task_overview'", "plain SQL"),
        (f"{program} demo --print-graph > demo.json", "the workflow as a file, to change and ..."),
        (f"{program} run demo.json --handlers {TARGET}", "... to run"),
    ]


def _command_width(db: Database, task_uuid: UUID) -> int:
    return max(len(command) for command, _ in _next_commands(db, task_uuid))


def invocation(db: Database) -> str:
    """How this program was called, so that a printed command can be pasted."""
    called = sys.argv[0]
    if Path(called).name == "pgtasker" and shutil.which("pgtasker") == str(Path(called).absolute()):
        program = "pgtasker"
    elif Path(called).name == "pgtasker":
        program = shlex.quote(called)
    else:
        program = f"{shlex.quote(sys.executable)} -m pgtasker.cli"
    if settings.dsn is None:
        return program
    from psycopg.conninfo import conninfo_to_dict

    # A password does not belong on a screen.
    secret = "password" in conninfo_to_dict(settings.dsn)
    return f"{program} --dsn {'DSN' if secret else shlex.quote(settings.dsn)}"
