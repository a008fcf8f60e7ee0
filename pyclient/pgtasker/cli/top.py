"""``pgtasker top``: what happens now, drawn again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import Database, database, server_name
from pgtasker.cli._errors import OK, usage_error
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from rich.console import RenderableType

Overview = dict[str, Any]
Table = tuple[str, Sequence[str], list[list[str]]]
"""Heading, columns, rows."""


def top(
    *,
    once: Annotated[bool, Parameter(negative="", help="Print once and end; so it is without a terminal.")] = False,
    interval: Annotated[float, Parameter(help="Seconds between two looks.")] = 2.0,
    last: Annotated[str, Parameter(help="Rates are those of so long a time, as an interval.")] = "10 seconds",
) -> int:
    """Show what happens now: tasks and steps by phase, rates, queues, waits, workers, breakers that are not closed.

    Ctrl-C ends it. With --json each look is one object on a line, with --once a document.
    """
    if not interval > 0:
        raise usage_error("--interval takes a number of seconds above 0")
    with database() as db:
        if once or not (sys.stdout.isatty() or settings.json):
            overview = _look(db, last)
            if settings.json:
                output.emit_json(overview)
            else:
                _print(overview, db)
            return OK
        if settings.json:
            while True:
                output.emit_json_line(_look(db, last))
                time.sleep(interval)
        _draw(db, interval, last)
    return OK


def _look(db: Database, last: str) -> Overview:
    overview: Overview = db.value("select tasker.live_overview(%s::interval)", (last,))
    return overview


def _tables(overview: Overview) -> Iterable[Table]:
    """The blocks of the screen; rows of the database as text, decided by nobody here."""
    rates = {(rate["kind"], rate["phase"]): rate["per_second"] for rate in overview["rates"]}
    ordinals = {(row["kind"], row["phase"]): row["ordinal"] for row in (*overview["counts"], *overview["rates"])}
    counts = {(row["kind"], row["phase"]): row["entities"] for row in overview["counts"]}
    for kind in ("task", "step"):
        phases = sorted((ordinal, phase) for (of, phase), ordinal in ordinals.items() if of == kind)
        yield f"{kind}s", ("phase", "now", "entered/s"), [
            [phase, str(counts.get((kind, phase), 0)), output.show(rates.get((kind, phase), 0))] for _, phase in phases
        ]  # fmt: skip
    yield "queues", ("namespace", "requires", "priority", "waiting", "oldest"), [
        [queue["namespace"] or "(results)", output.show(queue["requires"]) if queue["requires"] else "-",
         str(queue["priority"]), str(queue["depth"]), f"{queue['oldest_seconds']} s"]
        for queue in overview["queues"]
    ]  # fmt: skip
    yield "waits", ("for", "name", "namespace", "steps", "oldest"), [
        [wait["waits_for"], wait["name"], wait["namespace"], str(wait["steps"]), f"{wait['oldest_seconds']:.0f} s"]
        for wait in overview["waits"]
    ]  # fmt: skip
    yield "workers", ("name", "state", "held", "last heard of"), [
        [worker["name"], worker["state"], f"{worker['held_steps']}/{worker['capacity']}",
         f"{worker['seconds_since_heartbeat']:.0f} s"]
        for worker in overview["workers"]
    ]  # fmt: skip
    yield (
        "breakers not closed",
        ("tool", "state", "cools until"),
        [[breaker["tool"], breaker["state"], breaker["cools_until"] or "-"] for breaker in overview["breakers"]],
    )


def _summary(overview: Overview) -> str:
    oldest = max((queue["oldest_seconds"] for queue in overview["queues"]), default=0)
    busy = sum(worker["held_steps"] > 0 for worker in overview["workers"])
    past = "; still counting what happened before: tasks and steps are of the past" if overview["catching_up"] else ""
    return (
        f"oldest waiting {oldest} s, {busy} of {len(overview['workers'])} workers busy,"
        f" {overview['overdue_timers']} timers overdue{past}"
    )


def _print(overview: Overview, db: Database) -> None:
    output.line(f"{server_name(db)}: {_summary(overview)}")
    for heading, columns, rows in _tables(overview):
        if rows:
            output.heading(heading)
            output.emit_rows([dict(zip(columns, row, strict=True)) for row in rows], columns)


def _draw(db: Database, interval: float, last: str) -> None:
    from rich.live import Live

    with Live(console=output.console(), screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(_picture(_look(db, last), server_name(db)), refresh=True)
            time.sleep(interval)


def _picture(overview: Overview, name: str) -> RenderableType:
    from rich import box
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    drawn = []
    for heading, columns, rows in _tables(overview):
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for position, column in enumerate(columns):
            table.add_column(column, justify="left" if position == 0 or column == "state" else "right")
        for row in rows[:20]:
            table.add_row(*(Text(cell) for cell in row))
        if rows or heading not in ("waits", "breakers not closed"):
            drawn.append(table)
    return Group(Text(name, style="bold"), Text(_summary(overview)), Text(), Columns(drawn, padding=(0, 4)))
