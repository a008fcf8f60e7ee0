"""What the documents point at exists."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.docs.documents import ROOT, links

DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "sql").glob("*.md")]
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    missing = [target for target in links(document) if not (document.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_fragments_lead_somewhere(document: Path) -> None:
    content = document.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", content, re.MULTILINE)
    }
    assert [target for target in re.findall(r"\]\(#([^)]+)\)", content) if target not in headings] == []


def test_numbers_of_decisions_are_those_of_the_document() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    numbers = [int(n) for n in re.findall(r"^### (\d+)\. ", decisions, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    for document in DOCUMENTS:
        for number in re.findall(r"\(decision (\d+)\)", document.read_text(encoding="utf-8")):
            assert int(number) in numbers, document


def test_the_picture_is_well_formed_and_names_what_exists(conn: psycopg.Connection[Any]) -> None:
    picture = ElementTree.parse(ROOT / "docs" / "architecture.svg")
    space = "{http://www.w3.org/2000/svg}"
    drawn = {
        name
        for text in picture.iter(f"{space}text")
        if "code" in (text.get("class") or "")
        for name in re.findall(r"(?<!\.)\b[a-z]+(?:_[a-z]+)+\b", text.text or "")
    }
    assert drawn
    assert drawn - existing_names(conn) == set()


# Names that the documents only quote: the specification's own, tools, patterns.
QUOTED = {
    "check_ownership",
    "dependencies_met",
    "get_audit_history",
    "get_by_correlation_id",
    "get_by_worker",
    "target_state",
    "plpgsql_check",
    "NNNN_name",
    # seeds 000 to 003: configuration keys, tables, sample functions, scripts
    "base_retry_delay",
    "can_execute_step",
    "cleanup_on_cancel",
    "cooldown_period",
    "default_timeout",
    "derive_workstream_state",
    "jitter_percentage",
    "max_retry_delay",
    "parent_job_id",
    "save_on_states",
    "state_history",
    "state_transitions",
    "task_states",
    "validate_state_consistency",
    "validate_state_transitions",
    "validate_transition",
    "validation_timeout",
}


@pytest.mark.parametrize(
    "name", ["README.md", "sql/README.md", "docs/architecture.md", "docs/decisions.md", "docs/seeds.md"]
)
def test_names_in_the_text_exist(conn: psycopg.Connection[Any], name: str) -> None:
    content = (ROOT / name).read_text(encoding="utf-8")
    outside = re.sub(r"^```.*?^```$", "", content, flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"`([^`\n]+)`", outside)
    codes += [text for text in re.findall(r"^```text\n(.*?)^```$", content, re.MULTILINE | re.DOTALL) if "──" in text]
    written = {word for code in codes for word in re.findall(r"(?<![\w-])[A-Za-z]+(?:_[a-z0-9]+)+", code)}
    # metadata keys, notification channels and template fields are no objects, but they stand in the sources
    sources = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("sql", "migrations", "pyclient")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".sql", ".py"}
    )
    unknown = written - existing_names(conn) - QUOTED
    assert {word for word in unknown if not re.search(rf"\b{word}\b", sources)} == set()


def existing_names(conn: psycopg.Connection[Any]) -> set[str]:
    """Return the names of everything that schema tasker and the queues consist of."""
    rows = conn.execute(
        """
        select proname::text from pg_proc where pronamespace::regnamespace::text in ('tasker', 'pgmq', 'pg_catalog')
        union select name from pg_settings
        union select relname::text from pg_class where relnamespace = 'tasker'::regnamespace
        union select attname::text from pg_attribute a join pg_class c on c.oid = a.attrelid
               where c.relnamespace = 'tasker'::regnamespace
        union select tgname::text from pg_trigger
        union select rolname::text from pg_roles
        union select queue_name::text from pgmq.meta
        union select state from tasker.lifecycle_states
        union select event from tasker.lifecycle_events
        union select phase from tasker.lifecycle_phases
        union select operation from tasker.engine_operations
        union select guard from tasker.guards
        union select action from tasker.transition_actions
        """
    )
    return {name for (name,) in rows}
