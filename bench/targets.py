"""What pgtasker is to reach beside the others, in one run, and whether it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.report import Table

US, SQL_ALONE, FLOOR = "pgtasker", "pgtasker, SQL alone", "bare loop"
DURABLE = ("DBOS", "Absurd", "pgflow")
OTHERS = (*DURABLE, "Procrastinate", "PgQueuer", "graphile-worker", "pg-boss")
"""Engines and job queues; pgmq alone keeps no state of a job, and stands in the table only."""


def rows(table: Table) -> list[str]:
    """One line of Markdown for each target of which anything was measured."""
    return [
        f"| {what} | {'met' if met else 'not met'}: {told} |" for what, told, met in _judged(table) if told is not None
    ]


def _judged(table: Table) -> Iterator[tuple[str, str | None, bool]]:
    for workload in ("chain of 10", "fan 1-50-1"):
        yield _faster(table, workload, "the fastest engine or job queue", OTHERS, 3)
        yield _faster(table, workload, "the fastest durable workflow engine", DURABLE, 5)
    yield _faster(table, "jobs", "the fastest durable workflow engine", DURABLE, 8)
    yield _faster(table, "jobs", "PgQueuer", ("PgQueuer",), 0.6)
    yield _faster(table, "jobs", "graphile-worker", ("graphile-worker",), 0.4)
    for workload in ("jobs", "chain of 10", "1,000 side by side"):
        yield _faster(table, workload, "the bare loop", (FLOOR,), 0.5)
    yield from _latency(table)
    for name, larger in table.workloads.items():
        if larger.beside and not larger.snapshot:
            ratio = table.multiple(name, "server_cpu_per_step")
            told = None if ratio is None else f"{ratio:.2f}"
            what = f"{name}: server CPU a step at most 1.25 of {larger.beside}"
            yield what, told, ratio is not None and ratio <= 1.25
    held, free = (table.speed(name, US) for name in ("jobs under an old snapshot", "jobs"))
    ratio = held / free if held and free else None
    told = None if ratio is None else f"{ratio:.0%}"
    yield "jobs under an old snapshot: at least 60 % of the speed without", told, ratio is not None and ratio >= 0.6
    busy = table.median("jobs", US, "worker_cpu")
    yield (
        "a Python worker takes less than 25 % of the wall time on jobs",
        None if busy is None else f"{busy:.0%}",
        busy is not None and busy < 0.25,
    )


def _faster(
    table: Table, workload: str, than: str, others: tuple[str, ...], wanted: float
) -> tuple[str, str | None, bool]:
    what = f"{workload}: at least {wanted:g} times the speed of {than}"
    ours = table.speed(workload, US)
    speeds = {name: speed for name in others if (speed := table.speed(workload, name))}
    if not ours or not speeds:
        return what, None, False
    fastest = max(speeds, key=lambda name: speeds[name])
    ratio = ours / speeds[fastest]
    return what, f"{ratio:.2f}" + (f" ({fastest})" if len(others) > 1 else ""), ratio >= wanted


def _latency(table: Table) -> Iterator[tuple[str, str | None, bool]]:
    ours = table.latency("latency", US)
    if ours is None:
        return
    p50, _, p99 = ours
    speeds = {name: speed for name in OTHERS if (speed := table.speed("latency", name))}
    if speeds:
        fastest = min(speeds, key=lambda name: speeds[name])
        told = f"{1000 * p50:.1f} to {1000 * speeds[fastest]:.1f} ms ({fastest})"
        yield "latency: p50 at most that of the fastest", told, p50 <= speeds[fastest]
    yield "latency: p99 under twice p50", f"{p99 / p50:.1f} times", p99 < 2 * p50
