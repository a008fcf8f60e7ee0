"""``pgtasker metrics``: what the views of schema tasker say, for a person or for Prometheus."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import Database, database
from pgtasker.cli._errors import OK, usage_error
from pgtasker.cli._settings import settings

app = App(
    name="metrics", help="Print metrics, or the text that Prometheus reads, or serve it.", result_action="return_value"
)
app.command("pgtasker.cli.serve_metrics:serve", name="serve", help="Serve the text that Prometheus reads over HTTP.")

# heading -> (query, columns)
_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "states": (
        "select * from tasker.metrics_states(clock_timestamp() - %(last)s::interval) where visits > 0",
        ("lifecycle", "state", "visits", "avg_seconds", "success_rate", "common_next_state"),
    ),
    "time in state": (
        "select * from tasker.metrics_time_in_state(clock_timestamp() - %(last)s::interval)",
        ("lifecycle", "state", "visits", "avg_seconds", "p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"),
    ),
    "transitions": (
        "select * from tasker.metrics_transition_counts(clock_timestamp() - %(last)s::interval)",
        ("lifecycle", "from_state", "event", "to_state", "transitions"),
    ),
    "rejected transitions": (
        "select * from tasker.metrics_rejections(clock_timestamp() - %(last)s::interval)",
        ("code", "name", "entity_kind", "rejections"),
    ),
    "idempotency": ("select * from tasker.metrics_idempotency", ("endpoint", "requests", "hits", "hit_rate")),
    "queues": (
        "select * from tasker.metrics_queues",
        ("namespace", "requires", "queue_name", "depth", "oldest_seconds"),
    ),
    "waits": (
        "select * from tasker.metrics_waits",
        ("waits_for", "name", "namespace", "steps", "oldest_seconds"),
    ),
    "workers": (
        "select * from tasker.metrics_workers",
        ("name", "state", "capacity", "held_steps", "utilisation", "seconds_since_heartbeat"),
    ),
}


@app.default
def metrics(
    *,
    prometheus: Annotated[bool, Parameter(negative="", help="In the text format of Prometheus.")] = False,
    file: Annotated[
        Path | None, Parameter(help="Write that text to a file, whole or not at all: for node_exporter's collector.")
    ] = None,
    last: Annotated[str, Parameter(help="How far back to look, as an interval.")] = "1 hour",
) -> int:
    """Print the metrics of seeds 002 and 003: transitions, time in state, success rates, refusals, queues, workers."""
    with database() as db:
        if prometheus or file is not None:
            text = str(db.value("select tasker.prometheus_metrics()"))
            if file is None:
                output.line(text.rstrip("\n"))
            else:
                _replace(file, text)
            return OK
        tables = {heading: _rows(db, query, last) for heading, (query, _) in _TABLES.items()}
    if settings.json:
        output.emit_json(tables)
        return OK
    for heading, (_, columns) in _TABLES.items():
        output.heading(heading)
        output.emit_rows(tables[heading], columns)
    return OK


def _rows(db: Database, query: str, last: str) -> list[dict[str, object]]:
    return db.rows(query.encode(), {"last": last} if "%(last)s" in query else None)


def _replace(file: Path, text: str) -> None:
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).chmod(0o644)  # read by the collector, which is somebody else
        Path(name).replace(file)
    except OSError as error:
        raise usage_error(f"--file: {error.strerror}: {file}") from None
