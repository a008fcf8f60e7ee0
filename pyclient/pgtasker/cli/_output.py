"""What the commands print: data on stdout, talk on stderr, JSON where it is asked for."""

from __future__ import annotations

import datetime
import decimal
import json
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, Any]

PHASE_STYLES = {
    "running": "blue",
    "succeeded": "green",
    "resolved": "cyan",
    "failed": "red",
    "blocked": "red",
    "reported_failure": "red",
    "waiting_retry": "yellow",
    "cancelled": "yellow",
}
"""Colours by canonical phase; the names of states belong to the vocabularies."""


@cache
def console(*, stderr: bool = False) -> Console:
    """The console of a stream that is a terminal; without one nothing here needs rich."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False, markup=False)


def is_interactive() -> bool:
    """True where live progress can be drawn: stderr is a terminal and JSON was not asked for."""
    return sys.stderr.isatty() and not settings.json


def talk(message: str = "", style: str | None = None) -> None:
    """One line to a person, on stderr."""
    _print(message, style, stderr=True)


def line(text: str = "", style: str | None = None) -> None:
    """One line of data on stdout."""
    _print(text, style, stderr=False)


def heading(text: str) -> None:
    """A heading between blocks of data."""
    line()
    line(text, "bold")


def _print(text: str, style: str | None, *, stderr: bool) -> None:
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        console(stderr=stderr).print(text, style=style, soft_wrap=True)
    else:
        stream.write(text + "\n")


def emit_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, default=json_default, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def answer(record: Row, text: str) -> None:
    """Print what a command did: the record as JSON where that is asked for, else the words."""
    if settings.json:
        emit_json(record)
    else:
        line(text)


def emit_json_line(value: Any) -> None:
    """One JSON object on one line of stdout, flushed: a reader downstream sees it at once."""
    sys.stdout.write(json.dumps(value, default=json_default, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def json_default(value: Any) -> Any:
    """uuid as text, times as ISO 8601, intervals as seconds, numbers as numbers."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def emit_rows(rows: Sequence[Row], columns: Sequence[str], *, empty: str = "nothing found") -> None:
    """Rows as a table of ``columns``, or as a JSON array of all columns; without rows, ``empty`` on stderr."""
    if settings.json:
        emit_json([dict(row) for row in rows])
        return
    if not rows:
        talk(empty)
        return
    if sys.stdout.isatty():
        _draw(columns, rows)
    else:
        _align(columns, rows)


# Columns that are shown in fewer characters than the database's; JSON has the originals.
_COMPUTED: Mapping[str, Callable[[Row], object]] = {
    "steps": lambda row: f"{row['satisfied_steps']}/{row['total_steps']}",
    "attempt": lambda row: f"{row['attempts']}/{row['max_attempts']}",
}

# What a narrow terminal does without, in this order.
_DISPENSABLE = ("description", "workflow_step_uuid", "from_state", "registered_at", "handler", "kind", "queue_name")


def _value(row: Row, column: str) -> Any:
    compute = _COMPUTED.get(column)
    return row.get(column) if compute is None or column in row else compute(row)


def _is_numeric(column: str, rows: Sequence[Row]) -> bool:
    values = [row.get(column) for row in rows]
    numbers = int | float | decimal.Decimal | None
    return column not in _COMPUTED and all(isinstance(v, numbers) and not isinstance(v, bool) for v in values)


def _align(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table without frame, colour or cuts, for files and other programs."""
    lines = [list(columns), *([show(_value(row, column)).replace("\n", " ") for column in columns] for row in rows)]
    layout = [
        (_is_numeric(column, rows), max(len(cells[index]) for cells in lines)) for index, column in enumerate(columns)
    ]
    for cells in lines:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, (right, width) in zip(cells, layout, strict=True)
        )
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _draw(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table in colours for the terminal: times short, no column without values, none that it has no room for."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = {column: [_short(_value(row, column)) for row in rows] for column in columns}
    widths = {column: max(map(len, [column, *shown])) + 2 for column, shown in cells.items() if set(shown) != {"-"}}
    for column in _DISPENSABLE:
        if sum(widths.values()) > console().width:
            widths.pop(column, None)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for column in widths:
        whole = column.endswith(("uuid", "_at", "state")) or column in ("at", "steps", "attempt")
        right = _is_numeric(column, rows)
        table.add_column(column, justify="right" if right else "left", no_wrap=whole, overflow="fold")
    for index, row in enumerate(rows):
        table.add_row(*(Text(cells[column][index], style=style_of(column, row)) for column in widths))
    console().print(table)


def _short(value: Any) -> str:
    """A time of today as time of day, another as a date; anything else as show does."""
    if not isinstance(value, datetime.datetime):
        return show(value)
    local = value.astimezone()
    today = local.date() == datetime.datetime.now().astimezone().date()
    return local.strftime("%H:%M:%S.%f")[:-3] if today else local.strftime("%Y-%m-%d %H:%M")


def emit_record(row: Row, *, skip: Iterable[str] = ()) -> None:
    """One row as 'name  value' lines, or as a JSON object."""
    if settings.json:
        emit_json(dict(row))
        return
    left_out = set(skip)
    shown = {name: show(value, pretty=True) for name, value in row.items() if name not in left_out}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *rest = value.split("\n")
        line(f"{name:<{width}}  {first}", style_of(name, row) or None)
        for more in rest:
            line(f"{'':<{width}}  {more}")


def show(value: Any, *, pretty: bool = False) -> str:
    """A database value as a person reads it: '-' for NULL, times to the millisecond, JSON compact (or indented)."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime.datetime):
        return value.astimezone().isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, (dict, list)):
        if not value:
            return "{}" if isinstance(value, dict) else "[]"
        return json.dumps(value, default=json_default, ensure_ascii=False, indent=2 if pretty else None)
    return str(value)


def style_of(column: str, row: Row) -> str:
    """The colour of a cell: a state's by its row's phase, a result's by its success."""
    if column == "success":
        return "" if row.get(column) is None else "green" if row[column] else "red"
    return PHASE_STYLES.get(str(row.get("phase")), "") if column in ("state", "phase") else ""
