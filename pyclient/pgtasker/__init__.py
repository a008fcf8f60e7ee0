"""pgtasker: workflow orchestration whose every rule lives in PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pgtasker._client import Client as Client
    from pgtasker._client_async import AsyncClient as AsyncClient
    from pgtasker._rows import AllowedEvent as AllowedEvent
    from pgtasker._rows import AuditRecord as AuditRecord
    from pgtasker._rows import BreakerOverview as BreakerOverview
    from pgtasker._rows import BreakerPermit as BreakerPermit
    from pgtasker._rows import Change as Change
    from pgtasker._rows import ClaimedStep as ClaimedStep
    from pgtasker._rows import Commanded as Commanded
    from pgtasker._rows import DriveCounts as DriveCounts
    from pgtasker._rows import Emission as Emission
    from pgtasker._rows import EmittedEvent as EmittedEvent
    from pgtasker._rows import Explanation as Explanation
    from pgtasker._rows import Finding as Finding
    from pgtasker._rows import LimitOverview as LimitOverview
    from pgtasker._rows import Reason as Reason
    from pgtasker._rows import Recovery as Recovery
    from pgtasker._rows import Schedule as Schedule
    from pgtasker._rows import ScheduledTask as ScheduledTask
    from pgtasker._rows import StepOutcome as StepOutcome
    from pgtasker._rows import StepOverview as StepOverview
    from pgtasker._rows import SubmittedTask as SubmittedTask
    from pgtasker._rows import TaskOverview as TaskOverview
    from pgtasker._rows import TaskPage as TaskPage
    from pgtasker._rows import TickCounts as TickCounts
    from pgtasker._rows import TimelineEntry as TimelineEntry
    from pgtasker._rows import WorkerOverview as WorkerOverview
    from pgtasker.errors import CircuitOpen as CircuitOpen
    from pgtasker.errors import GuardFailed as GuardFailed
    from pgtasker.errors import IdempotencyConflict as IdempotencyConflict
    from pgtasker.errors import InvalidDefinition as InvalidDefinition
    from pgtasker.errors import InvalidTransition as InvalidTransition
    from pgtasker.errors import InvalidValue as InvalidValue
    from pgtasker.errors import LimitExceeded as LimitExceeded
    from pgtasker.errors import NotFound as NotFound
    from pgtasker.errors import NotOwner as NotOwner
    from pgtasker.errors import PayloadTooLarge as PayloadTooLarge
    from pgtasker.errors import PgtaskerError as PgtaskerError
    from pgtasker.errors import SchemaMissing as SchemaMissing
    from pgtasker.errors import StaleClaim as StaleClaim
    from pgtasker.errors import WaitTimeout as WaitTimeout
    from pgtasker.server import EmbeddedServer as EmbeddedServer
    from pgtasker.server import default_dsn as default_dsn
    from pgtasker.worker import CancelSignal as CancelSignal
    from pgtasker.worker import PermanentError as PermanentError
    from pgtasker.worker import RetryAfter as RetryAfter
    from pgtasker.worker import StepContext as StepContext
    from pgtasker.worker import TransientError as TransientError
    from pgtasker.worker import Worker as Worker
    from pgtasker.worker import WorkerSummary as WorkerSummary

# Public name -> module. Imported on first use, so that `import pgtasker` costs next to nothing.
_EXPORTS: dict[str, str] = {
    "EmbeddedServer": "server",
    "default_dsn": "server",
    "Client": "_client",
    "AsyncClient": "_client_async",
    "CancelSignal": "worker",
    "PermanentError": "worker",
    "RetryAfter": "worker",
    "StepContext": "worker",
    "TransientError": "worker",
    "Worker": "worker",
    "WorkerSummary": "worker",
    "CircuitOpen": "errors",
    "GuardFailed": "errors",
    "IdempotencyConflict": "errors",
    "InvalidDefinition": "errors",
    "InvalidTransition": "errors",
    "InvalidValue": "errors",
    "LimitExceeded": "errors",
    "NotFound": "errors",
    "NotOwner": "errors",
    "PayloadTooLarge": "errors",
    "PgtaskerError": "errors",
    "SchemaMissing": "errors",
    "StaleClaim": "errors",
    "WaitTimeout": "errors",
    "AllowedEvent": "_rows",
    "AuditRecord": "_rows",
    "BreakerOverview": "_rows",
    "BreakerPermit": "_rows",
    "Change": "_rows",
    "ClaimedStep": "_rows",
    "Commanded": "_rows",
    "DriveCounts": "_rows",
    "Emission": "_rows",
    "EmittedEvent": "_rows",
    "Explanation": "_rows",
    "Finding": "_rows",
    "LimitOverview": "_rows",
    "Reason": "_rows",
    "Recovery": "_rows",
    "Schedule": "_rows",
    "ScheduledTask": "_rows",
    "StepOutcome": "_rows",
    "StepOverview": "_rows",
    "SubmittedTask": "_rows",
    "TaskOverview": "_rows",
    "TaskPage": "_rows",
    "TickCounts": "_rows",
    "TimelineEntry": "_rows",
    "WorkerOverview": "_rows",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
