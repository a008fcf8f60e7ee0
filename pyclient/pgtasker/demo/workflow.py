"""The demo's graph.

::

    discover ─┬─ count-01 … count-24 ─┬─ totals ─┬─ averages ─────────┬─ report
              │                       │          └─ keyword-ranking ──┤
              │                       └─ fingerprint (runs `sort`) ───┤
              └─ outbox (fails twice) ────────────────────────────────┤
    machine (runs `uname`) ───────────────────────────────────────────┘
"""

from __future__ import annotations

from typing import Any

CHUNKS = 24
NAMESPACE = "demo"


def build_graph(chunks: int = CHUNKS) -> dict[str, Any]:
    """The pipeline with ``chunks`` parallel counting steps, in the shape ``create_task_from_graph`` takes.

    The task's context may say where the report goes: ``{"folder": path}``; else a folder below the temporary one.
    """
    counts = [f"count-{number:02}" for number in range(1, chunks + 1)]
    return {
        "name": "library-census",
        "description": "Counts lines, words and keywords of Python's standard library",
        "steps": [
            {"name": "discover", "handler": "discover", "arguments": {"chunks": chunks}},
            {"name": "machine", "handler": "shell", "arguments": {"argv": ["uname", "-s", "-r", "-m"]}},
            *(
                {"name": name, "handler": "count", "depends_on": ["discover"], "arguments": {"chunk": index}}
                for index, name in enumerate(counts)
            ),
            {
                "name": "outbox",
                "handler": "open_outbox",
                "depends_on": ["discover"],
                "max_attempts": 5,
                "retry": {"base_delay": 0.5, "max_delay": 2, "jitter": 0.1},
            },
            {"name": "totals", "handler": "totals", "depends_on": counts},
            {"name": "averages", "handler": "averages", "depends_on": ["totals"]},
            {"name": "keyword-ranking", "handler": "keyword_ranking", "depends_on": ["totals"]},
            {"name": "fingerprint", "handler": "fingerprint", "depends_on": counts},
            {
                "name": "report",
                "handler": "report",
                "depends_on": ["averages", "keyword-ranking", "fingerprint", "outbox", "machine"],
            },
        ],
    }
