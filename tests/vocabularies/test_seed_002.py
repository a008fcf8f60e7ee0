"""Seed 002: backoff, error categories, circuits, skipped dependents, timeouts, checkpoints, and every configuration key."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from tests.vocabularies import pages
from tests.vocabularies.lab import Lab, refused
from tests.workflow.engine import BY, Row, report_of, step

BROKEN: Row = {"success": False, "error": {"type": "io", "message": "it broke"}, "category": "transient"}
WRONG: Row = {"success": False, "error": {"type": "syntax", "message": "it is wrong"}, "category": "permanent"}
CHECK = [{"type": "command", "command": "true"}]


def run(lab: Lab, *steps: Row, **fields: object) -> UUID:
    return lab.create({"name": "ws", "vocabulary": "execution", "steps": list(steps), **fields})


def attempt(lab: Lab, outcome: Row, count: int = 1) -> list[Row]:
    lab.settle()
    claims = lab.claim()
    assert len(claims) == count
    for claimed in claims:
        lab.run_step(claimed, outcome)
    lab.settle()
    return claims


# -- every key of the configuration block


def configuration(shared: Path) -> dict[str, str]:
    """The keys of the YAML block with their values, nested ones with dots."""
    block = re.search(r"## Configuration Options\n\n```yaml\n(.*?)```", pages.text(shared, "002"), re.S)
    assert block
    found: dict[str, str] = {}
    way: list[str] = []
    for line in block[1].splitlines():
        match = re.fullmatch(r"( *)(\w+):\s*([^#]*?)\s*(?:#.*)?", line)
        if match:
            way = [*way[: len(match[1]) // 2], match[2]]
            if match[3]:
                found[".".join(way[1:])] = match[3]
    return found


# key -> where it is: a field of a workflow definition, an argument of a function, or what the engine always does
CONFIGURATION = {
    "default_timeout": ("300", "step field timeout_seconds"),
    "validation_timeout": ("30", "acceptance[].timeout, 30 s unless a check says otherwise: the worker's"),
    "max_attempts": ("5", "step field max_attempts"),
    "base_retry_delay": ("2", "step field retry.base_delay"),
    "max_retry_delay": ("60", "step field retry.max_delay"),
    "jitter_percentage": ("25", "step field retry.jitter, a fraction"),
    "circuit_breaker.enabled": ("true", "a tool has a breaker once configure_breaker was called for it"),
    "circuit_breaker.max_error_repeats": ("2", "configure_breaker(p_max_error_repeats)"),
    "circuit_breaker.cooldown_period": ("60", "configure_breaker(p_cooldown); 60 s for a step whose tool has none"),
    "checkpoint.enabled": ("true", "save_checkpoint"),
    "checkpoint.save_on_states": ("[COMPLETED, FAILED, CIRCUIT_OPEN]", "save_checkpoint at any time of an attempt"),
    "cleanup_on_cancel": ("true", "the claim is released, the worker is told on tasker_worker_state"),
    "save_partial_output": ("true", "the checkpoint is kept in the log row of a timeout and given to the next attempt"),
}


def test_every_configuration_key_is_accounted_for(shared: Path) -> None:
    assert {key: value for key, (value, _) in CONFIGURATION.items()} == configuration(shared)


def test_the_defaults_are_those_of_the_page(lab: Lab, shared: Path) -> None:
    printed = configuration(shared)
    task = lab.create({"name": "ws", "vocabulary": "execution", "steps": [{"name": "s"}]})
    stored = lab.row(
        "select extract(epoch from timeout)::int as default_timeout, max_attempts, extract(epoch from base_delay)::int as base_retry_delay,"
        " extract(epoch from max_delay)::int as max_retry_delay, round(jitter * 100)::int as jitter_percentage"
        " from tasker.workflow_steps where task_uuid = %s",
        task,
    )
    assert {key: str(value) for key, value in stored.items()} == {key: printed[key] for key in stored}


def test_per_step_settings_override_them(lab: Lab) -> None:
    task = run(
        lab,
        {
            "name": "s",
            "timeout_seconds": 7,
            "max_attempts": 2,
            "retry": {"base_delay": 10, "max_delay": 15, "jitter": 0},
        },
    )
    (claimed,) = attempt(lab, BROKEN)
    assert (claimed["timeout"].total_seconds(), claimed["max_attempts"]) == (7, 2)
    delay = lab.one(
        "select metadata ->> 'delay_seconds' from tasker.workflow_step_transitions where task_uuid = %s and most_recent",
        task,
    )
    assert float(delay) == 10


def test_the_example_delays_of_the_page(lab: Lab, shared: Path) -> None:
    """Attempt 1: ~2s to attempt 5: ~32s; the formula beside them counts attempts from 0."""
    examples = re.findall(r"^- Attempt (\d): ~(\d+)s$", pages.text(shared, "002"), re.M)
    assert len(examples) == 5
    for number, seconds in examples:
        for random, factor in ((0.0, 0.75), (0.5, 1.0), (0.999999999, 1.25)):
            delay = lab.one(
                "select extract(epoch from tasker.retry_delay(%s, '2 s', '60 s', 0.25, %s))", int(number), random
            )
            assert float(delay) == pytest.approx(min(60, int(seconds) * factor), rel=1e-6)
    assert lab.one("select tasker.retry_delay(1000000, '2 s', '60 s', 0.25) <= interval '60 s'")


# -- error categories


@pytest.mark.parametrize(
    ("category", "path"),
    [
        ("transient", ["FAILED", "RETRYING"]),
        ("unknown", ["FAILED", "RETRYING"]),
        ("permanent", ["FAILED", "CIRCUIT_OPEN"]),
    ],
)
def test_the_category_of_an_error_decides(lab: Lab, category: str, path: list[str]) -> None:
    task = run(lab, step("s"))
    attempt(lab, {**BROKEN, "category": category})
    assert lab.path(task, "s")[-2:] == path


def test_retries_end_with_an_open_circuit(lab: Lab) -> None:
    """Retry Behavior Visualization: five attempts, then CIRCUIT_OPEN."""
    task = run(lab, step("s"))
    for _ in range(5):
        attempt(lab, BROKEN)
        if lab.states(task)["s"] == "RETRYING":
            lab.later("1 second")
    assert lab.path(task, "s").count("IN_PROGRESS") == 5
    assert lab.states(task) == {"s": "CIRCUIT_OPEN"}
    assert lab.state(task) == "S_RUNNING", "it may still heal"


def test_the_same_error_too_often_opens_the_circuit_of_the_tool(lab: Lab) -> None:
    """max_error_repeats: 2, CIRCUIT_OPEN when the same error is repeated more often: at its third repetition."""
    tool = f"{lab.namespace}-tool"
    lab.call(
        "configure_breaker", p_tool=tool, p_failure_threshold=100, p_max_error_repeats=2, p_cooldown="60 s",
        p_vocabulary="execution",
    )  # fmt: skip
    task = run(lab, step("s", tool=tool))
    for number in range(4):
        assert lab.call("breaker_state", p_tool=tool) == "CLOSED", number
        attempt(lab, {**BROKEN, "error": {"type": "io", "message": "the very same"}})
    assert lab.call("breaker_state", p_tool=tool) == "OPEN"
    attempt(lab, {}, count=0)
    assert lab.path(task, "s")[-2:] == ["RETRYING", "CIRCUIT_OPEN"]
    other = run(lab, step("s", tool=f"{tool}-2"))
    attempt(lab, {"result": 1})
    assert lab.state(other) == "S_SUCCESS", "other tools go on"


def test_an_open_circuit_is_published(lab: Lab) -> None:
    """Alerts/notifications sent: the change feed has it, and severity says how bad it is."""
    task = run(lab, step("s"))
    attempt(lab, WRONG)
    changes = lab.rows("select change from tasker.changes_after(null, 10000)")
    assert any(
        row["change"]["to_state"] == "CIRCUIT_OPEN" and row["change"]["task_uuid"] == str(task) for row in changes
    )
    severity = lab.one(
        "select distinct severity from tasker.lifecycle_transitions where lifecycle = 'execution.task' and to_state = 'CIRCUIT_OPEN'"
    )
    assert severity == "error"


# -- dependents


def test_what_depends_on_a_failure_is_skipped_and_so_is_what_depends_on_that(lab: Lab) -> None:
    task = run(lab, step("a"), step("b", "a"), step("c", "b"), step("other"), max_retries=1)
    lab.settle()
    for claimed in lab.claim():
        lab.run_step(claimed, WRONG if claimed["name"] == "a" else {"result": 1})
    lab.settle()
    assert lab.states(task) == {"a": "CIRCUIT_OPEN", "b": "SKIPPED", "c": "SKIPPED", "other": "COMPLETED"}
    assert lab.column(
        "select attempts from tasker.workflow_steps where task_uuid = %s and name in ('b', 'c')", task
    ) == [0, 0]
    reason = lab.one(
        "select metadata ->> 'reason' from tasker.workflow_step_transitions where workflow_step_uuid = %s and most_recent",
        lab.key(task, "c"),
    )
    assert reason, "Logged as skipped"


@pytest.mark.parametrize("how", ["cancel_step", "skip_step"])
def test_what_depends_on_a_cancelled_or_left_out_step_is_skipped(lab: Lab, how: str) -> None:
    task = run(lab, step("a"), step("b", "a"), step("c", "b"))
    lab.command(how, lab.key(task, "a"))
    assert lab.states(task) == {"a": "CANCELLED" if how == "cancel_step" else "SKIPPED", "b": "SKIPPED", "c": "SKIPPED"}
    assert lab.state(task) == "S_ABANDONED"
    lab.sound()


def test_an_optional_step_that_is_left_out_holds_nobody_up(lab: Lab) -> None:
    task = run(lab, step("nice", on_failure="continue"), step("needed", "nice"))
    assert lab.command("skip_step", lab.key(task, "nice")) == "SKIPPED"
    attempt(lab, {"result": 1})
    assert lab.state(task) == "S_SUCCESS"
    lab.sound()


# -- trial


def test_half_open_is_one_attempt(lab: Lab) -> None:
    """Single attempt only; success closes the circuit, failure opens it again."""
    task = run(lab, step("s", max_attempts=1))
    attempt(lab, BROKEN)
    for number in range(3):
        lab.later("59 seconds")
        attempt(lab, {}, count=0)
        lab.later("2 seconds")
        attempt(lab, BROKEN)
        assert lab.states(task) == {"s": "CIRCUIT_OPEN"}, number
    lab.later("61 seconds")
    attempt(lab, {"result": 1})
    assert lab.state(task) == "S_SUCCESS"
    assert lab.path(task, "s").count("HALF_OPEN") == 4
    audit = lab.rows("select success from tasker.get_task_audit_history(%s)", task)
    assert [row["success"] for row in audit] == [True] + [False] * 4
    lab.sound()


def test_a_manual_reset_gives_all_attempts_back(lab: Lab) -> None:
    """Manual intervention/reset → PENDING."""
    task = run(lab, step("s", max_attempts=2))
    attempt(lab, WRONG)
    assert lab.states(task) == {"s": "CIRCUIT_OPEN"}
    assert lab.command("reset_step", lab.key(task, "s")) == "PENDING"
    (claimed,) = attempt(lab, BROKEN)
    assert claimed["attempt"] == 1
    lab.later("3 seconds")
    attempt(lab, {"result": 1})
    assert lab.state(task) == "S_SUCCESS"
    lab.sound()


# -- validation


def test_every_type_of_acceptance_test_is_accepted(lab: Lab, shared: Path) -> None:
    part = pages.between(pages.text(shared, "002"), "### VALIDATING", "### COMPLETED")
    listed = re.findall(r"^- (.+)$", part[part.index("**Acceptance Test Types**") :], re.M)
    types = {
        "File existence checks": ["file_exists"],
        "Import validation (Python/JS)": ["python_import", "js_import"],
        "Unit test execution": ["command"],
        "Lint checks": ["lint"],
        "Custom validation scripts": ["custom"],
    }
    assert set(types) == set(listed)
    checks = [{"type": name} for names in types.values() for name in names]
    task = run(lab, step("s", acceptance=checks))
    (claimed,) = lab.claim()
    assert claimed["acceptance"] == checks
    lab.run_step(claimed)
    assert lab.states(task) == {"s": "COMPLETED"}
    with refused("TK400"):
        run(lab, step("s", acceptance=[{"type": "horoscope"}]))


def test_a_failed_validation_is_not_retried(lab: Lab) -> None:
    """No retries (validation is deterministic)."""
    task = run(lab, step("s", acceptance=CHECK))
    attempt(lab, {"result": 1, "passed": False})
    assert lab.path(task, "s")[-3:] == ["VALIDATING", "FAILED", "CIRCUIT_OPEN"]


def test_a_step_without_acceptance_tests_is_validated_by_nobody(lab: Lab) -> None:
    task = run(lab, step("s"))
    attempt(lab, {"result": 1})
    assert lab.path(task, "s")[-2:] == ["VALIDATING", "COMPLETED"]
    lab.sound()


# -- timeout, cancellation, checkpoints


def test_partial_output_and_checkpoint_outlive_a_timeout(lab: Lab) -> None:
    """TIMEOUT: Partial output captured; CANCELLED: Can resume if checkpoint enabled."""
    task = run(lab, step("s", timeout_seconds=10))
    (claimed,) = lab.claim(lease="1 hour")
    saved = {"done": 3, "output": "three lines"}
    lab.call(
        "save_checkpoint",
        p_step_uuid=claimed["workflow_step_uuid"],
        p_claim_uuid=claimed["claim_uuid"],
        p_checkpoint=saved,
    )
    lab.later("11 seconds")
    lab.settle()
    (audit,) = lab.rows("select success, metadata from tasker.get_task_audit_history(%s)", task)
    assert audit["metadata"]["checkpoint"] == saved
    lab.later("3 seconds")
    lab.settle()
    (again,) = lab.claim()
    assert again["checkpoint"] == saved
    with refused("TK412"):
        lab.call(
            "save_checkpoint",
            p_step_uuid=claimed["workflow_step_uuid"],
            p_claim_uuid=claimed["claim_uuid"],
            p_checkpoint={},
        )


def test_the_timeout_does_not_run_while_a_step_is_validated(lab: Lab) -> None:
    """IN_PROGRESS: Execution exceeds timeout. Seed 000, running → validating: Stop timeout timer."""
    task = run(lab, step("s", timeout_seconds=10, acceptance=CHECK))
    (claimed,) = lab.claim(lease="1 hour")
    lab.complete([claimed])
    lab.later("30 seconds")
    lab.settle()
    assert lab.states(task) == {"s": "VALIDATING"}
    lab.call(
        "report_validation",
        p_step_uuid=claimed["workflow_step_uuid"],
        p_claim_uuid=claimed["claim_uuid"],
        p_passed=True,
    )
    assert lab.state(task) == "S_SUCCESS"
    lab.sound()


def test_a_user_interrupt_takes_the_step_from_its_worker(lab: Lab) -> None:
    task = run(lab, step("s"))
    (claimed,) = lab.claim()
    assert lab.command("cancel_step", claimed["workflow_step_uuid"]) == "CANCELLED"
    assert lab.step_log(task, "s")[-1] == ("IN_PROGRESS", "user_interrupt", "CANCELLED")
    assert lab.column("select * from tasker.held_claims(%s)", lab.worker()) == [], "Resources cleaned up"
    assert [row["code"] for row in lab.report([report_of(claimed)])] == ["TK412"]
    with refused("TK409"):
        lab.call("retry_step", p_step_uuid=claimed["workflow_step_uuid"], **BY)


def test_the_columns_of_the_state_table_can_be_read(lab: Lab, shared: Path) -> None:
    """Database State Tracking: every column of task_states has its place."""
    part = re.search(r"CREATE TABLE task_states \((.*?)\n\);", pages.text(shared, "002"), re.S)
    assert part
    printed = [name for name in re.findall(r"^    (\w+) [A-Z]", part[1], re.M) if name != "FOREIGN"]
    task = run(lab, step("s"))
    lab.settle()
    (claimed,) = lab.claim()
    lab.report([report_of(claimed, result={"exit_code": 0, "output_size_bytes": 12}, execution_time_ms=34)])
    lab.settle()
    read = lab.row(
        """
        select o.workflow_step_uuid as task_id, o.task_uuid as workstream_id, o.state, c.from_state as previous_state,
               o.attempts as attempt_count, o.created_at, l.started_at, l.completed_at, l.failed_at,
               o.last_error, (select count(*) from tasker.workflow_step_result_audit a
                               where a.workflow_step_uuid = o.workflow_step_uuid and not a.success) as error_count,
               coalesce(tasker.breaker_state(o.handler), 'CLOSED') as circuit_state,
               (select sum(a.execution_time_ms)::int from tasker.workflow_step_result_audit a
                 where a.workflow_step_uuid = o.workflow_step_uuid) as execution_duration_ms,
               extract(epoch from l.validated_at - l.validating_at) * 1000 as validation_duration_ms,
               extract(epoch from l.completed_at - l.started_at) * 1000 as total_duration_ms,
               (o.result ->> 'output_size_bytes')::int as output_size_bytes, (o.result ->> 'exit_code')::int as exit_code
          from tasker.step_overview o
          join tasker.workflow_step_transitions c on c.workflow_step_uuid = o.workflow_step_uuid and c.most_recent
         cross join lateral (
            select min(t.created_at) filter (where s.phase = 'running') as started_at,
                   max(t.created_at) filter (where s.is_terminal) as completed_at,
                   max(t.created_at) filter (where s.phase = 'failed') as failed_at,
                   max(t.created_at) filter (where s.phase = 'validating') as validating_at,
                   max(t.created_at) filter (where s.phase = 'succeeded') as validated_at
              from tasker.workflow_step_transitions t
              join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
             where t.workflow_step_uuid = o.workflow_step_uuid) l
         where o.task_uuid = %s
        """,
        task,
    )
    assert set(read) == set(printed)
    assert (read["execution_duration_ms"], read["output_size_bytes"], read["exit_code"]) == (34, 12, 0)
    assert read["started_at"] <= read["completed_at"] and read["failed_at"] is None
