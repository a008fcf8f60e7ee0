"""Medians, ratios, and the tables of docs/performance.md."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import targets
from bench.edges import STEPS, Edge
from bench.server import SETTINGS
from bench.targets import SQL_ALONE, US
from bench.workloads import Workload

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
PARTIAL = PAGE.parents[1] / "build" / "bench.jsonl"


@dataclass(frozen=True)
class Result:
    """One measurement of one system; `latency` is p50, p95 and p99 in seconds."""

    steps_per_second: float | None = None
    created_per_second: float | None = None
    wal_bytes_per_step: float | None = None
    commits_per_step: float | None = None
    rows_per_step: float | None = None
    server_cpu_per_step: float | None = None
    worker_cpu: float | None = None
    latency: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        if self.latency is not None:
            return "p50 {:.1f}, p95 {:.1f}, p99 {:.1f} ms".format(*(1000 * part for part in self.latency))
        return f"{self.steps_per_second:,.0f} steps/s, {self.created_per_second:,.0f} instances/s made"


@dataclass
class Table:
    """What was measured, by workload and system. Each result is on the disk as soon as it is there."""

    workloads: dict[str, Workload]
    systems: Iterable[str]
    resume: bool = False
    server_version: str = ""
    peers: list[str] = field(default_factory=list)
    results: dict[str, dict[str, list[Result]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def __post_init__(self) -> None:
        PARTIAL.parent.mkdir(exist_ok=True)
        if self.resume and PARTIAL.exists():
            for line in PARTIAL.read_text("utf-8").splitlines():
                told = json.loads(line)
                if self.workloads.get(told["workload"]) == Workload(**told["sizes"]):
                    self.results[told["workload"]][told["system"]].append(Result(**told["result"]))
        else:
            PARTIAL.write_text("", "utf-8")

    def add(self, workload: str, system: str, result: Result) -> None:
        self.results[workload][system].append(result)
        told = {
            "workload": workload,
            "sizes": asdict(self.workloads[workload]),
            "system": system,
            "result": asdict(result),
        }
        with PARTIAL.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def missing(self, workload: str, system: str, reason: str) -> None:
        self.reasons[workload, system] = reason

    def count(self, workload: str, system: str) -> float:
        """How often it was measured; without end where that is not possible."""
        if (workload, system) in self.reasons:
            return float("inf")
        return len(self.results[workload][system])

    @property
    def repeats(self) -> str:
        """How often each was measured, as far as it was."""
        counts = {len(r) for by_system in self.results.values() for r in by_system.values() if r}
        return "-".join(str(n) for n in sorted({min(counts, default=0), max(counts, default=0)}))

    def speed(self, workload: str, system: str) -> float | None:
        """Steps a second, or for latency the median delay in seconds."""
        results = self.results[workload].get(system, [])
        values = [r.latency[0] if r.latency else r.steps_per_second for r in results]
        return statistics.median(v for v in values if v is not None) if values else None

    def median(self, workload: str, system: str, column: str) -> float | None:
        values = [getattr(r, column) for r in self.results[workload].get(system, [])]
        known = [v for v in values if v is not None]
        return statistics.median(known) if known else None

    def latency(self, workload: str, system: str) -> tuple[float, ...] | None:
        """The medians of p50, p95 and p99, in seconds."""
        known = [r.latency for r in self.results[workload].get(system, []) if r.latency]
        return tuple(map(statistics.median, zip(*known, strict=True))) if known else None

    def multiple(self, workload: str, column: str) -> float | None:
        """What a step costs in a large case, as a multiple of the small one."""
        system = self._measured_by(workload)
        large, small = (self.median(name, system, column) for name in (workload, self.workloads[workload].beside))
        return large / small if large and small else None

    def _measured_by(self, workload: str) -> str:
        """As which of ours it was measured: claimants that speak SQL where there are more than two workers."""
        return US if self.results[workload].get(US) else SQL_ALONE

    def markdown(self) -> str:
        """One table of speeds with the ratio to the fastest other, and one of what a step of ours costs."""
        systems = [s for s in self.systems if any(by_system.get(s) for by_system in self.results.values())]
        lines = ["| steps/s | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
        for name, workload in self.workloads.items():
            if workload.shape == "latency":
                cells = [self._delays(name, system) for system in systems]
                lines.append(f"| {name}: p50 / p95 / p99, ms | " + " | ".join(cells) + " |")
            else:
                ours = self.speed(name, US)
                cells = [self._cell(name, system, ours) for system in systems]
                lines.append(
                    f"| {name} ({workload.instances:,} x {workload.steps / workload.instances:,.0f}) | "
                    + " | ".join(cells)
                    + " |"
                )
        lines += [
            "",
            "In brackets: pgtasker's speed as a multiple of that one's.",
            "",
            *self._costs(),
            "",
            *self._flat(),
        ]
        judged = targets.rows(self)
        if judged:
            lines += ["", "| target | where it stands |", "|---|---|", *judged]
        alike: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (name, system), reason in self.reasons.items():
            if reason:
                alike[name, reason].append(system)
        left_out = [f"{', '.join(who)} in {name}: {reason}" for (name, reason), who in alike.items()]
        if left_out:
            lines += ["", f"Not measured: {'; '.join(left_out)}."]
        if self.edges:
            lines += ["", f"What each call writes for a step, {STEPS} steps a call and so one commit for {STEPS}:", ""]
            lines += ["| call | states walked | rows | WAL bytes |", "|---|---|---|---|"]
            lines += [f"| `{e.call}` | {e.walked} | {e.rows:.2f} | {e.wal_bytes:,.0f} |" for e in self.edges]
        return "\n".join(lines)

    def _cell(self, workload: str, system: str, ours: float | None) -> str:
        speed = self.speed(workload, system)
        if speed is None:
            return "-"
        return f"{speed:,.0f}" + (f" ({ours / speed:.2f})" if ours and system != US else "")

    def _delays(self, workload: str, system: str) -> str:
        latency = self.latency(workload, system)
        return " / ".join(f"{1000 * delay:.1f}" for delay in latency) if latency else "-"

    def _costs(self) -> list[str]:
        columns = {
            "created_per_second": ("instances/s made", "{:,.0f}"),
            "server_cpu_per_step": ("server CPU a step, s", "{:.6f}"),
            "wal_bytes_per_step": ("WAL bytes a step", "{:,.0f}"),
            "rows_per_step": ("rows written a step", "{:.1f}"),
            "commits_per_step": ("commits a step", "{:.3f}"),
            "worker_cpu": ("worker CPU", "{:.0%}"),
        }
        lines = [f"| {US} | " + " | ".join(title for title, _ in columns.values()) + " |", "|---" * 7 + "|"]
        for name, workload in self.workloads.items():
            if workload.shape != "latency" and self.results[name].get(US):
                found = [(self.median(name, US, column), form) for column, (_, form) in columns.items()]
                cells = ["-" if value is None else form.format(value) for value, form in found]
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return lines

    def _flat(self) -> list[str]:
        """The large cases beside the small ones."""
        columns = ("server_cpu_per_step", "wal_bytes_per_step", "steps_per_second")
        lines = []
        for name, workload in self.workloads.items():
            ratios = [self.multiple(name, column) for column in columns]
            if any(ratios):
                cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
                lines.append(f"| {name} | {workload.beside} | {self._measured_by(name)} | " + " | ".join(cells) + " |")
        head = ["| large case | small case | by | server CPU a step | WAL bytes a step | steps/s |", "|---" * 6 + "|"]
        return ["The large case as a multiple of the small one:", "", *head, *lines] if lines else []


def write(table: Table) -> None:
    """Put the tables between the marks of the page."""
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    head = (
        f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d} on {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, PostgreSQL {table.server_version}, Python {platform.python_version()}; "
        f"{table.repeats} measurement(s) of each, their median. Peers: {'; '.join(table.peers)}. "
        f"Settings: {settings}.\n\n"
    )
    text = PAGE.read_text("utf-8")
    text = re.sub(
        r"(<!-- measured -->\n).*?(\n<!-- end -->)",
        lambda marks: marks.group(1) + head + table.markdown() + marks.group(2),
        text,
        flags=re.DOTALL,
    )
    PAGE.write_text(text, "utf-8")
