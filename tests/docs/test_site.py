"""The documentation builds without a warning, and what its pages show in Python runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, fences
from tests.docs.test_readme import run_python

COMING_FROM = sorted((ROOT / "docs" / "coming-from").glob("*.md"))


def test_every_page_builds_and_is_reached(database: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    shutil.copy(ROOT / "README.md", tmp_path)
    reference = subprocess.run(
        [sys.executable, "-m", "pgtasker.cli", "--dsn", database, "sql", "api", "--format", "markdown"],
        capture_output=True,
        text=True,
        check=True,
    )
    (docs / "reference" / "sql.md").write_text(reference.stdout)
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", docs, site],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {str(page.relative_to(docs).with_suffix(".html")) for page in docs.rglob("*.md")}
    assert pages <= {str(page.relative_to(site)) for page in site.rglob("*.html")}
    listed = (site / "llms.txt").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", listed):
        assert (site / link).exists(), link


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: str(page.stem))
def test_what_a_page_shows_runs(page: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.delenv("PGTASKER_DSN", raising=False)
    blocks = [fence for fence in fences(page) if fence.language == "python"]
    assert blocks
    run_python(blocks, {"__name__": page.stem})
