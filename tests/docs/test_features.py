"""Pages about one feature are run as they stand, each in one psql session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.documents import ROOT, fences
from tests.docs.test_readme import run_psql


@pytest.mark.parametrize("page", ["schedules", "limits"])
def test_the_examples_do_what_the_document_shows(server: Any, database: str, page: str) -> None:
    document = ROOT / "docs" / f"{page}.md"
    psql = Path(server.server.bin_dir) / "psql"
    if not psql.exists():
        pytest.skip(f"no psql in {server.server.bin_dir}")
    blocks = [fence for fence in fences(document) if fence.language == "sql"]
    assert blocks
    run_psql(psql, database, blocks, document)
