"""docs/schedules.md is run as it stands, in one psql session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.documents import ROOT, fences
from tests.docs.test_readme import run_psql

DOCUMENT = ROOT / "docs" / "schedules.md"


def test_the_examples_do_what_the_document_shows(server: Any, database: str) -> None:
    psql = Path(server.server.bin_dir) / "psql"
    if not psql.exists():
        pytest.skip(f"no psql in {server.server.bin_dir}")
    blocks = [fence for fence in fences(DOCUMENT) if fence.language == "sql"]
    assert len(blocks) >= 3
    run_psql(psql, database, blocks, DOCUMENT)
