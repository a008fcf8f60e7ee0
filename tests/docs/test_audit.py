"""docs/audit.md is run as it stands: one psql session, from the first task to the summary."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.documents import ROOT, fences
from tests.docs.test_readme import run_psql

DOCUMENT = ROOT / "docs" / "audit.md"


def test_the_examples_do_what_the_document_shows(server: Any, database: str) -> None:
    psql = Path(server.server.bin_dir) / "psql"
    if not psql.exists():
        pytest.skip(f"no psql in {server.server.bin_dir}")
    blocks = [fence for fence in fences(DOCUMENT) if fence.language == "sql"]
    assert len(blocks) >= 8
    run_psql(psql, database, blocks, DOCUMENT)


def test_every_finding_is_explained() -> None:
    """What verify_audit and verify_digest can find stands in the table of findings."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for function in ("verify_audit", "verify_digest"):
        body = (ROOT / "sql" / "audit" / f"{function}.sql").read_text(encoding="utf-8")
        found = set(
            re.findall(
                r"'((?:audit_)?(?:row|change|seal|current_row|digest|purge)_(?:changed|missing|inserted|differs))'",
                body,
            )
        )
        assert found
        assert {finding for finding in found if f"`{finding}`" not in text} == set()
