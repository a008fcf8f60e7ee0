"""Just enough Markdown for documents that must stay true: fences, links, and output that differs in keys only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, its text, and what the next `text` block promises as its output, if one follows."""

    language: str
    body: str
    line: int
    output: str | None


def fences(document: Path) -> list[Fence]:
    """Return the fenced blocks of a document, each `text` block joined to the block it follows."""
    content = document.read_text(encoding="utf-8")
    found: list[Fence] = []
    for match in _FENCE.finditer(content):
        language, body = match["language"], match["body"]
        line = content.count("\n", 0, match.start()) + 1
        if language == "text" and found:
            last = found[-1]
            found[-1] = Fence(last.language, last.body, last.line, body)
        else:
            found.append(Fence(language, body, line, None))
    return found


def comparable(output: str) -> list[str]:
    """Return the lines of an output without what differs from run to run: keys, and the widths of columns."""
    output = _UUID.sub("<uuid>", output)
    lines = (re.sub(r"\s+", " ", re.sub(r"-{2,}", "--", line)).strip() for line in output.splitlines())
    return [line for line in lines if line]


def links(document: Path) -> list[str]:
    """Return the targets of all links and pictures that lead into the repository, without their fragments."""
    content = _FENCE.sub("", document.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", content)
    return [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:", t) and t.split("#")[0]]
