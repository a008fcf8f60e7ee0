"""``pgtasker check``, ``recover``, ``tick``, ``orchestrate``: what a DBA or a cron job runs."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import RequestedBy, requested_by
from pgtasker.cli._database import database, optional_uuid
from pgtasker.cli._errors import OK, REFUSED, usage_error

RECOVERY_COLUMNS = ("problem", "entity_kind", "entity_uuid", "action", "done")
FINDING_COLUMNS = ("finding", "entity_kind", "entity_uuid", "detail", "proposed_call")


def check(
    *,
    task: Annotated[str | None, Parameter(help="Only this task (its uuid).")] = None,
    unfinished: Annotated[
        bool, Parameter(negative="", help="Only what has not ended: reads no log of the rest.")
    ] = False,
) -> int:
    """Recompute every counter and state from the logs and compare: nothing found is exit code 0, anything is 1."""
    with database() as db:
        findings = db.client.check_consistency(optional_uuid(task, "--task"), unfinished_only=unfinished)
    output.emit_rows(
        [dataclasses.asdict(finding) for finding in findings], FINDING_COLUMNS, empty="nothing found: consistent"
    )
    return REFUSED if findings else OK


def recover(
    *,
    yes: Annotated[bool, Parameter(negative="", help="Mend it; else only say what would be done.")] = False,
    task: Annotated[str | None, Parameter(help="Only this task (its uuid).")] = None,
    reason: Annotated[str | None, Parameter(name=["--reason", "-r"], help="Why; needed with --yes.")] = None,
    by: RequestedBy = None,
) -> int:
    """Find work that nothing would move any more: lost messages, claims, timers; and with --yes mend it.

    Exit code 1 where something is left to be mended.
    """
    if yes and not reason:
        raise usage_error("--yes takes a --reason, which is kept in the log")
    with database() as db:
        found = db.client.recover(not yes, optional_uuid(task, "--task"), reason, requested_by(by) if yes else None)
    output.emit_rows([dataclasses.asdict(row) for row in found], RECOVERY_COLUMNS, empty="nothing to recover")
    if found and not yes:
        output.talk("nothing was changed; to mend it: pgtasker recover --yes --reason TEXT")
    return OK if all(row.done for row in found) else REFUSED


def tick(*, limit: Annotated[int, Parameter(help="Most timers to fire.")] = 1000) -> int:
    """Fire due timers once: backoffs, timeouts, expired leases. Workers do this themselves; a cron job may."""
    with database() as db:
        output.emit_record(dataclasses.asdict(db.client.tick(limit)))
    return OK


def orchestrate(
    *,
    limit: Annotated[int, Parameter(help="Most results to drain in one call.")] = 100,
    once: Annotated[bool, Parameter(negative="", help="One call only; else until nothing is left.")] = False,
) -> int:
    """Drain reported results and move their tasks. Workers do this themselves; a cron job may."""
    totals: dict[str, int] = {}
    with database() as db:
        while True:
            counts = {
                name: value or 0 for name, value in dataclasses.asdict(db.client.orchestrate(limit=limit)).items()
            }
            totals = {name: totals.get(name, 0) + value for name, value in counts.items()}
            if once or not any(counts.values()):
                break
    output.emit_record(totals)
    return OK
