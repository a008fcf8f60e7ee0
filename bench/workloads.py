"""What is measured. A step is one call of a handler that does nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pgtasker import graphs

TRACES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "wfcommons"
"""Real workflows from WfCommons, beside the project where they are there at all."""


@dataclass(frozen=True)
class Workload:
    """So many instances of one shape.

    `shape`: `jobs` (one step each), `chain` (`size` steps one after the other), `fan` (one step, then `size`, then
    one), `wide` (`size` steps side by side), `traces` (the `instances` largest real workflows, without their work) or
    `latency` (one step each, made one by one on an idle system). `history`: so many finished steps stand in the tables.
    `snapshot`: another session holds an old snapshot all the while. `pooled`: workers connect through PgBouncer in
    transaction mode. `beside`: the small case that its cost a step is compared with.
    """

    name: str
    shape: str
    instances: int
    size: int = 1
    workers: int = 1
    batch: int = 500
    history: int = 0
    snapshot: bool = False
    pooled: bool = False
    beside: str = ""

    @property
    def steps(self) -> int:
        if self.shape == "traces":
            return sum(len(graph["steps"]) for graph in traces(self.instances))
        per_instance = {"jobs": 1, "latency": 1, "chain": self.size, "wide": self.size, "fan": self.size + 2}
        return self.instances * per_instance[self.shape]

    @property
    def is_ours(self) -> bool:
        """Whether only pgtasker is measured: it is about pgtasker's own cost, or no peer runs it."""
        return bool(self.history or self.snapshot or self.pooled)

    def smaller(self, divisor: int) -> Workload:
        """The same with fewer instances, for a quick look."""
        fewer = max(1, self.instances // divisor)
        return replace(self, instances=max(20, fewer) if self.shape == "latency" else fewer)


@cache
def traces(number: int) -> list[dict[str, Any]]:
    """The graphs of the largest traces, each step with a handler that does nothing; none where there are no traces."""
    found = [graphs.load(file) for file in TRACES.glob("*.json")]
    largest = sorted(found, key=lambda trace: trace.step_count, reverse=True)[:number]
    return [_without_work(trace.graph) for trace in largest]


def _without_work(graph: dict[str, Any]) -> dict[str, Any]:
    steps = [
        {"name": step["name"], "handler": "noop", "depends_on": step.get("depends_on", [])} for step in graph["steps"]
    ]
    return {"name": graph["name"], "steps": steps}


SMALL = (
    Workload("jobs", "jobs", 10_000),
    Workload("jobs, 2 workers", "jobs", 10_000, workers=2),
    Workload("chain of 10", "chain", 300, 10),
    Workload("fan 1-50-1", "fan", 40, 50),
    Workload("1,000 side by side", "wide", 1, 1_000),
    Workload("5,000 side by side", "wide", 1, 5_000, beside="1,000 side by side"),
    Workload("largest traces", "traces", 4),
    Workload("latency", "latency", 200),  # so that p99 is not one single measurement
)
ALL = (
    *SMALL,
    # so many that what each session has to do once, planning its statements, does not count
    Workload("jobs, 32 claimants", "jobs", 40_000, workers=32, beside="jobs"),
    Workload("jobs, 32 claimants through PgBouncer", "jobs", 40_000, workers=32, pooled=True, beside="jobs"),
    Workload("jobs under an old snapshot", "jobs", 10_000, snapshot=True, beside="jobs"),
    Workload("jobs through PgBouncer", "jobs", 10_000, pooled=True, beside="jobs"),
    *(replace(w, name=f"{w.name}, 1,000,000 steps in the tables", history=1_000_000, beside=w.name) for w in SMALL),
)
QUICK = tuple(w.smaller(10) for w in ALL if w.size <= 1000 and not w.history)
