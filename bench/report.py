"""Medians, ratios, and the tables of docs/performance.md."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench.edges import STEPS, Edge
from bench.server import SETTINGS
from bench.workloads import Workload

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
US = "pgtasker"


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
    """What was measured, by workload and system."""

    server_version: str = ""
    repeats: int = 1
    results: dict[str, dict[str, list[Result]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    sizes: dict[str, Workload] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def add(self, workload: Workload, system: str, result: Result) -> None:
        self.sizes[workload.name] = workload
        self.results[workload.name][system].append(result)

    def missing(self, workload: Workload, system: str, reason: str) -> None:
        self.sizes[workload.name] = workload
        self.reasons[workload.name, system] = reason

    def speed(self, workload: str, system: str) -> float | None:
        """Steps a second, or for latency the median delay in seconds."""
        results = self.results[workload].get(system, [])
        values = [r.latency[0] if r.latency else r.steps_per_second for r in results]
        return statistics.median(v for v in values if v is not None) if values else None

    def median(self, workload: str, system: str, column: str) -> float | None:
        values = [getattr(r, column) for r in self.results[workload].get(system, [])]
        known = [v for v in values if v is not None]
        return statistics.median(known) if known else None

    def markdown(self) -> str:
        """One table of speeds with the ratio to the fastest other, and one of what a step of ours costs."""
        systems = list(dict.fromkeys(s for by_system in self.results.values() for s in by_system))
        lines = ["| steps/s | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
        for name, workload in self.sizes.items():
            if workload.shape == "latency":
                cells = [self._latency(name, system) for system in systems]
                lines.append(f"| {name}: p50 / p95 / p99, ms | " + " | ".join(cells) + " |")
            else:
                ours = self.speed(name, US)
                cells = [self._cell(name, system, ours) for system in systems]
                lines.append(
                    f"| {name} ({workload.instances:,} x {workload.steps // workload.instances:,}) | "
                    + " | ".join(cells)
                    + " |"
                )
        lines += ["", "In brackets: pgtasker's speed as a multiple of that one's.", "", *self._costs()]
        if self.edges:
            lines += ["", f"What each call writes for a step, {STEPS} steps a call and so one commit for {STEPS}:", ""]
            lines += ["| call | states walked | rows | WAL bytes |", "|---|---|---|---|"]
            lines += [f"| `{e.call}` | {e.walked} | {e.rows:.2f} | {e.wal_bytes:,.0f} |" for e in self.edges]
        return "\n".join(lines)

    def _cell(self, workload: str, system: str, ours: float | None) -> str:
        speed = self.speed(workload, system)
        if speed is None:
            return self.reasons.get((workload, system), "") or "-"
        return f"{speed:,.0f}" + (f" ({ours / speed:.2f})" if ours and system != US else "")

    def _latency(self, workload: str, system: str) -> str:
        results = [r.latency for r in self.results[workload].get(system, []) if r.latency]
        if not results:
            return self.reasons.get((workload, system), "") or "-"
        return " / ".join(f"{1000 * statistics.median(r[n] for r in results):.1f}" for n in range(3))

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
        for name, workload in self.sizes.items():
            if workload.shape != "latency" and US in self.results[name]:
                found = [(self.median(name, US, column), form) for column, (_, form) in columns.items()]
                cells = [form.format(value) for value, form in found if value is not None]
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return lines


def write(table: Table) -> None:
    """Put the tables between the marks of the page."""
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    head = (
        f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d} on {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, PostgreSQL {table.server_version}, Python {platform.python_version()}; "
        f"{table.repeats} measurement(s) of each, their median. "
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
