"""recover, find_stuck and the four recovery procedures of seed 001."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, step
from tests.workflow.fixtures import OpenEngine

HOUR = {"p_heartbeat_interval": "1 hour"}
SLOW = {"base_delay": 1000, "max_delay": 2000, "jitter": 0}


def recover(engine: Engine, dry_run: bool = False) -> list[Row]:
    return engine.table("recover", p_dry_run=dry_run, **({} if dry_run else BY))


def lose_message(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a"), vocabulary=vocabulary))
    engine.rows(f"delete from pgmq.q_{engine.one('select queue_name from tasker.task_namespaces')}")
    return task


def lose_capability_message(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a", requires=["gpu"]), vocabulary=vocabulary))
    engine.rows(f"delete from pgmq.q_{engine.one('select queue_name from tasker.work_queues')}")
    return task


def lose_report(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a"), vocabulary=vocabulary))
    engine.complete(engine.claim())
    engine.rows("delete from pgmq.q_orchestration_step_results")
    return task


def lose_claim(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a"), vocabulary=vocabulary))
    engine.claim()
    engine.rows("delete from tasker.step_claims")
    return task


def lose_validation(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a", acceptance=[{"type": "custom"}]), vocabulary=vocabulary))
    engine.complete(engine.claim())
    engine.rows("delete from tasker.step_claims")
    return task


def lose_timer(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a", retry=SLOW), vocabulary=vocabulary))
    engine.fail(engine.claim())
    engine.settle()
    engine.rows("delete from tasker.timers")
    return task


def lose_retry_message(engine: Engine, vocabulary: str) -> UUID:
    """The backoff is over, the step stood in its queue again, and the message is gone."""
    task = engine.create(graph(step("a", retry={"base_delay": 1, "jitter": 0}), vocabulary=vocabulary))
    engine.fail(engine.claim())
    engine.settle()
    engine.shift_clock("5 s")
    engine.settle()
    engine.rows(f"delete from pgmq.q_{engine.one('select queue_name from tasker.task_namespaces')}")
    return task


def lose_task_timer(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a", max_attempts=1), vocabulary=vocabulary, max_retries=1))
    engine.fail(engine.claim())
    engine.settle()
    engine.rows("delete from tasker.timers")
    return task


def leave_movable(engine: Engine, vocabulary: str) -> UUID:
    task = engine.create(graph(step("a"), vocabulary=vocabulary), p_start=False)
    engine.call("transition_task", p_task_uuid=task, p_event="start")
    engine.rows("delete from tasker.timers")
    return task


PROBLEMS: dict[str, tuple[str, str, Callable[[Engine, str], UUID]]] = {
    "message": ("queued_without_message", "tasker", lose_message),
    "message of seed 000": ("queued_without_message", "orchestration", lose_message),
    "message of seed 001": ("queued_without_message", "pipeline", lose_message),
    "message of seed 002": ("queued_without_message", "execution", lose_message),
    "message of a capability queue": ("queued_without_message", "tasker", lose_capability_message),
    "report": ("reported_without_message", "tasker", lose_report),
    "claim": ("running_without_claim", "tasker", lose_claim),
    "claim of seed 000": ("running_without_claim", "orchestration", lose_claim),
    "claim of seed 001": ("running_without_claim", "pipeline", lose_claim),
    "claim of seed 002": ("running_without_claim", "execution", lose_claim),
    "validation": ("running_without_claim", "execution", lose_validation),
    "timer": ("waiting_for_retry_without_timer", "tasker", lose_timer),
    "timer of seed 000": ("waiting_for_retry_without_timer", "orchestration", lose_timer),
    "timer of seed 001": ("waiting_for_retry_without_timer", "pipeline", lose_timer),
    "timer of seed 002": ("waiting_for_retry_without_timer", "execution", lose_timer),
    "message of a retry of seed 001": ("waiting_for_retry_without_timer", "pipeline", lose_retry_message),
    "message of a retry of seed 002": ("waiting_for_retry_without_timer", "execution", lose_retry_message),
    "timer of a task": ("task_waiting_for_retry_without_timer", "pipeline", lose_task_timer),
    "task": ("task_could_move", "tasker", leave_movable),
}


def everything(engine: Engine) -> list[Any]:
    counts = """select (select count(*) from tasker.workflow_step_transitions), (select count(*) from tasker.task_transitions),
                       (select count(*) from tasker.timers), (select sum(attempts) from tasker.workflow_steps)"""
    return [list(engine.rows(counts)[0].values()), engine.rows("select * from tasker.queued_messages()")]


@pytest.mark.parametrize("what", PROBLEMS)
def test_what_was_lost_is_found_and_mended(engine: Engine, what: str) -> None:
    """Made by hand; a dry run names it and changes nothing, the real run mends it, and the task goes on to its end."""
    problem, vocabulary, lose = PROBLEMS[what]
    engine.worker(p_capabilities=["gpu"], **HOUR)
    task = lose(engine, vocabulary)
    before = everything(engine)
    (found,) = recover(engine, dry_run=True)
    assert (found["problem"], found["done"]) == (problem, False)
    assert found["entity_uuid"] in (task, *engine.column("select workflow_step_uuid from tasker.workflow_steps"))
    assert everything(engine) == before, "a dry run changes nothing"
    if problem != "task_could_move":
        engine.shift_clock("10 minutes")
        engine.tick()
        assert engine.claim() == [], "nothing else would have moved it"
    mended = recover(engine)
    assert [(row["problem"], row["done"]) for row in mended] == [(problem, True)]
    assert recover(engine, dry_run=True) == []
    engine.shift_clock("2 hours")
    while engine.drain():
        for row in engine.rows(
            "select workflow_step_uuid, claim_uuid from tasker.step_overview where phase = 'validating'"
        ):
            engine.call(
                "report_validation",
                p_step_uuid=row["workflow_step_uuid"],
                p_claim_uuid=row["claim_uuid"],
                p_passed=True,
            )
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_what_was_mended_stands_in_the_log_with_name_and_reason(engine: Engine) -> None:
    lose_claim(engine, "tasker")
    recover(engine)
    row = engine.row("select metadata from tasker.workflow_step_transitions where metadata ? 'recovered_from'")[
        "metadata"
    ]
    assert (row["reason"], row["requested_by"], row["manual"]) == (BY["p_reason"], BY["p_requested_by"], True)
    assert row["error"]["type"] == "claim_lost"


def test_mending_needs_a_name_and_a_reason(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.table("recover", p_dry_run=False)
    assert refused.value.sqlstate == "TK400"


def test_only_operators_recover(open_engine: OpenEngine) -> None:
    assert open_engine(role="tasker_operator").table("recover") == []
    for role in ("tasker_client", "tasker_worker", "tasker_auditor", "tasker_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            open_engine(role=role).table("recover")


def test_one_task_may_be_mended_alone(engine: Engine) -> None:
    lose_claim(engine, "tasker")
    other = engine.create(graph(step("b")))
    engine.claim()
    engine.rows("delete from tasker.step_claims")
    (mended,) = engine.table("recover", p_dry_run=False, p_task_uuid=other, **BY)
    assert mended["entity_uuid"] == engine.steps(other)["b"]["workflow_step_uuid"]
    assert len(recover(engine, dry_run=True)) == 1


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "execution", "supervision"])
def test_a_healthy_task_is_left_alone_at_every_moment(engine: Engine, vocabulary: str) -> None:
    """No false alarm: after every single call nothing is found by recover or by check_consistency."""
    engine.worker(**HOUR)

    def look() -> None:
        assert engine.table("recover") == []
        engine.check()

    flow = graph(
        step("a"),
        step("b", "a", retry={"base_delay": 5, "jitter": 0}),
        step("c", "b"),
        vocabulary=vocabulary,
        max_retries=1,
    )
    task = engine.create(flow)
    look()
    for turn in range(20):
        claims = engine.claim()
        look()
        for claimed in claims:
            engine.report([{"step_uuid": str(claimed["workflow_step_uuid"]), "claim_uuid": str(claimed["claim_uuid"]),
                            "success": not (claimed["name"] == "b" and claimed["attempt"] == 1), "category": "transient"}])  # fmt: skip
            look()
        engine.orchestrate()
        look()
        engine.shift_clock(f"{turn * 10} s")
        engine.tick()
        look()
        if engine.task(task)["is_terminal"]:
            break
    assert engine.task(task)["phase"] == "succeeded"


# -- seed 001, State Recovery Procedures -----------------------------------------------------------------------------


def test_recovery_1_a_workstream_stuck_in_running(engine: Engine) -> None:
    """Its orchestrator crashed: find_stuck shows it with the reason, recover restarts what was under way."""
    engine.worker(**HOUR)
    task = engine.create(graph(step("a"), step("b", "a"), vocabulary="pipeline"))
    engine.claim(lease="10 hours")
    engine.rows("delete from tasker.step_claims")
    assert engine.table("find_stuck", p_older_than="1 hour") == []
    (stuck,) = engine.table("find_stuck", p_older_than="0 s")
    assert (stuck["task_uuid"], stuck["state"]) == (task, "S_RUNNING")
    assert stuck["why"]
    assert engine.rows(stuck["proposed_call"])
    assert [row["problem"] for row in recover(engine)] == ["running_without_claim"]
    engine.settle()
    engine.drain()
    assert engine.state(task) == "S_SUCCESS"
    assert engine.table("find_stuck", p_older_than="0 s") == []


@pytest.mark.parametrize("function", ["reset_step", "retry_step", "resolve_step"])
def test_recovery_2_a_step_that_failed_for_good(engine: Engine, function: str) -> None:
    task = engine.create(graph(step("a", max_attempts=1), step("b", "a")))
    engine.fail(engine.claim())
    engine.settle()
    assert engine.state(task) == "blocked_by_failures"
    target = engine.steps(task)["a"]["workflow_step_uuid"]
    engine.call(function, p_step_uuid=target, **BY)
    if function == "reset_step":
        assert engine.steps(task)["a"]["attempts"] == 0
    engine.settle()
    engine.drain()
    assert engine.state(task) == "complete"
    logged = engine.row("select metadata from tasker.workflow_step_transitions where metadata ->> 'manual' = 'true'")[
        "metadata"
    ]
    assert logged["requested_by"] == "ada"
    engine.check()


def test_recovery_2_a_step_is_skipped_where_the_vocabulary_knows_skipping(engine: Engine) -> None:
    task = engine.create(graph(step("a"), step("b"), vocabulary="execution"))
    target = engine.steps(task)["a"]["workflow_step_uuid"]
    assert engine.call("skip_step", p_step_uuid=target, **BY) == "SKIPPED"
    plain = engine.create(graph(step("a")))
    with pytest.raises(psycopg.Error) as refused:
        engine.call("skip_step", p_step_uuid=engine.steps(plain)["a"]["workflow_step_uuid"], **BY)
    assert refused.value.sqlstate == "TK409"
    engine.check()


def test_recovery_3_a_breaker_stuck_open(engine: Engine) -> None:
    """Waiting helps, and so does resetting it: see tests/breakers for what is let go."""
    engine.rows("select tasker.configure_breaker('aider', 1)")
    for mend in (lambda: engine.shift_clock("61 s"), lambda: engine.call("reset_breaker", p_tool="aider", **BY)):
        engine.rows("select tasker.record_breaker_result('aider', false)")
        with pytest.raises(psycopg.Error) as refused:
            engine.one("select tasker.breaker_allows('aider')")
        assert refused.value.sqlstate == "TK503"
        mend()
        permit = engine.row("select * from tasker.breaker_permit('aider')")
        assert permit["allowed"]
        engine.rows("select tasker.record_breaker_result('aider', true, null, %s)", permit["permit_uuid"])
        assert engine.one("select tasker.breaker_state('aider')") == "CLOSED"


def test_recovery_4_an_invalid_state_is_detected(engine: Engine) -> None:
    """The page's own example, a finished workstream with an unfinished step, can only be made with the walls taken down."""
    task = engine.create(graph(step("a"), vocabulary="pipeline"))
    engine.begin()
    engine.rows("set local session_replication_role = replica")
    for name in ("check_transitions", "check_current", "refuse_update"):
        engine.rows(f"alter table tasker.task_transitions disable trigger {name}") if _has(engine, name) else None
    engine.rows("update tasker.task_transitions set most_recent = false where task_uuid = %s", task)
    engine.rows(
        """insert into tasker.task_transitions (task_uuid, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent)
           select task_uuid, namespace, lifecycle, 'S_RUNNING', 'all_steps_succeed', 'S_SUCCESS', max(sort_key) + 1, true
             from tasker.task_transitions where task_uuid = %s group by 1, 2, 3""",
        task,
    )
    findings = {row["finding"] for row in engine.rows("select * from tasker.check_consistency()")}
    engine.rollback()
    assert "task_ended_well_with_unsatisfied_steps" in findings
    engine.check()


def _has(engine: Engine, trigger: str) -> bool:
    return bool(
        engine.one(
            "select exists (select from pg_trigger where tgrelid = 'tasker.task_transitions'::regclass and tgname = %s)",
            trigger,
        )
    )


CORRUPTIONS = {
    "progress_counters_differ": "update tasker.tasks set pending_steps = pending_steps - 1, satisfied_steps = satisfied_steps + 1",
    "unmet_dependencies_differ": "update tasker.workflow_steps set unmet_dependencies = 5 where name = 'b'",
    "claimed_but_not_running": "update tasker.workflow_steps set claim_uuid = gen_random_uuid() where name = 'b'",
    "running_without_claim": "delete from tasker.step_claims",
    "queued_without_message": "delete from pgmq.q_{queue}",
}


@pytest.mark.parametrize("finding", CORRUPTIONS)
def test_every_corruption_is_found(engine: Engine, finding: str) -> None:
    engine.create(graph(step("a"), step("b", "a"), step("c")))
    engine.claim(1)
    engine.check()
    engine.rows(CORRUPTIONS[finding].format(queue=engine.one("select queue_name from tasker.task_namespaces")))
    assert finding in engine.column("select finding from tasker.check_consistency()")
