"""docs/seeds.md says of every rule what the database says of it, and leaves none out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.docs.documents import ROOT

SEEDS = ROOT / "docs" / "seeds.md"

Edge = tuple[str, str, str]


def section(heading: str) -> str:
    """Return the text under a `###` heading."""
    content = SEEDS.read_text(encoding="utf-8")
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", content, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the tables of a text: header cells and rows of cells."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()]
        yield [cell.strip() for cell in rows[0]], rows[2:]


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def described_edges(heading: str) -> dict[Edge, tuple[bool, bool, str]]:
    """Return (from, event, to) -> (legacy, addition, guard) of the tables under a heading."""
    edges: dict[Edge, tuple[bool, bool, str]] = {}
    for header, rows in tables(section(heading)):
        if header[:3] != ["from", "event", "to"]:
            continue
        for row in rows:
            ((event,), (to_state,)) = names(row[1]), names(row[2])
            for from_state in names(row[0]):
                assert (from_state, event, to_state) not in edges
                edges[from_state, event, to_state] = (
                    "(legacy)" in row[1],
                    "(addition)" in row[1] or "why" in header,
                    names(row[header.index("guard")])[0],
                )
    return edges


@pytest.mark.parametrize(
    ("lifecycle", "heading"),
    [("tasker.task", "Task transitions"), ("tasker.workflow_step", "Step transitions")],
)
def test_every_edge_is_described(conn: psycopg.Connection[Any], lifecycle: str, heading: str) -> None:
    rows = conn.execute(
        "select from_state, event, to_state, is_legacy, is_addition, guard from tasker.lifecycle_transitions"
        " where lifecycle = %s",
        [lifecycle],
    ).fetchall()
    described = described_edges(heading)
    assert described == {row[:3]: row[3:] for row in rows}


@pytest.mark.parametrize(
    ("lifecycle", "heading"), [("tasker.task", "Task states"), ("tasker.workflow_step", "Step states")]
)
def test_every_state_is_described_with_phase_and_flags(
    conn: psycopg.Connection[Any], lifecycle: str, heading: str
) -> None:
    flags = [
        "is_terminal",
        "requires_ownership",
        "is_active",
        "is_waiting",
        "can_be_processed",
        "is_error",
        "is_in_processing_pipeline",
        "is_ready_for_claiming",
        "satisfies_dependencies",
    ]
    stored = {
        row[0]: (row[1], {flag for flag, holds in zip(flags, row[2:], strict=True) if holds})
        for row in conn.execute(
            f"select state, phase, {', '.join(flags)} from tasker.lifecycle_states where lifecycle = %s", [lifecycle]
        )
    }
    described = {
        names(row[0])[0]: (row[1], set(names(row[3])))
        for header, rows in tables(section(heading))
        if header[0] == "state"
        for row in rows
    }
    assert described == stored


@pytest.mark.parametrize(
    ("lifecycle", "heading"), [("tasker.task", "Task events"), ("tasker.workflow_step", "Step transitions")]
)
def test_every_event_is_described(conn: psycopg.Connection[Any], lifecycle: str, heading: str) -> None:
    stored = {
        row[0] for row in conn.execute("select event from tasker.lifecycle_events where lifecycle = %s", [lifecycle])
    }
    described = {
        names(row[1])[0]
        for header, rows in tables(section(heading))
        if header[0] == "event of the seed"
        for row in rows
    }
    assert described == stored


def test_every_action_and_guard_of_the_vocabulary_is_described(conn: psycopg.Connection[Any]) -> None:
    content = SEEDS.read_text(encoding="utf-8")
    guards = conn.execute("select distinct guard from tasker.lifecycle_transitions where lifecycle like 'tasker.%'")
    assert [guard for (guard,) in guards if f"`{guard}`" not in content] == []
    actions = conn.execute("select string_agg(implemented_by, ', ') from tasker.transition_actions").fetchone()
    assert actions is not None
    assert [name for name in actions[0].split(", ") if f"`{name}`" not in content] == []


def test_every_seed_has_a_section() -> None:
    content = SEEDS.read_text(encoding="utf-8")
    for number, vocabulary in enumerate(["orchestration", "pipeline", "execution", "supervision"]):
        assert f"### Seed 00{number}: {vocabulary}\n" in content
