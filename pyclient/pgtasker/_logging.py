"""How a worker process logs: lines for people, or one JSON object a line for machines.

Own code: the standard library's records need a dozen lines to become JSON, and a worker nothing else.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any

from ._steps import current_step
from ._tracing import current_ids

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s [%(process)d]: %(message)s"
# What every record has; the rest came as extra=...
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line.

    ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``process``; inside a handler ``task_uuid``,
    ``step_uuid``, ``step``, ``attempt``, ``correlation_id``; inside a span ``trace_id`` and ``span_id``; ``error`` with
    a traceback; and what was given as ``extra``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        claim = current_step.get()
        if claim is not None:
            line |= {
                "task_uuid": claim.task_uuid,
                "step_uuid": claim.workflow_step_uuid,
                "step": claim.name,
                "attempt": claim.attempt,
                "correlation_id": claim.correlation_id,
            }
        line |= current_ids()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(log_format: str, *, verbose: bool) -> None:
    """Log to stderr: what a worker does with ``verbose``, else what goes wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
