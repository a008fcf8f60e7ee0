"""What seed 004 prints, read from the document itself: diagrams, lists and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOCUMENT = "seeds/004_84014db39537070f.txt"


@dataclass(frozen=True)
class Edge:
    """An arrow of a diagram, in the engine's snake_case. `note` is what stands in brackets or parentheses."""

    from_state: str
    event: str
    to_state: str
    note: str

    @property
    def is_legacy(self) -> bool:
        return "legacy" in self.note.lower()


@dataclass(frozen=True)
class Column:
    """A column of a printed CREATE TABLE."""

    name: str
    type: str
    not_null: bool
    default: str | None


def snake(name: str) -> str:
    """CamelCase as the seed prints it -> snake_case as the engine stores it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def text(shared: Path) -> str:
    return (shared / DOCUMENT).read_text()


def section(shared: Path, heading: str, until: str) -> str:
    """The part of the document from a heading (alone on its line) to another one."""
    body = text(shared)
    start = re.search(rf"^{re.escape(heading)}$", body, re.M)
    assert start, heading
    end = re.search(rf"^{re.escape(until)}$", body[start.end() :], re.M)
    assert end, until
    return body[start.end() : start.end() + end.start()]


def diagrams(shared: Path) -> dict[str, list[str]]:
    """Lifecycle -> the lines of its diagram: the first one is the task's, the second one the step's."""
    found = re.findall(r"^stateDiagram-v2\n(.*?--> \[\*\]\n)\n(?=\S)", text(shared), re.M | re.S)
    assert len(found) == 2
    task, step = (diagram.splitlines() for diagram in found)
    return {"tasker.task": task, "tasker.workflow_step": step}


def edges(shared: Path, lifecycle: str) -> set[Edge]:
    """The arrows between states. A comment `%% Legacy...` covers the arrows under it, up to the next comment."""
    found = set()
    comment = ""
    for line in diagrams(shared)[lifecycle]:
        stripped = line.strip()
        if stripped.startswith("%%"):
            comment = stripped
        match = re.fullmatch(r"(\w+) --> (\w+) : (\w+)(.*)", stripped)
        if match:
            start, end, event, rest = match.groups()
            legacy = "legacy" if comment.startswith("%% Legacy") else ""
            found.add(Edge(snake(start), snake(event), snake(end), f"{rest} {legacy}".strip()))
    return found


def initial_state(shared: Path, lifecycle: str) -> str:
    (state,) = (
        match.group(1) for line in diagrams(shared)[lifecycle] if (match := re.fullmatch(r"\s*\[\*\] --> (\w+)", line))
    )
    return snake(state)


def final_states(shared: Path, lifecycle: str) -> set[str]:
    return {
        snake(match.group(1))
        for line in diagrams(shared)[lifecycle]
        if (match := re.fullmatch(r"\s*(\w+) --> \[\*\]", line))
    }


def bullets(part: str) -> dict[str, str]:
    """`• Name(args): description` lines -> name in snake_case: description, in order."""
    found = re.findall(r"^\s*•\s+(\w+)(?:\([^)]*\))*: (.+)$", part, re.M)
    return {snake(name): description.strip() for name, description in found}


def names_after(shared: Path, label: str) -> list[str]:
    """`Label: A, B, C` up to the next capitalised label or the line's end."""
    match = re.search(rf"{re.escape(label)}: ([A-Za-z, ]+?)(?= [A-Z]\w* States:|$)", text(shared), re.M)
    assert match, label
    return [snake(name.strip()) for name in match.group(1).split(",")]


def table(shared: Path, name: str) -> list[Column]:
    """The columns of a printed CREATE TABLE."""
    match = re.search(rf"CREATE TABLE {re.escape(name)} \((.*?)^\);", text(shared), re.M | re.S)
    assert match, name
    columns = []
    for raw in match.group(1).splitlines():
        line = raw.split("--", 1)[0].strip().rstrip(",")
        if not line or line.startswith("UNIQUE"):
            continue
        parts = re.match(r"(\w+) (\w+)(.*)", line)
        assert parts, line
        column, kind, rest = parts.groups()
        default = re.search(r"DEFAULT (\S+)", rest)
        columns.append(
            Column(column, kind, "NOT NULL" in rest or "PRIMARY KEY" in rest, default.group(1) if default else None)
        )
    return columns
