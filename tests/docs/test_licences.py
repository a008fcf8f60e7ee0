"""docs/licences.md lists every package that pgtasker can ask for, with the licence its metadata tells."""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata, requires
from typing import cast

from tests.docs.documents import ROOT

TABLE = re.compile(r"^\| ([a-z0-9-]+) \| ([^|]+) \| ([a-z, ]*) ?\| [^|]+ \|$", re.MULTILINE)


def needed() -> dict[str, set[str]]:
    """Package -> the extras that ask for it; none: always needed."""
    found: dict[str, set[str]] = {}
    for requirement in requires("pgtasker") or []:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        found.setdefault(name[0].lower().replace("_", "-").replace(".", "-"), set()).add(extra[1] if extra else "")
    found.pop("pgtasker", None)
    return found


def test_every_package_is_listed_with_its_licence() -> None:
    listed = {
        row[0]: (row[1].strip(), row[2].strip())
        for row in TABLE.findall((ROOT / "docs" / "licences.md").read_text("utf-8"))
    }
    del listed["package"]  # the heading
    assert set(listed) == set(needed())
    for name, extras in needed().items():
        licence, extra = listed[name]
        assert ("" in extras) == (extra == ""), name
        assert not extra or extra in extras, name
        try:
            told = cast(Message, metadata(name))
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        words = " ".join(
            [told.get("License-Expression") or told.get("License") or "", *(told.get_all("Classifier") or [])]
        )
        assert licence.split("-")[0] in words or licence in words, (name, licence)
