"""`export_transitions`: the event schema of seed 000 for every kind of entity, nothing left out, each in its order."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.kernel.engine import Engine, Row, chain, refused

EVENT_TYPE = {
    "task": "workstream_state_transition",
    "step": "task_state_transition",
    "worker": "worker_state_transition",
    "circuit_breaker": "circuit_breaker_state_transition",
    "custom": "custom_state_transition",
}

LOGS = """
    select task_uuid::text as entity_id, lifecycle, from_state, event, to_state, sort_key, created_at from tasker.task_transitions
    union all
    select workflow_step_uuid::text, lifecycle, from_state, event, to_state, sort_key, created_at
    from tasker.workflow_step_transitions
    union all
    select worker_uuid::text, lifecycle, from_state, event, to_state, sort_key, created_at from tasker.worker_transitions
    union all
    select circuit_breaker_uuid::text, lifecycle, from_state, event, to_state, sort_key, created_at
    from tasker.circuit_breaker_transitions
    union all
    select attachment_uuid || ':' || entity_key, lifecycle, from_state, event, to_state, sort_key, created_at
    from tasker.attached_transitions
"""


def exported(engine: Engine, **arguments: Any) -> list[Row]:
    names = ", ".join(f"p_{name} => %s" for name in arguments)
    return engine.values(f"select tasker.export_transitions({names})", *arguments.values())


def at(line: Row) -> datetime:
    return datetime.fromisoformat(line["timestamp"])


def test_every_row_of_every_log_is_exported_once(history: Engine) -> None:
    lines = exported(history)
    expected = {
        (row["entity_id"], row["sort_key"]): (
            row["lifecycle"],
            row["from_state"],
            row["event"],
            row["to_state"],
            row["created_at"],
        )
        for row in history.rows(LOGS)
    }
    assert len(lines) == len(expected) > 300
    assert {
        (line["entity_id"], line["sort_key"]): (
            line["lifecycle"], line["from_state"], line["trigger"], line["to_state"], at(line),
        )
        for line in lines
    } == expected  # fmt: skip


def test_a_line_has_the_schema_of_the_page(history: Engine, shared: Path) -> None:
    page = (shared / "seeds" / "000_f96f9bc638c39ffa.txt").read_text()
    example = json.loads(re.search(r"## Event Schema.*?```json\n(.*?)```", page, re.DOTALL)[1])  # type: ignore[index]
    kinds = dict(history.conn.execute("select lifecycle, kind from tasker.lifecycles").fetchall())
    severities = example["severity"].split("|")
    for line in exported(history):
        assert set(example) <= set(line)
        assert set(example["metadata"]) <= set(line["metadata"])
        for name, value in example.items():
            assert isinstance(line[name], type(value)) or (name == "from_state" and line["sort_key"] == 1)
        assert line["severity"] in severities
        assert line["event_type"] == EVENT_TYPE[kinds[line["lifecycle"]]]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"])
    assert set(example["event_type"].split("|")) <= {line["event_type"] for line in exported(history)}
    assert {line["event_type"] for line in exported(history)} == set(EVENT_TYPE.values())


def test_entities_come_one_after_the_other_each_in_its_order(history: Engine) -> None:
    seen: set[str] = set()
    before: Row | None = None
    for line in exported(history):
        if before is None or line["entity_id"] != before["entity_id"]:
            assert line["entity_id"] not in seen
            seen.add(line["entity_id"])
            assert (line["sort_key"], line["from_state"], line["trigger"]) == (1, None, "create")
            assert line["metadata"]["duration_seconds"] == 0
        else:
            assert line["sort_key"] == before["sort_key"] + 1
            assert line["from_state"] == before["to_state"]
            passed = (at(line) - at(before)) / timedelta(seconds=1)
            assert line["metadata"]["duration_seconds"] == pytest.approx(passed, abs=1e-9)
        before = line


def test_severity_is_that_of_the_rule(history: Engine) -> None:
    rules = {
        (row["lifecycle"], row["from_state"], row["event"], row["to_state"]): row["severity"]
        for row in history.rows("select * from tasker.lifecycle_transitions")
    }
    lines = exported(history)
    for line in lines:
        if line["from_state"] is not None:
            rule = line["lifecycle"], line["from_state"], line["trigger"], line["to_state"]
            assert line["severity"] == rules[rule]
    assert {line["severity"] for line in lines} >= {"info", "warning", "error"}


def test_retry_count_goes_up_when_a_retry_is_scheduled(history: Engine) -> None:
    """Seed 000, running to retrying: "Increment retry_count"."""
    counts: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in exported(history):
        if line["lifecycle"] == "orchestration.task":
            counts[line["entity_id"]].append((line["to_state"], line["metadata"]["retry_count"]))
    (retried,) = (states for states in counts.values() if ("retrying", 1) in states)
    assert retried == [
        ("pending", 0), ("queued", 0), ("running", 0), ("retrying", 1), ("queued", 1), ("running", 1), ("validating", 1),
        ("completed", 1),
    ]  # fmt: skip


def test_results_and_errors_stay_in_the_database(history: Engine) -> None:
    text = json.dumps(exported(history))
    assert "it is wrong" not in text
    assert "claim_uuid" not in text
    reasons = [line["metadata"].get("reason") for line in exported(history) if line["trigger"] == "user_cancelled"]
    assert "a test" in reasons


def test_periods_that_follow_each_other_hold_everything_once(history: Engine) -> None:
    everything = exported(history)
    moments = sorted(at(line) for line in everything)
    cuts = [None, *moments[:: len(moments) // 5], None]
    parts = [line for after, until in itertools.pairwise(cuts) for line in exported(history, after=after, until=until)]
    assert sorted(map(str, parts)) == sorted(map(str, everything))


def test_a_period_knows_how_long_the_state_before_it_lasted(history: Engine) -> None:
    everything = exported(history)
    after = sorted(at(line) for line in everything)[len(everything) // 2]
    part = exported(history, after=after)
    assert part == [line for line in everything if at(line) > after]


def test_a_namespace_alone(engine: Engine) -> None:
    ours = engine.task(chain("a"), namespace="ours")
    engine.task(chain("b"), namespace="theirs")
    engine.worker()
    lines = exported(engine, namespace="ours")
    assert {line["task_id"] for line in lines} == {str(ours)}
    assert {line["namespace"] for line in lines} == {"ours"}
    assert exported(engine, namespace="nobody's") == []


def test_the_export_reads_along_indexes(history: Engine) -> None:
    """Entities come in the order of an index, so no log is sorted or hashed whole."""
    (body,) = history.values("select prosrc from pg_proc where proname = 'export_transitions'")
    plain = re.sub(r"\bp_(?:after|until)\b", "null::timestamptz", re.sub(r"\bp_namespace\b", "null::text", body))
    with history.conn.transaction(force_rollback=True):
        for method in ("seqscan", "hashjoin", "sort"):  # on logs as small as these they would be cheaper
            history.run(f"set local enable_{method} = off")
        plan = "\n".join(row[0] for row in history.conn.execute(f"explain {plain}".encode()).fetchall())
    # which of the two indexes that hold one row a task does not matter
    assert re.search(r"task_transitions_(most_recent|state)_idx", plan)
    assert "workflow_step_transitions_most_recent_idx" in plan
    assert "Hash" not in plan


def test_who_may_export(engine: Engine, as_role: Callable[[str], Any]) -> None:
    engine.task(chain("a"))
    for role in ("tasker_client", "tasker_operator", "tasker_auditor"):
        assert exported(Engine(as_role(role))) == exported(engine)
    for role in ("tasker_worker", "tasker_monitor"):
        with refused("42501"):
            exported(Engine(as_role(role)))


# -- the command


def test_the_command_prints_what_the_function_returns(lived: str, history: Engine, run_cli: Cli) -> None:
    ran = run_cli("export", PGTASKER_DSN=lived)
    assert ran.json_lines == exported(history)
    assert f"{len(ran.json_lines):,} transitions" in ran.stderr


def test_what_json_escapes_comes_out_as_json(engine: Engine, cli: Cli) -> None:
    """The text format of COPY would double every backslash."""
    task = engine.task([], start=False)
    reason = 'a "quote", a \\ and a\nline'
    engine.one("select tasker.cancel_task(%s, %s, 'ada')", task, reason)
    (line,) = [line for line in cli("export").json_lines if line["trigger"] == "cancel"]
    assert line["metadata"]["reason"] == reason


def test_the_command_takes_a_period_and_a_namespace(lived: str, history: Engine, run_cli: Cli) -> None:
    everything = exported(history)
    after = sorted(at(line) for line in everything)[100]
    ran = run_cli("export", "--since", after.isoformat(), PGTASKER_DSN=lived)
    assert ran.json_lines == [line for line in everything if at(line) > after]
    assert run_cli("export", "--namespace", "default", PGTASKER_DSN=lived).json_lines == [
        line for line in everything if line.get("namespace") == "default"
    ]
    assert run_cli("export", "--until", "yesterday at noon", PGTASKER_DSN=lived, expect=1).stdout == ""


def test_rules_are_exported_as_they_were_defined(lived: str, history: Engine, run_cli: Cli) -> None:
    stored = history.values("select definition from tasker.vocabularies order by vocabulary")
    assert run_cli("lifecycle", "export", PGTASKER_DSN=lived).json == stored
    (order,) = run_cli("lifecycle", "export", "order", PGTASKER_DSN=lived).json
    assert order["vocabulary"] == "order"
    assert "nothing" in run_cli("lifecycle", "export", "nothing", PGTASKER_DSN=lived, expect=1).stderr
