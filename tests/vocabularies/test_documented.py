"""docs/seeds.md says of seeds 000 to 003 what the rules say, state by state and edge by edge, and every file it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, links
from tests.vocabularies import pages
from tests.vocabularies.lab import Lab
from tests.vocabularies.test_rules import LIFECYCLES
from tests.vocabularies.test_seed_002 import configuration

SEEDS = ROOT / "docs" / "seeds.md"


def part(lifecycle: str) -> str:
    """The text under the heading that ends with the lifecycle's name in parentheses."""
    found = re.search(rf"^#### [^\n]* \(`{re.escape(lifecycle)}`\)\n(.*?)(?=^###|\Z)", SEEDS.read_text(), re.M | re.S)
    assert found, lifecycle
    return found[1]


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_every_state_is_described(rules: Lab, lifecycle: str) -> None:
    described = {row[0]: (row[1], row[2]) for row in pages.table(part(lifecycle), "state", "phase")}
    stored = rules.rows("select state, phase, description from tasker.lifecycle_states where lifecycle = %s", lifecycle)
    assert described == {row["state"]: (row["phase"], row["description"]) for row in stored}


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_every_edge_is_described(rules: Lab, lifecycle: str) -> None:
    described = {
        (row[0], row[1].split("`")[1] if "`" in row[1] else row[1], row[2]): ("(addition)" in row[1], row[4])
        for row in pages.table(part(lifecycle), "from", "event", "to")
    }
    stored = rules.rows(
        "select from_state, event, to_state, is_addition, guard from tasker.lifecycle_transitions where lifecycle = %s",
        lifecycle,
    )
    assert described == {
        (row["from_state"], row["event"], row["to_state"]): (row["is_addition"], row["guard"]) for row in stored
    }


def test_every_configuration_key_of_seed_002_is_described(shared: Path) -> None:
    described = {row[0]: row[1] for row in pages.table(SEEDS.read_text(), "key", "default", "here")}
    assert described == configuration(shared)


@pytest.mark.parametrize("document", ["seeds.md", "vocabularies.md"])
def test_every_file_that_is_named_is_there(document: str) -> None:
    path = ROOT / "docs" / document
    assert [link for link in links(path) if not (path.parent / link).exists()] == []
