"""The validator: nothing said against our own export, every planted fault named with what would have been right."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgtasker import validate
from pgtasker.validate import Finding, Rules, Validator, read_rules, shipped_rules
from tests.cli.conftest import Cli
from tests.conftest import ROOT
from tests.kernel.engine import Engine, Row


def line(
    from_state: str | None, trigger: str, to_state: str, second: int, entity: str = "task-1", **changes: Any
) -> Row:
    return {
        "timestamp": f"2024-01-15T10:30:{second:02}.000Z",
        "event_type": "task_state_transition",
        "severity": "info",
        "entity_id": entity,
        "from_state": from_state,
        "to_state": to_state,
        "trigger": trigger,
        "metadata": {"duration_seconds": 1, "retry_count": 0},
        **changes,
    }


GOOD = [
    line("pending", "scheduler_assigned", "queued", 1),
    line("queued", "worker_started", "running", 2),
    line("running", "execution_completed", "validating", 3),
    line("validating", "validation_passed", "completed", 4),
]
"""A task as another producer of seed 000 would log it: no row of creation, no keys of ours."""


def check(lines: list[Any], rules: Rules | None = None, **options: Any) -> list[Finding]:
    validator = Validator(rules or shipped_rules(), **options)
    found = [
        finding for body in lines for finding in validator.feed(body if isinstance(body, str) else json.dumps(body))
    ]
    return found + validator.finish()


def planted(place: int, **changes: Any) -> list[Row]:
    """GOOD with one line changed; a key of None goes, but for from_state."""
    lines = copy.deepcopy(GOOD)
    for key, value in changes.items():
        if key == "metadata" and isinstance(value, dict):
            lines[place]["metadata"].update(value)
        elif value is None and key != "from_state":
            del lines[place][key]
        else:
            lines[place][key] = value
    return lines


# -- what is right


def test_our_own_export_has_no_findings(history: Engine) -> None:
    lines = history.values("select tasker.export_transitions()")
    rules = Rules(history.values("select definition from tasker.vocabularies"))
    assert len({row["lifecycle"] for row in lines}) == 12
    assert check(lines, rules) == []


def test_a_part_of_a_log_has_none_as_a_window(history: Engine) -> None:
    lines = history.values("select tasker.export_transitions()")
    rules = Rules(history.values("select definition from tasker.vocabularies"))
    middle = sorted(row["timestamp"] for row in lines)[len(lines) // 2]
    later = [row for row in lines if row["timestamp"] > middle]
    assert check(later, rules, window=True) == []
    assert {finding.kind for finding in check(later, rules)} == {"continuity"}


def test_a_file_of_another_producer_is_read_by_the_page(shared: Path) -> None:
    assert check(GOOD) == []
    assert check([line(None, "create", "pending", 0), *GOOD]) == []
    page = (shared / "seeds" / "000_f96f9bc638c39ffa.txt").read_text()
    example = json.loads(page.split("```json\n")[1].split("```")[0])
    # the example of the page gives alternatives, and shows a move that its own diagram has not
    (schema, move) = {finding.kind for finding in check([example])}, {finding.message for finding in check([example])}
    assert schema == {"schema"}
    assert len(move) == 2


def test_workstreams_and_workers_by_their_event_types() -> None:
    workstream = {"event_type": "workstream_state_transition"}
    worker = {"event_type": "worker_state_transition"}
    assert (
        check(
            [
                line("planned", "all_tasks_created", "ready", 1, "ws-1", **workstream),
                line("ready", "first_task_started", "executing", 2, "ws-1", **workstream),
                line("executing", "critical_task_failed", "failed", 3, "ws-1", severity="critical", **workstream),
                line("initializing", "registration_complete", "idle", 1, "w", **worker),
                line("idle", "task_assigned", "busy", 1, "w", **worker),
            ]
        )
        == []
    )


def test_another_vocabulary_may_be_meant() -> None:
    lines = [
        line("S_PENDING", "dependencies_met", "S_RUNNING", 1),
        line("S_RUNNING", "success", "S_SUCCESS", 2),
        line("CLOSED", "failure_threshold_exceeded", "OPEN", 2, "tool", event_type="circuit_breaker_state_transition"),
    ]
    assert check(lines, vocabulary="pipeline") == []
    assert {finding.kind for finding in check(lines)} == {"legality", "continuity", "lifecycle"}
    with pytest.raises(validate.RulesError, match="there is no vocabulary"):
        check(lines, vocabulary="nothing")


def test_empty_lines_are_nothing() -> None:
    assert check(["", *map(json.dumps, GOOD), "  \n"]) == []


@pytest.mark.parametrize("timestamp", ["2024-02-29T23:59:59Z", "2024-01-15T10:30:00.1Z", "2024-01-15T10:30:00.123456Z"])
def test_times(timestamp: str) -> None:
    assert check(planted(0, timestamp=timestamp)[:1]) == []


# -- what is wrong

SCHEMA: dict[str, tuple[Row, str]] = {
    "no timestamp": ({"timestamp": None}, "timestamp is missing"),
    "a time zone": ({"timestamp": "2024-01-15T10:30:01+01:00"}, "timestamp is"),
    "no such day": ({"timestamp": "2023-02-29T10:30:01Z"}, "timestamp is"),
    "no such hour": ({"timestamp": "2024-01-15T24:30:01Z"}, "timestamp is"),
    "a number": ({"timestamp": 1705314600}, "timestamp is 1705314600"),
    "event type": ({"event_type": "task"}, 'event_type is "task"'),
    "an event type that is a list": ({"event_type": []}, "event_type is []"),
    "no severity": ({"severity": None}, "severity is missing"),
    "severity": ({"severity": "fatal"}, 'severity is "fatal"'),
    "no entity": ({"entity_id": ""}, 'entity_id is ""'),
    "an entity that is a number": ({"entity_id": 7}, "entity_id is 7"),
    "a state that is a number": ({"to_state": 7}, "to_state is 7"),
    "a start that is a list": ({"from_state": ["pending"]}, "from_state is"),
    "no trigger": ({"trigger": None}, "trigger is missing"),
    "no metadata": ({"metadata": None}, "metadata is missing"),
    "metadata that is a list": ({"metadata": [1]}, "metadata is [1]"),
    "negative duration": ({"metadata": {"duration_seconds": -1}}, "metadata.duration_seconds is -1"),
    "duration as text": ({"metadata": {"duration_seconds": "45"}}, 'metadata.duration_seconds is "45"'),
    "retries as fraction": ({"metadata": {"retry_count": 0.5}}, "metadata.retry_count is 0.5"),
    "retries as truth": ({"metadata": {"retry_count": True}}, "metadata.retry_count is true"),
}


@pytest.mark.parametrize("fault", SCHEMA)
def test_a_line_that_breaks_the_schema(fault: str) -> None:
    changes, message = SCHEMA[fault]
    lines = planted(1, **changes)
    found = [finding for finding in check(lines) if finding.kind == "schema"]
    assert len(found) == 1
    assert found[0].line == 2
    assert found[0].message.startswith(message)
    assert found[0].allowed, "what would have been right"


@pytest.mark.parametrize("text", ["{", "null", "[]", '"text"', "\ufeff{}", "{} {}"])
def test_a_line_that_is_no_object(text: str) -> None:
    found = check([*GOOD[:1], text, *GOOD[1:]])
    assert [(finding.line, finding.entity_id) for finding in found] == [(2, None)]
    assert found[0].kind in ("json", "schema")


def test_every_problem_of_a_line_is_named() -> None:
    assert len(check(["{}"])) == 8


FAULTS: dict[str, tuple[list[Row], list[tuple[int, str, str, tuple[str, ...]]]]] = {
    "no such edge": (
        [GOOD[0], line("queued", "worker_started", "validating", 2), *GOOD[3:]],
        [(2, "legality", "no transition leads from queued to validating",
          ("user_cancelled to cancelled", "worker_started to running"))],
    ),
    "the wrong trigger": (
        planted(2, trigger="execution_failed"),
        [(3, "legality", "execution_failed does not lead from running to validating",
          ("execution_completed to validating", "execution_failed to failed", "execution_failed to retrying",
           "user_cancelled to cancelled"))],
    ),
    "no such state": (
        [*GOOD[:1], line("queued", "worker_started", "done", 4)],
        [(2, "legality", "done: no state of orchestration.task",
          ("user_cancelled to cancelled", "worker_started to running"))],
    ),
    "out of a terminal state": (
        [*GOOD, line("completed", "scheduler_assigned", "queued", 5)],
        [(5, "terminal", "completed is terminal: scheduler_assigned leads nowhere", ())],
    ),
    "a gap": (
        [GOOD[0], *GOOD[2:]],
        [(2, "continuity", "starts in running, but it was in queued", ("start in queued",))],
    ),
    "created twice": (
        [line(None, "create", "pending", 0), line(None, "create", "pending", 1)],
        [(2, "continuity", "starts in nothing, but it was in pending", ("start in pending",))],
    ),
    "created elsewhere": (
        [line(None, "create", "queued", 0)],
        [(1, "legality", "create to queued does not create it", ("create to pending",))],
    ),
    "begun elsewhere": (
        GOOD[1:],
        [(1, "continuity", "its first row starts in queued, not in the initial state",
          ("start in pending", "a part of a longer log: --window"))],
    ),
    "back in time": (
        planted(2, timestamp="2024-01-15T10:30:01.999Z"),
        [(3, "timestamp", "2024-01-15T10:30:01.999000Z is before its previous row", ("2024-01-15T10:30:02.000000Z or later",))],
    ),
    "too many retries": (
        planted(1, metadata={"retry_count": 4, "max_retries": 3}),
        [(2, "invariant", "retry_count 4 exceeds max_retries 3", ("retry_count up to 3",))],
    ),
    "a lifecycle that is not there": (
        [line("pending", "scheduler_assigned", "queued", 1, lifecycle="nothing.task")],
        [(1, "lifecycle", 'unknown lifecycle "nothing.task"',
          ("execution.task", "orchestration.task", "pipeline.step", "tasker.workflow_step"))],
    ),
    "a lifecycle of something else": (
        [line("pending", "scheduler_assigned", "queued", 1, lifecycle="orchestration.worker")],
        [(1, "lifecycle", "orchestration.worker is no lifecycle of a task_state_transition",
          ("execution.task", "orchestration.task", "pipeline.step", "tasker.workflow_step"))],
    ),
    "a row that was taken out of a loop": (
        [
            line(None, "create", "CLOSED", 0, "b", event_type="circuit_breaker_state_transition",
                 lifecycle="pipeline.circuit_breaker", sort_key=1),
            line("CLOSED", "failure_threshold_exceeded", "OPEN", 1, "b", event_type="circuit_breaker_state_transition",
                 lifecycle="pipeline.circuit_breaker", sort_key=4),
        ],
        [(2, "continuity", "sort_key 4 follows 1", ("sort_key 2",))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    lines, expected = FAULTS[fault]
    found = check(lines)
    entity = lines[0]["entity_id"]
    assert [(f.line, f.kind, f.message, f.allowed) for f in found if f.entity_id == entity] == expected
    assert len(found) == len(expected)


def test_a_workstream_is_done_only_when_its_tasks_are() -> None:
    """Seed 000: can only reach `completed` if all tasks `completed`."""
    workstream = [
        line("planned", "all_tasks_created", "ready", 1, "ws", event_type="workstream_state_transition"),
        line("ready", "first_task_started", "executing", 2, "ws", event_type="workstream_state_transition"),
        line("executing", "all_tasks_completed", "validating", 3, "ws", event_type="workstream_state_transition"),
        line("validating", "validation_passed", "completed", 4, "ws", event_type="workstream_state_transition"),
    ]
    tasks = [{**body, "task_id": "ws"} for body in GOOD]
    assert check([*tasks, *workstream]) == check([*workstream, *tasks]) == []
    (found,) = check([*workstream, *tasks[:3]])
    assert (found.kind, found.line, found.entity_id) == ("invariant", 7, "task-1")
    assert check([*workstream, *({**body, "optional": True} for body in tasks[:3])]) == []


# -- the fast way and the careful way


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_way_says_what_the_careful_way_says(
    history: Engine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    lines = history.values("select tasker.export_transitions()")
    values: list[Any] = [None, "", "x", 0, -1, 1.5, True, [], {}, "pending", "info", "2024-01-15T10:30:00Z"]
    for _ in range(30):
        place = dice.randrange(len(lines))
        body = lines[place]
        match dice.randrange(5):
            case 0:
                holder = dice.choice([body, body["metadata"]]) if isinstance(body.get("metadata"), dict) else body
                if holder:
                    holder[dice.choice(sorted(holder))] = dice.choice(values)
            case 1:
                body.pop(dice.choice(sorted(body)), None)
            case 2:
                lines.insert(dice.randrange(len(lines)), copy.deepcopy(body))
            case 3:
                del lines[place]
            case 4:
                other = dice.choice(lines)
                for key in dice.sample(sorted(set(body) & set(other)), k=min(2, len(set(body) & set(other)))):
                    body[key] = other[key]
    rules = Rules(history.values("select definition from tasker.vocabularies"))
    fast = check(lines, rules)
    monkeypatch.setattr(Validator, "_is_right", lambda *_: False)
    assert check(lines, rules) == fast
    assert fast


# -- rules


def test_the_shipped_rules_are_those_of_the_database(engine: Engine) -> None:
    stored = Rules(engine.values("select definition from tasker.vocabularies"))
    shipped = shipped_rules()
    assert shipped.vocabularies == stored.vocabularies
    assert shipped.machines().keys() == stored.machines().keys()
    for name, machine in shipped.machines().items():
        assert machine.edges == stored.machines()[name].edges
    edges = engine.rows("select * from tasker.lifecycle_transitions")
    assert {(row["lifecycle"], row["from_state"], row["event"], row["to_state"]) for row in edges} == {
        (name, *edge) for name, machine in shipped.machines().items() for edge in machine.edges
    }


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"vocabulary": "x"}]', '[{"lifecycles": [{}]}]'])
def test_a_file_that_holds_no_rules(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(validate.RulesError):
        read_rules(path)


# -- the command

Write = Callable[[list[Row]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(lines: list[Row]) -> Path:
        path = tmp_path / "transitions.jsonl"
        path.write_text("".join(json.dumps(body) + "\n" for body in lines))
        return path

    return to_file


NO_SERVER = {"PGTASKER_DSN": "postgresql://nowhere.invalid/"}


def test_the_command_on_a_good_file(write: Write, run_cli: Cli) -> None:
    ran = run_cli("validate-transitions", write(GOOD), **NO_SERVER)
    assert ran.stdout == ""
    assert "4 lines, 1 entities" in ran.stderr
    assert "nothing found" in ran.stderr


def test_the_command_on_a_bad_file(write: Write, run_cli: Cli) -> None:
    lines, _ = FAULTS["the wrong trigger"]
    ran = run_cli("validate-transitions", write(lines), expect=1, **NO_SERVER)
    assert ran.stdout == (
        "line 3: task-1: legality: execution_failed does not lead from running to validating (allowed: execution_completed"
        " to validating, execution_failed to failed, execution_failed to retrying, user_cancelled to cancelled)\n"
    )
    assert "1 findings (1 legality)" in ran.stderr


def test_the_command_as_json_and_from_standard_input(run_cli: Cli) -> None:
    text = "".join(json.dumps(body) + "\n" for body in GOOD[1:])
    ran = run_cli("--json", "validate-transitions", "-", stdin=text, expect=1, **NO_SERVER)
    assert ran.json["counts"] == {"continuity": 1}
    assert (ran.json["lines"], ran.json["entities"], ran.json["found"]) == (3, 1, 1)
    (finding,) = ran.json["findings"]
    assert set(finding) == {"line", "kind", "entity_id", "message", "allowed"}


def test_the_command_prints_so_many_and_counts_all(write: Write, run_cli: Cli) -> None:
    lines = [line("queued", "x", "y", 1, f"t{n}") for n in range(10)]
    ran = run_cli("validate-transitions", write(lines), "--limit", 3, expect=1, **NO_SERVER)
    assert len(ran.stdout.splitlines()) == 3
    assert "17 more findings" in ran.stderr
    every = run_cli("validate-transitions", write(lines), "--limit", 0, expect=1, **NO_SERVER)
    assert len(every.stdout.splitlines()) == 20


def test_export_and_check_end_to_end(lived: str, tmp_path: Path, run_cli: Cli) -> None:
    transitions, rules = tmp_path / "t.jsonl", tmp_path / "rules.json"
    transitions.write_text(run_cli("export", PGTASKER_DSN=lived).stdout)
    rules.write_text(run_cli("lifecycle", "export", "--format", "json", PGTASKER_DSN=lived).stdout)
    run_cli("validate-transitions", transitions, "--rules", rules, **NO_SERVER)
    run_cli("validate-transitions", transitions, "--from-database", PGTASKER_DSN=lived)
    without = run_cli("validate-transitions", transitions, expect=1, **NO_SERVER)
    assert 'unknown lifecycle "order.order"' in without.stdout
    assert "--from-database" in without.stderr


@pytest.mark.parametrize(
    "options", [["/no/such/file"], ["--vocabulary", "nothing", __file__], ["--rules", __file__, __file__]]
)
def test_wrong_usage(options: list[str], run_cli: Cli) -> None:
    run_cli("validate-transitions", *options, expect=2, **NO_SERVER)


def test_the_path_that_the_page_names(write: Write) -> None:
    script = ROOT / "scripts" / "validate" / "validate_state_transitions.py"

    def ran(lines: list[Row]) -> int:
        command = [sys.executable, str(script), str(write(lines))]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert ran(GOOD) == 0
    assert ran(GOOD[1:]) == 1
