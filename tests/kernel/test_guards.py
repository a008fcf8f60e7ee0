"""Guards: each is dispatched, each can hold and fail, and a refusal names the guard and what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.engine import Engine, chain, refused

STEP_FACTS = [
    "unmet_dependencies", "attempts", "max_attempts", "retryable", "is_claimed", "succeeded", "error_category",
]  # fmt: skip
TASK_FACTS = [
    "total_steps", "pending_steps", "ready_steps", "in_flight_steps", "waiting_retry_steps", "satisfied_steps",
    "failed_steps", "new_results", "enqueue_failed", "failed_critical_steps", "retries_left", "workers_allocated",
    "awaits_validation", "cleans_up",
]  # fmt: skip

# A step that may start: everything satisfied, free, attempts left.
FREE: dict[str, Any] = dict(zip(STEP_FACTS, (0, 1, 3, True, False, None, None), strict=True))
# A task of four steps: one done, one under way, two that wait for it.
MOVING: dict[str, Any] = dict(zip(TASK_FACTS, (4, 2, 0, 1, 0, 1, 0, 0, False, 0, 1, True, False, False), strict=True))
WORKER_FACTS = ["held_steps"]
IDLE: dict[str, Any] = {"held_steps": 0}
BREAKER_FACTS = [
    "failures", "failure_threshold", "successes", "success_threshold", "error_repeats", "max_error_repeats", "cooled",
]  # fmt: skip
# A healthy breaker with the defaults of seed 001 and an allowance of two repeated errors.
HEALTHY: dict[str, Any] = dict(zip(BREAKER_FACTS, (0, 5, 0, 1, 0, 2, False), strict=True))

# guard -> (changes of the facts under which it holds, changes under which it fails)
STEP_GUARDS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "always": ([{}, {"unmet_dependencies": 3, "is_claimed": True}], []),
    # below zero: more than enough, where the first dependency is
    "dependencies_satisfied": ([{}, {"unmet_dependencies": -2}], [{"unmet_dependencies": 1}]),
    "not_in_progress": ([{}, {"unmet_dependencies": 1}], [{"is_claimed": True}]),
    "startable": ([{}, {"unmet_dependencies": -2}], [{"unmet_dependencies": 1}, {"is_claimed": True}]),
    "work_succeeded": ([{"succeeded": True}], [{"succeeded": False}, {"succeeded": None}]),
    "work_failed": ([{"succeeded": False}], [{"succeeded": True}, {"succeeded": None}]),
    "retries_left": (
        [{}, {"error_category": "transient"}, {"error_category": "unknown"}, {"attempts": 2}],
        [{"error_category": "permanent"}, {"retryable": False}, {"attempts": 3}],
    ),
    # Seed 004: StepCanBeRetriedGuard. An operator's retry is one more attempt: the limit does not stop it.
    "retries_exhausted": (
        [{"error_category": "permanent"}, {"retryable": False}, {"attempts": 3}],
        [{}, {"error_category": "transient"}, {"attempts": 2}],
    ),
    "can_be_retried": ([{}, {"attempts": 3}, {"error_category": "permanent"}], [{"is_claimed": True}]),
}
TASK_GUARDS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "always": ([{}], []),
    "no_steps": ([{"total_steps": 0}], [{}]),
    "has_ready_steps": ([{"ready_steps": 1}], [{}, {"ready_steps": 1, "failed_critical_steps": 1}]),
    "no_ready_steps": ([{}, {"ready_steps": 1, "failed_critical_steps": 1}], [{"ready_steps": 1}]),
    "enqueue_failed": ([{"enqueue_failed": True}], [{}]),
    "steps_enqueued": ([{}], [{"enqueue_failed": True}]),
    "batch_finished": ([{"in_flight_steps": 0}], [{}]),
    "has_new_results": ([{"new_results": 1}], [{}]),
    "only_retries_left": (
        [{"waiting_retry_steps": 1, "in_flight_steps": 0}],
        [
            {},
            {"in_flight_steps": 0},
            {"waiting_retry_steps": 1},
            {"waiting_retry_steps": 1, "in_flight_steps": 0, "ready_steps": 1},
        ],
    ),
    "retries_over": ([{}, {"waiting_retry_steps": 1, "ready_steps": 1}], [{"waiting_retry_steps": 1}]),
    "dependencies_ready": (
        [{"ready_steps": 1}, {"satisfied_steps": 4}, {"failed_steps": 1, "in_flight_steps": 0}],
        [{}, {"failed_steps": 1}, {"failed_steps": 1, "in_flight_steps": 0, "waiting_retry_steps": 1}],
    ),
    "validated": ([{"satisfied_steps": 4}], [{}, {"satisfied_steps": 4, "awaits_validation": True}]),
    "all_steps_satisfied": ([{"satisfied_steps": 4}], [{}]),
    "blocked_by_failures": (
        [{"failed_steps": 1, "in_flight_steps": 0}],
        [
            {"in_flight_steps": 0},
            {"failed_steps": 1},
            {"failed_steps": 1, "in_flight_steps": 0, "waiting_retry_steps": 1},
            {"failed_steps": 1, "in_flight_steps": 0, "ready_steps": 1},
        ],
    ),
    "not_blocked": (
        [{}, {"failed_steps": 1}, {"failed_steps": 1, "in_flight_steps": 0, "ready_steps": 1}],
        [{"failed_steps": 1, "in_flight_steps": 0}, {"failed_critical_steps": 1}],
    ),
    "critical_step_failed": ([{"failed_critical_steps": 1}], [{}, {"failed_steps": 1}]),
    "any_step_failed": ([{"failed_steps": 1}], [{}, {"failed_steps": 1, "cleans_up": True}]),
    "task_retries_left": ([{}], [{"retries_left": 0}]),
    "task_retries_exhausted": ([{"retries_left": 0}], [{}]),
    "workers_allocated": ([{}], [{"workers_allocated": False}]),
}
WORKER_GUARDS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "always": ([{}], []),
    "holds_nothing": ([{}], [{"held_steps": 1}]),
}
BREAKER_GUARDS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "always": ([{}], []),
    "failure_threshold_exceeded": (
        [{"failures": 5}, {"error_repeats": 3}], [{}, {"failures": 4}, {"error_repeats": 2}, {"error_repeats": 9, "max_error_repeats": None}],
    ),
    "success_threshold_reached": ([{"successes": 1}], [{}]),
    "cooldown_over": ([{"cooled": True}], [{}]),
}  # fmt: skip
KINDS = {
    # kind of entity: (name in SQL, facts, usual facts, cases)
    "step": ("step", STEP_FACTS, FREE, STEP_GUARDS),
    "task": ("task", TASK_FACTS, MOVING, TASK_GUARDS),
    "worker": ("worker", WORKER_FACTS, IDLE, WORKER_GUARDS),
    "circuit_breaker": ("breaker", BREAKER_FACTS, HEALTHY, BREAKER_GUARDS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_guard_of_the_catalogue_is_dispatched_and_can_hold_and_fail(rules: Engine, kind: str) -> None:
    name, names, usual, cases = KINDS[kind]
    catalogue = set(rules.values("select guard from tasker.guards where applies_to in (%s, 'any')", kind))
    assert catalogue == set(cases)
    row = f"row({', '.join(['%s'] * len(names))})::tasker.{name}_facts"
    for guard, (holds, fails) in cases.items():
        assert holds, "a guard that falls to ELSE never holds"
        assert fails or guard == "always"
        for expected, changes in [(True, change) for change in holds] + [(False, change) for change in fails]:
            facts = [{**usual, **changes}[fact] for fact in names]
            held = rules.one(f"select tasker.{name}_guard_holds(%s, {row})", guard, *facts)
            assert held is expected, (guard, changes)
            if guard != "always":
                assert rules.one(f"select tasker.guard_{guard}({row})", *facts) is expected, (guard, changes)


def test_every_guard_has_a_function_with_a_comment_and_is_used(rules: Engine) -> None:
    functions = set(
        rules.values(
            "select substr(proname, 7) from pg_proc where pronamespace = 'tasker'::regnamespace"
            " and proname like 'guard%%' and obj_description(oid, 'pg_proc') is not null",
        )
    )
    catalogue = set(rules.values("select guard from tasker.guards where guard <> 'always'"))
    assert functions == catalogue
    used = set(rules.values("select distinct guard from tasker.lifecycle_transitions where guard <> 'always'"))
    assert used == catalogue, "a guard that no rule asks for is dead weight"


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_guard_never_holds(rules: Engine, kind: str) -> None:
    name, names, usual, _ = KINDS[kind]
    row = f"row({', '.join(['%s'] * len(names))})::tasker.{name}_facts"
    assert rules.one(f"select tasker.{name}_guard_holds('forged', {row})", *usual.values()) is False


def test_every_action_names_a_function_that_exists(rules: Engine) -> None:
    functions = set(rules.values("select proname from pg_proc where pronamespace = 'tasker'::regnamespace"))
    for row in rules.rows("select action, implemented_by from tasker.transition_actions"):
        assert set(row["implemented_by"].split(", ")) <= functions, row


# -- refusals


def test_a_refused_step_names_the_guard_and_the_missing_dependencies(tenant: Engine) -> None:
    task = tenant.task(
        [{"name": "done"}, {"name": "open"}, {"name": "last", "depends_on": ["done", "open"]}], start=False
    )
    steps = tenant.steps(task)
    tenant.command("resolve_step", steps["done"])
    for event, guard in (("enqueue", "dependencies_satisfied"), ("start", "startable")):
        with refused("TK422") as refusal:
            tenant.move_step(steps["last"], event)
        assert refusal.detail["guard"] == guard
        assert refusal.detail["missing"] == ["open"]
        assert refusal.detail["facts"]["unmet_dependencies"] == 1
        assert guard in refusal.message
        assert refusal.hint == tenant.one("select description from tasker.guards where guard = %s", guard)
    assert tenant.step_state(steps["last"]) == "pending"


@pytest.mark.parametrize(
    ("fields", "category"), [({"max_attempts": 1}, "transient"), ({"retryable": False}, "transient"), ({}, "permanent")]
)
def test_a_step_without_retries_left_does_not_wait_for_one(
    tenant: Engine, fields: dict[str, Any], category: str
) -> None:
    task = tenant.task(chain("only", **fields))
    (claimed,) = tenant.claim(tenant.worker())
    tenant.fail(claimed, category)
    step = claimed["workflow_step_uuid"]
    with refused("TK422") as refusal:
        tenant.move_step(step, "wait_for_retry")
    assert refusal.detail["guard"] == "retries_left"
    assert tenant.step_state(step) == "enqueued_as_error_for_orchestration"
    tenant.orchestrate()
    assert (tenant.step_state(step), tenant.state(task)) == ("error", "blocked_by_failures")


TASK_REFUSALS = [
    ("initializing", "no_steps_found", "no_steps"),
    ("initializing", "no_dependencies_ready", "no_ready_steps"),
    ("enqueuing_steps", "enqueue_failed", "enqueue_failed"),
    ("steps_in_process", "all_steps_completed", "batch_finished"),
    ("steps_in_process", "step_failed", "only_retries_left"),
    ("steps_in_process", "retry_ready", "has_ready_steps"),
    ("evaluating_results", "all_steps_successful", "all_steps_satisfied"),
    ("evaluating_results", "ready_steps_found", "has_ready_steps"),
    ("evaluating_results", "permanent_failure", "blocked_by_failures"),
    ("waiting_for_dependencies", "dependencies_ready", "dependencies_ready"),
    ("waiting_for_retry", "retry_ready", "retries_over"),
    ("blocked_by_failures", "failures_resolved", "not_blocked"),
]


@pytest.mark.parametrize(("state", "event", "guard"), TASK_REFUSALS, ids=["-".join(case) for case in TASK_REFUSALS])
def test_a_refused_task_names_the_guard_and_the_facts(tenant: Engine, state: str, event: str, guard: str) -> None:
    task = tenant.parked_task(state)
    with refused("TK422") as refusal:
        tenant.move_task(task, event)
    assert refusal.detail["guard"] == guard
    assert refusal.detail["event"] == event
    assert set(refusal.detail["facts"]) == set(TASK_FACTS)
    assert guard in refusal.message
    assert refusal.hint == tenant.one("select description from tasker.guards where guard = %s", guard)
    assert tenant.state(task) == state

    # by its end: refused too, unless another event leads there
    targets = tenant.values(
        "select min(to_state) from tasker.lifecycle_transitions where lifecycle = 'tasker.task' and from_state = %s"
        " group by to_state having array_agg(event) = array[%s]",
        state, event,
    )  # fmt: skip
    for to_state in targets:
        with refused("TK422"):
            tenant.one("select tasker.transition_with_ownership(%s, %s, %s, null)", task, state, to_state)
    (allowed,) = tenant.rows("select * from tasker.allowed_events('task', %s) where event = %s", task, event)
    assert (allowed["guard"], allowed["guard_holds"]) == (guard, False)


def test_allowed_events_are_the_rules_from_here_and_whether_they_hold(tenant: Engine) -> None:
    task = tenant.task(chain("first", "second"), start=False)
    first, second = tenant.steps(task).values()

    def holding(step: Any) -> set[str]:
        rows = tenant.rows("select * from tasker.allowed_events('step', %s)", step)
        assert {row["event"] for row in rows} == {"enqueue", "start", "fail", "cancel", "resolve_manually"}
        return {row["event"] for row in rows if row["guard_holds"]}

    assert holding(first) == {"enqueue", "start", "fail", "cancel", "resolve_manually"}
    assert holding(second) == {"fail", "cancel", "resolve_manually"}
    with refused("TK400"):
        tenant.rows("select * from tasker.allowed_events('worker', %s)", task)
