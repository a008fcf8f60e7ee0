"""``pgtasker validate-transitions``: does a file of transitions keep to the rules (seed 000, "Validation")?"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter

from pgtasker import graphs
from pgtasker.cli import _output as output
from pgtasker.cli._errors import OK, REFUSED, usage_error
from pgtasker.cli._settings import settings
from pgtasker.validate import Finding, Rules, RulesError, Validator, read_rules, shipped_rules

_PROGRESS_SECONDS = 2.0
_LOOK_AT_CLOCK = 20_000  # lines


def validate_transitions(
    file: Annotated[str, Parameter(name="FILE", help="Transitions as JSON lines ('-': standard input).")],
    /,
    *,
    rules: Annotated[Path | None, Parameter(help="Rules from a file: pgtasker lifecycle export > FILE.")] = None,
    from_database: Annotated[bool, Parameter(negative="", help="Rules from the server in use.")] = False,
    vocabulary: Annotated[str, Parameter(help="The vocabulary of lines that name no lifecycle.")] = "orchestration",
    window: Annotated[
        bool, Parameter(negative="", help="A part of a longer log: entities may start anywhere.")
    ] = False,
    limit: Annotated[int, Parameter(help="Most findings to print; 0 for all. All are counted.")] = 1000,
) -> int:
    """Check any producer's file of transitions: schema, legality, continuity, timestamps, invariants.

    The rules are those shipped with the program unless --rules or --from-database says otherwise; neither needs the
    file to come from this program. Exit code 1 on any finding.
    """
    started = time.monotonic()
    try:
        validator = Validator(_rules(rules, from_database), vocabulary=vocabulary, window=window)
    except RulesError as error:
        raise usage_error(str(error)) from None
    except OSError as error:
        raise usage_error(f"--rules: {error.strerror}: {rules}") from None
    shown: list[Finding] = []
    with _open(file) as stream:
        _check(stream, validator, shown, limit)
    _keep(validator.finish(), shown, limit)

    seconds = time.monotonic() - started
    found = sum(validator.counts.values())
    if settings.json:
        output.emit_json(
            {
                "file": file, "lines": validator.lines, "entities": validator.entities, "seconds": round(seconds, 3),
                "found": found, "counts": dict(validator.counts),
                "findings": [dataclasses.asdict(finding) for finding in shown],
            }
        )  # fmt: skip
    elif found > len(shown):
        output.talk(f"{found - len(shown):,} more findings: --limit 0 prints all")
    if validator.counts["lifecycle"] and rules is None and not from_database:
        output.talk("rules of your own vocabularies: --from-database, or --rules FILE", style="yellow")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in validator.counts.most_common())
    output.talk(
        f"{validator.lines:,} lines, {validator.entities:,} entities, {seconds:.1f} s: "
        + (f"{found:,} findings ({kinds})" if found else "nothing found"),
        style="red" if found else "green",
    )
    return REFUSED if found else OK


def _rules(path: Path | None, from_database: bool) -> Rules:
    if path is not None:
        return read_rules(path)
    if from_database:
        from pgtasker.cli._database import database

        with database() as db:
            return Rules(row["definition"] for row in db.rows("select definition from tasker.vocabularies"))
    return shipped_rules()


def _open(file: str) -> BinaryIO:
    if file == graphs.STANDARD_INPUT:
        return sys.stdin.buffer
    try:
        return open(file, "rb", buffering=1 << 20)
    except OSError as error:
        raise usage_error(f"{error.strerror}: {file}") from None


def _check(stream: BinaryIO, validator: Validator, shown: list[Finding], limit: int) -> None:
    size = os.fstat(stream.fileno()).st_size
    read, next_look, next_report = 0, _LOOK_AT_CLOCK, time.monotonic() + _PROGRESS_SECONDS
    started = time.monotonic()
    feed = validator.feed
    for raw in stream:
        findings = feed(raw)
        if findings:
            _keep(findings, shown, limit)
        read += len(raw)
        if validator.lines >= next_look:
            next_look += _LOOK_AT_CLOCK
            if (now := time.monotonic()) >= next_report:
                next_report = now + _PROGRESS_SECONDS
                part = f" of {size / 2**20:,.0f}" if size else ""
                output.talk(
                    f"{validator.lines:,} lines, {read / 2**20:,.0f}{part} MiB, "
                    f"{validator.lines / (now - started):,.0f} lines/s, {sum(validator.counts.values()):,} findings"
                )


def _keep(findings: list[Finding], shown: list[Finding], limit: int) -> None:
    """Print findings as they come, or keep them for the JSON document."""
    for finding in findings:
        if limit and len(shown) >= limit:
            return
        shown.append(finding)
        if not settings.json:
            allowed = f" (allowed: {', '.join(finding.allowed)})" if finding.allowed else ""
            output.line(f"line {finding.line}: {finding.entity_id or '?'}: {finding.kind}: {finding.message}{allowed}")
