"""One module a system: what `bench` asks of each is `run(workload, database)`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sample:
    """One measurement.

    `create_seconds`: making all instances. `seconds`: from the first call of a handler to the last. `delays`: for
    latency, seconds from the call that makes an instance to its handler. `worker_cpu`: processor seconds of the workers
    per second.
    """

    create_seconds: float
    seconds: float
    delays: list[float] = field(default_factory=list)
    worker_cpu: float | None = None


class NotMeasured(Exception):
    """This system has no way to run that workload, or could not be installed here; the text says why."""
