"""The rules of seeds 000 to 003 are those that their documents print, edge by edge, both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.vocabularies import pages
from tests.vocabularies.lab import Lab
from tests.vocabularies.pages import Edge

LIFECYCLES = [
    "orchestration.task", "orchestration.workstream", "orchestration.worker", "pipeline.workstream", "pipeline.step",
    "pipeline.circuit_breaker", "execution.task", "supervision.worker", "supervision.job",
]  # fmt: skip

# Edges that no diagram or table prints, each with the sentence of the page that asks for it.
_REST = "Actions of executing → failed and of user_cancelled: Cancel remaining tasks"
_PARENT = "CANCELLED, Entry Conditions: Explicit cancel request, Parent workstream cancelled"
ADDITIONS: dict[str, dict[Edge, str]] = {
    "orchestration.task": {
        (state, "user_cancelled", "cancelled"): _REST for state in ("pending", "queued", "retrying", "validating")
    },
    "orchestration.workstream": {
        ("ready", "all_tasks_completed", "validating"):
            "validating: All tasks completed. Nothing of it had to run, so that no task is ever started",
    },
    "pipeline.step": {
        ("S_FAILED", "manual_reset", "S_PENDING"): "Recovery 2: SET retry_count = 0, state = 'S_PENDING'",
        ("S_FAILED", "skip_step", "S_SUCCESS"): "Recovery 2: Or skip failed step",
    },
    "pipeline.circuit_breaker": {
        ("OPEN", "reset_circuit", "CLOSED"): "Recovery 3: manually reset circuit breaker",
        ("HALF_OPEN", "reset_circuit", "CLOSED"): "Recovery 3: manually reset circuit breaker",
    },
    "execution.task": {
        ("CIRCUIT_OPEN", "manual_reset", "PENDING"): "CIRCUIT_OPEN, Exit Conditions: Manual intervention/reset → PENDING",
        ("CIRCUIT_OPEN", "workstream_cancelled", "CANCELLED"):
            "CIRCUIT_OPEN, Exit Conditions: Workstream cancelled → CANCELLED",
        **{(state, "workstream_cancelled", "CANCELLED"): _PARENT for state in ("VALIDATING", "RETRYING", "HALF_OPEN")},
        ("PENDING", "step_skipped", "SKIPPED"): "SKIPPED, Entry Conditions: Step marked optional and skipped",
    },
}  # fmt: skip

# Terminal states where the page's own marks disagree: the choice and its reason.
TERMINAL_EXCEPTIONS = {
    # drawn as an end ("Manual Intervention"), but drawn and described with three ways out
    "execution.task": {"CIRCUIT_OPEN"},
}


def stored(rules: Lab, lifecycle: str, additions: bool) -> set[Edge]:
    rows = rules.rows(
        "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = %s and is_addition = %s",
        lifecycle, additions,
    )  # fmt: skip
    return {tuple(row.values()) for row in rows}


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_the_edges_are_those_of_the_page(rules: Lab, shared: Path, lifecycle: str) -> None:
    page = pages.pages(shared)[lifecycle]
    assert stored(rules, lifecycle, additions=False) == page.edges


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_every_addition_has_a_sentence_of_the_page_behind_it(rules: Lab, lifecycle: str) -> None:
    assert stored(rules, lifecycle, additions=True) == set(ADDITIONS.get(lifecycle, {}))


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_the_states_are_those_of_the_page(rules: Lab, shared: Path, lifecycle: str) -> None:
    page = pages.pages(shared)[lifecycle]
    drawn = {state for start, _, end in page.edges for state in (start, end)}
    rows = {
        row["state"]: row
        for row in rules.rows(
            "select state, description, is_terminal from tasker.lifecycle_states where lifecycle = %s order by ordinal",
            lifecycle,
        )
    }
    assert set(rows) == (set(page.states) or drawn) == drawn
    assert rules.one("select initial_state from tasker.lifecycles where lifecycle = %s", lifecycle) == page.initial
    terminal = {state for state, row in rows.items() if row["is_terminal"]}
    assert terminal == page.terminal - TERMINAL_EXCEPTIONS.get(lifecycle, set())
    if page.states:
        assert list(rows) == list(page.states), "in the order of the page"
        for state, description in page.states.items():
            assert rows[state]["description"] == description, state


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_the_events_are_the_triggers_of_the_page(rules: Lab, shared: Path, lifecycle: str) -> None:
    page = pages.pages(shared)[lifecycle]
    added = {event for _, event, _ in ADDITIONS.get(lifecycle, {})}
    listed = set(rules.column("select event from tasker.lifecycle_events where lifecycle = %s", lifecycle))
    assert listed == {event for _, event, _ in page.edges} | added


def test_every_state_of_seed_002_is_described_as_the_diagram_has_it(rules: Lab, shared: Path) -> None:
    """Exit conditions name their target: each of them is an edge, drawn or added."""
    legal = stored(rules, "execution.task", additions=False) | stored(rules, "execution.task", additions=True)
    pairs = {(start, end) for start, _, end in legal}
    described = pages.described_002(shared)
    assert set(described) == {state for pair in pairs for state in pair}
    for state, parts in described.items():
        for line in parts["Exit Conditions"]:
            if match := re.search(r"→ (\w+)", line):
                assert (state, match[1]) in pairs, line
            else:
                assert line == "None (terminal state)"


# What the guard sentences of seed 000 are here. A guard that is no condition of the rule is one of the place where the
# operation is done: the registration, the claim, the missed heartbeat.
GUARDS_000 = {
    "Task dependencies satisfied": "dependencies_satisfied",
    "Worker with required capabilities available": "not_in_progress",
    "Worker reports exit_code == 0": "work_succeeded",
    "`retry_count < max_retries`": "retries_left",
    "`retry_count >= max_retries`": "retries_exhausted",
    "All post_execution rules pass": "always",
    "Any post_execution rule fails": "always",
    "Task count matches workstream specification": "always",
    "At least one task transitioned to `running`": "always",
    "All tasks in `completed` state, no failures": "all_steps_satisfied",
    "Critical task reached `failed` state": "critical_step_failed",
    "Final validation successful": "validated",
    "Worker capabilities registered with orchestrator": "always",
    "Task requires capabilities worker provides": "always",
    "Task finished (success or failure)": "holds_nothing",
    "Worker missed N consecutive health checks": "always",
    "Worker responds to health check": "always",
}


@pytest.mark.parametrize(
    ("lifecycle", "heading", "until"),
    [
        ("orchestration.task", "## Task Lifecycle State Machine", "## Workstream Lifecycle State Machine"),
        ("orchestration.workstream", "## Workstream Lifecycle State Machine", "## Worker State Machine"),
        ("orchestration.worker", "## Worker State Machine", "## Event Schema"),
    ],
)
def test_guards_and_severities_of_seed_000(rules: Lab, shared: Path, lifecycle: str, heading: str, until: str) -> None:
    details = pages.details_000(pages.between(pages.text(shared, "000"), heading, until))
    assert len(details) >= 5
    for (start, event, end), detail in details.items():
        rule = rules.row(
            "select guard, severity from tasker.lifecycle_transitions"
            " where lifecycle = %s and from_state = %s and event = %s and to_state = %s",
            lifecycle, start, event, end,
        )  # fmt: skip
        assert rule["guard"] == GUARDS_000[detail["guard"]], detail["guard"]
        severity = re.search(r'severity="(\w+)"', detail["actions"])
        assert rule["severity"] == (severity[1] if severity else "info"), (start, event)


def test_retry_guards_of_seed_001(rules: Lab, shared: Path) -> None:
    notes = pages.pages(shared)["pipeline.workstream"].notes | pages.pages(shared)["pipeline.step"].notes
    guards = {
        ("S_FAILED", "retry_eligible", "S_RETRYING"): {"task_retries_left", "retries_left"},
        ("S_FAILED", "abandon", "S_ABANDONED"): {"task_retries_exhausted"},
        ("S_RUNNING", "all_steps_succeed", "S_SUCCESS"): {"all_steps_satisfied"},
        ("S_RUNNING", "step_fails", "S_FAILED"): {"any_step_failed"},
        ("S_PENDING", "dependencies_met", "S_RUNNING"): {"startable"},
    }
    for edge, expected in guards.items():
        assert edge in notes
        found = rules.column(
            "select guard from tasker.lifecycle_transitions where lifecycle like 'pipeline.%%'"
            " and from_state = %s and event = %s and to_state = %s",
            *edge,
        )
        assert set(found) == expected, edge


def test_the_five_vocabularies_name_their_lifecycles(rules: Lab) -> None:
    rows = rules.rows(
        "select vocabulary, task_lifecycle, step_lifecycle, worker_lifecycle, circuit_breaker_lifecycle"
        " from tasker.vocabularies order by vocabulary"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("execution", "pipeline.workstream", "execution.task", "orchestration.worker", "pipeline.circuit_breaker"),
        ("orchestration", "orchestration.workstream", "orchestration.task", "orchestration.worker", None),
        ("pipeline", "pipeline.workstream", "pipeline.step", None, "pipeline.circuit_breaker"),
        ("supervision", "supervision.job", "tasker.workflow_step", "supervision.worker", None),
        ("tasker", "tasker.task", "tasker.workflow_step", "orchestration.worker", "pipeline.circuit_breaker"),
    ]
    # eleven lifecycles: nine of these pages and two of seed 004
    assert set(rules.column("select lifecycle from tasker.lifecycles")) == {
        *LIFECYCLES, "tasker.task", "tasker.workflow_step",
    }  # fmt: skip
