"""What is measured. A step is one call of a handler that does nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """So many instances of one shape.

    `shape`: `jobs` (one step each), `chain` (`size` steps one after the other), `fan` (one step, then `size`, then
    one), `wide` (`size` steps side by side) or `latency` (one step each, made one by one on an idle system). `history`:
    so many finished steps stand in the tables. `snapshot`: another session holds an old snapshot all the while.
    """

    name: str
    shape: str
    instances: int
    size: int = 1
    workers: int = 1
    batch: int = 100
    history: int = 0
    snapshot: bool = False

    @property
    def steps(self) -> int:
        per_instance = {"jobs": 1, "latency": 1, "chain": self.size, "wide": self.size, "fan": self.size + 2}
        return self.instances * per_instance[self.shape]

    def smaller(self, divisor: int) -> Workload:
        """The same with fewer instances, for a quick look."""
        return replace(self, instances=max(1, self.instances // divisor))


ALL = (
    Workload("jobs", "jobs", 10_000),
    Workload("jobs, 2 workers", "jobs", 10_000, workers=2),
    Workload("chain of 10", "chain", 300, 10),
    Workload("fan 1-50-1", "fan", 40, 50),
    Workload("1,000 side by side", "wide", 1, 1_000),
    Workload("5,000 side by side", "wide", 1, 5_000),
    Workload("latency", "latency", 200),
    Workload("jobs, 32 claimants", "jobs", 10_000, workers=32),
    Workload("jobs under an old snapshot", "jobs", 10_000, snapshot=True),
    Workload("jobs beside 1,000,000 finished steps", "jobs", 10_000, history=1_000_000),
    Workload("chain of 10 beside 1,000,000 finished steps", "chain", 300, 10, history=1_000_000),
)
