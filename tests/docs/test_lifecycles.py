"""docs/lifecycles.md shows every shipped lifecycle as its rows draw it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lifecycles.md"
SECTION = re.compile(r"^## (\S+)\n\n(.+?)\n\n```mermaid\n(.+?)\n```$", re.MULTILINE | re.DOTALL)


def test_the_page_shows_every_lifecycle_as_its_rows_draw_it(conn: psycopg.Connection[Any]) -> None:
    rows = conn.execute(
        "select lifecycle, description, tasker.lifecycle_diagram(lifecycle) from tasker.lifecycles"
    ).fetchall()
    drawn = {name: (description, diagram) for name, description, diagram in rows}
    shown = {name: (description, diagram) for name, description, diagram in SECTION.findall(PAGE.read_text("utf-8"))}
    assert shown == drawn
