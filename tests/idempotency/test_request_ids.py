"""Request ids of seed 003: the same request again gets the same answer, whatever happened to the first answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server

# Functions that change something and take no request id, and why a caller may repeat them all the same.
REPEATABLE = {
    "backfill_schedule": "one time of a schedule has one task",
    "command_all": "what it moved is not found the second time",
    "breaker_allows": "asks; a permit that is lost is given out again",
    "breaker_permit": "asks; a permit that is lost is given out again",
    "claim_steps": "what a lost answer handed out comes back with its lease",
    "complete_steps": "fenced by the claim: a repeated report is answered, not counted again",
    "create_tasks": "every request of the batch has an idempotency key of its own",
    "define_vocabulary": "says how it is to be",
    "diagnose_work": "only looks",
    "emit_event": "the event is told once: repeated says so",
    "ensure_namespace": "says how it is to be",
    "extend_leases": "again is as good as once",
    "live_overview": "counts every log row once",
    "orchestrate": "again is as good as once",
    "prometheus_metrics": "counts every log row once",
    "record_attachment": "a part of attach_lifecycle: says how it is to be",
    "record_detachment": "a part of detach_lifecycle: says how it is to be",
    "refuse_attached": "raises an error, nothing else",
    "register_guard": "says how it is to be",
    "processor_heartbeat": "again is as good as once",
    "purge_expired": "again is as good as once",
    "record_refusal": "a part of attempt_command: refused twice is refused twice",
    "recover": "looks again before it mends",
    "register_processor": "a processor that nobody uses ends with its lease",
    "report_and_claim": "fenced by the claims reported; what a lost answer handed out comes back with its lease",
    "report_validation": "fenced by the claim",
    "save_checkpoint": "fenced by the claim",
    "archive_tasks": "what has gone does not go again",
    "hold_task": "held twice is held once",
    "purge_archive": "what has gone does not go again",
    "release_task": "again is as good as once",
    "seal_audit": "seals what is not sealed yet",
    "set_retention_policy": "says how it is to be",
    "set_namespace_notifications": "says how it is to be",
    "set_payload_limits": "says how it is to be",
    "tick": "again is as good as once",
    "transition_with_ownership": "says from which state: it answers false the second time",
    "worker_heartbeat": "again is as good as once",
}


def flow() -> dict[str, Any]:
    return graph(step("a"))


def keys(engine: Engine) -> list[dict[str, Any]]:
    return engine.rows("select * from tasker.idempotency_keys order by request_id")


def test_every_public_function_that_changes_something_takes_a_request_id(engine: Engine) -> None:
    """Public: somebody but the owner may call it. Changing: it is volatile. All others stand in a list with a reason."""
    functions = engine.rows(
        """
        select p.proname as name, coalesce(p.proargnames[array_length(p.proargtypes, 1)], '') as last, p.prosrc as body
          from pg_proc p
         where p.pronamespace = 'tasker'::regnamespace and p.prokind = 'f' and p.provolatile = 'v' and p.prosecdef
           and p.prorettype <> 'trigger'::regtype
           and exists (select from aclexplode(p.proacl) a where a.grantee <> p.proowner)
        """
    )
    assert len(functions) > 40
    without = {row["name"] for row in functions if row["last"] != "p_request_id"}
    assert sorted(without - set(REPEATABLE)) == [], "give it p_request_id, or say why it may be repeated"
    assert sorted(set(REPEATABLE) - without) == [], "the list is out of date"
    for row in functions:
        if row["last"] == "p_request_id":
            assert f"'{row['name']}'" in row["body"], f"{row['name']} does not begin a request of its own name"
            assert "tasker.begin_request(" in row["body"], row["name"]
            assert "tasker.end_request(" in row["body"], row["name"]
            assert "p_request_id" in row["body"], row["name"]


def test_the_same_request_gets_the_same_answer(engine: Engine) -> None:
    first = engine.create(flow(), p_request_id="r1")
    assert [engine.create(flow(), p_request_id="r1") for _ in range(3)] == [first] * 3
    assert engine.one("select count(*) from tasker.tasks") == 1
    (key,) = keys(engine)
    assert (key["endpoint"], key["response_status"], key["response_body"], key["hits"]) == (
        "create_task_from_graph",
        200,
        str(first),
        3,
    )
    assert key["expires_at"] > key["created_at"]


def test_seed_003_pausing_twice_is_pausing_once(engine: Engine) -> None:
    worker = engine.call("register_worker", p_name="w", p_vocabulary="supervision")
    engine.call("start_worker", p_worker_uuid=worker, **BY)
    for _ in range(2):
        assert engine.call("pause_worker", p_worker_uuid=worker, **BY, p_request_id="req_abc123") == "PAUSED"
    assert engine.one("select count(*) from tasker.worker_transitions where event = 'pause'") == 1


@pytest.mark.parametrize("function", ["create_task_from_graph", "register_worker", "cancel_task"])
def test_another_request_under_the_same_id_is_a_conflict(engine: Engine, function: str) -> None:
    task = engine.create(flow())
    engine.create(flow(), p_request_id="r1")
    requests: dict[str, dict[str, Any]] = {
        "create_task_from_graph": {"p_graph": graph(step("b"))},
        "register_worker": {"p_name": "w"},
        "cancel_task": {"p_task_uuid": task, **BY},
    }
    other = requests[function]
    with pytest.raises(psycopg.Error) as refused:
        engine.call(function, **other, p_request_id="r1")
    assert refused.value.sqlstate == "TK423"
    assert engine.state(task) != "cancelled"
    assert engine.one("select count(*) from tasker.tasks") == 2


def test_the_second_of_two_waits_and_gets_the_answer(engine: Engine, open_engine: OpenEngine) -> None:
    first, second = open_engine(), open_engine()
    first.begin()
    made = first.create(flow(), p_request_id="r1")
    call = Background(lambda: second.create(flow(), p_request_id="r1"))
    engine.wait_until_blocked(second)
    first.commit()
    assert call.result() == made
    assert engine.one("select count(*) from tasker.tasks") == 1


def test_the_second_of_two_works_when_the_first_gives_up(engine: Engine, open_engine: OpenEngine) -> None:
    first, second = open_engine(), open_engine()
    first.begin()
    lost = first.create(flow(), p_request_id="r1")
    call = Background(lambda: second.create(flow(), p_request_id="r1"))
    engine.wait_until_blocked(second)
    first.rollback()
    made = call.result()
    assert made != lost
    assert engine.column("select task_uuid from tasker.tasks") == [made]


@on_one_server
def test_twenty_at_once_do_it_once(engine: Engine, open_engine: OpenEngine) -> None:
    sessions = [open_engine() for _ in range(20)]
    answers = in_parallel([lambda s=s: s.create(flow(), p_request_id="r1") for s in sessions])  # type: ignore[misc]
    assert len(set(answers)) == 1
    assert engine.one("select count(*) from tasker.tasks") == 1
    assert keys(engine)[0]["hits"] == 19


def test_work_that_fails_leaves_nothing(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(step("a", "nowhere")), p_request_id="r1")
    assert refused.value.sqlstate == "TK400"
    assert keys(engine) == []
    engine.create(flow(), p_request_id="r1")


def test_an_old_answer_is_forgotten(engine: Engine) -> None:
    first = engine.create(flow(), p_request_id="r1")
    engine.shift_clock("59 minutes")
    assert engine.create(flow(), p_request_id="r1") == first
    engine.shift_clock("61 minutes")
    again = engine.create(graph(step("b")), p_request_id="r1")
    assert again != first, "the id is free again"
    assert keys(engine)[0]["hits"] == 0


@pytest.mark.parametrize("how", ["purge_expired", "tick"])
def test_old_answers_are_removed(engine: Engine, how: str) -> None:
    for n in range(3):
        engine.create(flow(), p_request_id=f"old{n}")
    engine.shift_clock("50 minutes")
    engine.create(flow(), p_request_id="young")
    engine.shift_clock("61 minutes")
    if how == "tick":
        engine.tick()
    else:
        assert [engine.call(how), engine.call(how)] == [3, 0]
    assert [key["request_id"] for key in keys(engine)] == ["young"]


@pytest.mark.parametrize("request_id", ["", "x" * 256])
def test_a_request_id_has_a_length(engine: Engine, request_id: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(flow(), p_request_id=request_id)
    assert refused.value.sqlstate == "TK400"


def test_every_step_command_and_report_may_be_repeated(engine: Engine) -> None:
    engine.create(graph(step("a"), step("b", max_attempts=1), step("c")))
    held = engine.claim_by_name()

    def twice(function: str, **arguments: Any) -> str:
        first, second = (
            engine.call(function, **arguments, p_request_id=f"{function}{arguments['p_step_uuid']}") for _ in range(2)
        )
        assert first == second
        return str(first)

    def of(name: str) -> dict[str, UUID]:
        return {"p_step_uuid": held[name]["workflow_step_uuid"]}

    assert twice("complete_step", **of("a"), p_claim_uuid=held["a"]["claim_uuid"]) == "enqueued_for_orchestration"
    failed = twice("fail_step", **of("b"), p_claim_uuid=held["b"]["claim_uuid"], p_error={"message": "x"})
    assert failed == "enqueued_as_error_for_orchestration"
    engine.settle()
    assert twice("retry_step", **of("b"), **BY) == "enqueued"
    assert twice("cancel_step", **of("c"), **BY) == "cancelled"
    assert twice("resolve_step", **of("b"), **BY) == "resolved_manually"
    log = engine.rows(
        "select workflow_step_uuid, event, count(*) as times from tasker.workflow_step_transitions group by 1, 2"
    )
    assert {row["times"] for row in log if row["event"] not in ("enqueue",)} == {1}
    engine.check()


def test_the_tally_of_hits_tells_the_rate(engine: Engine) -> None:
    """Seed 003 metrics: idempotency cache hit rate."""
    for request, times in (("a", 1), ("b", 3)):
        for _ in range(times):
            engine.create(flow(), p_request_id=request)
    assert engine.row("select sum(hits)::int as hits, count(*)::int as requests from tasker.idempotency_keys") == {
        "hits": 2,
        "requests": 2,
    }
