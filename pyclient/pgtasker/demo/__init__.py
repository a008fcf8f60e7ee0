"""The demo: a small data pipeline over the files of Python's own standard library.

``pgtasker demo`` runs it; ``pgtasker run FILE --handlers pgtasker.demo:worker`` runs the same graph from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgtasker import Worker

__all__ = ["build_graph", "worker"]

worker: Worker


def __getattr__(name: str) -> Any:
    # The graph can be had without a worker's imports, and the worker without the graph's.
    if name == "worker":
        from pgtasker.demo.handlers import worker

        return worker
    if name == "build_graph":
        from pgtasker.demo.workflow import build_graph

        return build_graph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
