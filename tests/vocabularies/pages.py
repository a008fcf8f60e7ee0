"""What seeds 000 to 003 print, read from the documents themselves: states, terminal flags, edges, triggers.

Seed 000 and 002 draw mermaid diagrams; 001 and 003 print transition tables beside ASCII diagrams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Edge = tuple[str, str, str]
"""(from_state, event, to_state)"""

DOCUMENTS = {
    "000": "seeds/000_f96f9bc638c39ffa.txt",
    "001": "seeds/001_5547a4c362b4dbbc.txt",
    "002": "seeds/002_6e875d2ca7163fd9.txt",
    "003": "seeds/003_edc31e607af02f06.txt",
}


@dataclass(frozen=True)
class Page:
    """One lifecycle as its document prints it."""

    initial: str
    states: dict[str, str]
    """State -> description, in the order of the page; empty where the page has no table of states."""
    terminal: set[str]
    edges: set[Edge]
    notes: dict[Edge, str] = field(default_factory=dict)
    """What stands behind an arrow: a condition in parentheses, or the condition column of a table."""


@cache
def text(shared: Path, seed: str) -> str:
    return (shared / DOCUMENTS[seed]).read_text()


def between(body: str, start: str, end: str) -> str:
    """The text from one line to another one, both given whole."""
    found = re.search(rf"^{re.escape(start)}$(.*?)^{re.escape(end)}$", body, re.M | re.S)
    assert found, (start, end)
    return found[1]


def table(part: str, *header: str) -> list[list[str]]:
    """The rows of the first Markdown table whose header begins with these cells; cells without code marks."""
    lines = part.splitlines()
    for place, line in enumerate(lines):
        if cells(line)[: len(header)] == list(header):
            rows = []
            for row in lines[place + 2 :]:
                if not row.startswith("|"):
                    break
                rows.append(cells(row))
            return rows
    raise AssertionError(header)


def cells(line: str) -> list[str]:
    return [re.sub(r"^(\*\*|`)(.+)\1$", r"\2", cell.strip()) for cell in line.strip().strip("|").split("|")]


def _mermaid(part: str) -> tuple[str, set[str], dict[Edge, str]]:
    """(initial state, states with an arrow to the end, edge -> what stands in parentheses)."""
    diagram = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", part, re.S)
    assert diagram
    initial, final, edges = "", set(), {}
    for line in diagram[1].splitlines():
        if match := re.fullmatch(r"\s*\[\*\] --> (\w+)(?:: .*)?", line):
            initial = match[1]
        elif match := re.fullmatch(r"\s*(\w+) --> \[\*\](?:: .*)?", line):
            final.add(match[1])
        elif match := re.fullmatch(r"\s*(\w+) --> (\w+): ([\w ]+?)(?: \((.*)\))?", line):
            event = match[3].lower().replace(" ", "_")
            edges[match[1], event, match[2]] = match[4] or ""
    return initial, final, edges


def page_000(shared: Path, heading: str, until: str) -> Page:
    part = between(text(shared, "000"), heading, until)
    initial, final, edges = _mermaid(part)
    states = table(part, "State", "Description", "Terminal")
    assert final == {row[0] for row in states if row[2] == "Yes"}, "diagram and table agree"
    return Page(initial, {row[0]: row[1] for row in states}, final, set(edges), edges)


def details_000(part: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """Edge -> {"guard", "actions"} of the `#### a → b` blocks."""
    found = {}
    for start, end, body in re.findall(r"^#### (\w+) → (\w+)\n(.*?)(?=^###|^---|\Z)", part, re.M | re.S):
        trigger = re.search(r"\*\*Trigger\*\*: `(\w+)`", body)
        guard = re.search(r"\*\*Guard\*\*: (.+)", body)
        assert trigger and guard
        actions = "\n".join(re.findall(r"^  - (.+)$", body, re.M))
        found[start, trigger[1], end] = {"guard": guard[1], "actions": actions}
    return found


# Seed 001 prints triggers in words in its tables and as calls in its diagrams. One event name a row, the diagram's.
EVENTS_001 = {
    "workstream": {
        "Orchestrator starts execution": "start_execution",
        "All steps complete": "all_steps_succeed",
        "Step fails": "step_fails",
        "User cancels": "abandon",
        "Max retries exceeded": "abandon",  # the diagram does not draw this row
        "Retry logic activates": "retry_eligible",
        "Retry delay expires": "retry_attempt",
    },
    "step": {
        "Dependencies met": "dependencies_met",
        "Tool exits successfully": "success",
        "Tool fails": "failure",
        "Retry logic": "retry_eligible",
        "Retry delay done": "retry_attempt",
    },
}


def page_001(shared: Path, kind: str, heading: str, until: str) -> Page:
    part = between(text(shared, "001"), heading, until)
    rows = table(part, "From State", "To State", "Trigger", "Conditions")
    edges = {(row[0], EVENTS_001[kind][row[2]], row[1]): row[3] for row in rows}
    assert set(calls(part)) == {event for _, event, _ in edges}, "every call of the diagram is a trigger of the table"
    states = table(part, "State", "Code", "Meaning")
    # the step table has no column for it: nothing leads out of S_SUCCESS, and S_FAILED may be retried
    terminal = {row[1] for row in states if row[3].startswith("Yes")} if kind == "workstream" else {"S_SUCCESS"}
    (initial,) = re.findall(r"│\s+(\w+)\s+│ \(Initial", part)
    return Page(initial, {row[1]: row[2] for row in states}, terminal, set(edges), edges)


def calls(part: str) -> list[str]:
    """The events of an ASCII diagram: `name()`."""
    diagram = re.search(r"### State Diagram\n\n```\n(.*?)```", part, re.S)
    assert diagram
    return re.findall(r"\b(\w+)\(\)", diagram[1])


def page_breaker(shared: Path) -> Page:
    """The third diagram of seed 001: boxes above each other, and the lowest one splits in two."""
    part = between(text(shared, "001"), "## Circuit Breaker State Machine", "## State Recovery Procedures")
    diagram = re.search(r"### State Diagram\n\n```\n(.*?)```", part, re.S)
    assert diagram
    edges: set[Edge] = set()
    state = event = ""
    branches: list[str] = []
    for line in diagram[1].splitlines():
        names = re.findall(r"\b(CLOSED|OPEN|HALF_OPEN)\b", line)
        found = re.findall(r"\b(\w+)\(\)", line)
        if len(found) == 2:
            branches = found
        elif found:
            (event,) = found
        if len(names) == 2:
            edges |= {(state, branch, target) for branch, target in zip(branches, names, strict=True)}
        elif names:
            if state:
                edges.add((state, event, names[0]))
            (state,) = names
    states = table(part, "State", "Requests Allowed?")
    return Page("CLOSED", {row[0]: row[3] for row in states}, set(), edges)


def page_002(shared: Path) -> Page:
    initial, final, edges = _mermaid(text(shared, "002"))
    return Page(initial, {}, final, set(edges), edges)


def described_002(shared: Path) -> dict[str, dict[str, list[str]]]:
    """State -> {"Entry Conditions": [...], "Exit Conditions": [...], ...} of the state descriptions."""
    part = between(text(shared, "002"), "## State Descriptions", "## State Transition Details")
    found = {}
    for state, body in re.findall(r"^### (\w+)\n(.*?)(?=^###|\Z)", part, re.M | re.S):
        found[state] = {
            title: re.findall(r"^- (.+)$", lines, re.M)
            for title, lines in re.findall(r"^\*\*([\w ]+)\*\*:\n((?:- .+\n)+)", body, re.M)
        }
    return found


def page_003(shared: Path, number: int, until: str) -> Page:
    body = text(shared, "003")
    part = body[body.index(f"### {number}.1 States") : body.index(until)]
    states = table(part, "State", "Description", "Terminal")
    names = [row[0] for row in states]
    edges: dict[Edge, str] = {}
    for row in table(part, "From State", "To State", "Trigger", "Conditions"):
        for from_state in [name for name in names if name != row[1]] if row[0] == "*" else [row[0]]:
            edges[from_state, row[2], row[1]] = row[3]
    terminal = {row[0] for row in states if row[2] == "Yes"}
    return Page(names[0], {row[0]: row[1] for row in states}, terminal, set(edges), edges)


def forbidden_001(shared: Path) -> list[tuple[str, str]]:
    """(from, to or `Any`) of the table "Invalid Transitions (Will Raise Error)"."""
    part = between(text(shared, "001"), "## Workstream State Machine", "## Step State Machine")
    rows = table(part[part.index("### Invalid Transitions") :], "From State", "To State", "Why Invalid")
    return [(row[0], row[1]) for row in rows]


def forbidden_003(shared: Path, heading: str) -> list[tuple[str, str]]:
    """(from, to or `*`) of the list under a heading of seed 003."""
    body = text(shared, "003")
    part = body[body.index(heading) :]
    part = part[: part.index("\n### ", 5)]
    return re.findall(r"^- (\w+) → (\w+|\*) ", part, re.M)


def pages(shared: Path) -> dict[str, Page]:
    """Every lifecycle of the four documents."""
    return {
        "orchestration.task": page_000(
            shared, "## Task Lifecycle State Machine", "## Workstream Lifecycle State Machine"
        ),
        "orchestration.workstream": page_000(
            shared, "## Workstream Lifecycle State Machine", "## Worker State Machine"
        ),
        "orchestration.worker": page_000(shared, "## Worker State Machine", "## Event Schema"),
        "pipeline.workstream": page_001(shared, "workstream", "## Workstream State Machine", "## Step State Machine"),
        "pipeline.step": page_001(shared, "step", "## Step State Machine", "## Circuit Breaker State Machine"),
        "pipeline.circuit_breaker": page_breaker(shared),
        "execution.task": page_002(shared),
        "supervision.worker": page_003(shared, 1, "## 2. Job State Machine"),
        "supervision.job": page_003(shared, 2, "## 3. Idempotency Handling"),
    }
