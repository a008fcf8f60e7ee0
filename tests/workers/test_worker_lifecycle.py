"""Workers of seeds 000 and 003: every edge of their lifecycles, capacity, capabilities, health checks, supervision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server

HOUR = {"p_heartbeat_interval": "1 hour"}


def register(engine: Engine, **arguments: Any) -> UUID:
    uuid: UUID = engine.call("register_worker", p_name="w", **arguments)
    return uuid


def state(engine: Engine, worker: UUID) -> str:
    answer: str = engine.one("select tasker.worker_state(%s)", worker)
    return answer


def walk(engine: Engine, worker: UUID) -> list[str]:
    return engine.column(
        "select to_state from tasker.worker_transitions where worker_uuid = %s order by sort_key", worker
    )


def heartbeat(engine: Engine, worker: UUID) -> str:
    answer: str = engine.call("worker_heartbeat", p_worker_uuid=worker)
    return answer


def shutdown(engine: Engine, worker: UUID) -> str:
    answer: str = engine.call("shutdown_worker", p_worker_uuid=worker)
    return answer


def steps(engine: Engine, count: int, **fields: Any) -> UUID:
    return engine.create(graph(*(step(f"s{n}", **fields) for n in range(count))))


def test_idle_busy_and_idle_again(engine: Engine) -> None:
    worker = register(engine)
    assert walk(engine, worker) == ["initializing", "idle"]
    steps(engine, 2)
    claims = engine.claim(worker=worker)
    assert state(engine, worker) == "busy"
    engine.complete(claims[:1])
    assert heartbeat(engine, worker) == "busy", "it holds one more"
    engine.complete(claims[1:])
    assert heartbeat(engine, worker) == "idle"
    assert walk(engine, worker) == ["initializing", "idle", "busy", "idle"]


def test_asking_in_vain_says_that_it_is_idle(engine: Engine) -> None:
    worker = register(engine)
    steps(engine, 1)
    engine.complete(engine.claim(worker=worker))
    assert engine.claim(worker=worker) == []
    assert state(engine, worker) == "idle"


def test_missed_heartbeats_give_its_work_to_others(engine: Engine) -> None:
    """Seed 000: missed N -> unresponsive -> reassignment -> recovered."""
    worker, other = register(engine), register(engine, **HOUR)
    task = steps(engine, 3)
    held = engine.claim(worker=worker, lease="1 hour")
    engine.shift_clock("29 s")
    engine.tick()
    assert state(engine, worker) == "busy", "three times ten seconds are not over"
    engine.shift_clock("31 s")
    engine.settle()
    assert state(engine, worker) == "unresponsive"
    assert engine.call("extend_leases", p_worker_uuid=worker) == 0
    taken = engine.claim(worker=other)
    assert len(taken) == 3
    assert {claimed["attempt"] for claimed in taken} == {2}, "the attempt that was lost counts"
    assert {row["code"] for row in engine.complete(held)} == {"TK412"}
    assert heartbeat(engine, worker) == "idle"
    engine.complete(taken)
    engine.settle()
    assert engine.state(task) == "complete"
    assert walk(engine, worker) == ["initializing", "idle", "busy", "unresponsive", "idle"]
    errors = engine.column(
        "select metadata -> 'error' ->> 'type' from tasker.workflow_step_transitions where metadata ? 'lease_expired'"
    )
    assert errors == ["lease_expired"] * 3
    engine.check()


def test_who_stays_silent_is_ended(engine: Engine) -> None:
    worker = register(engine)
    steps(engine, 1)
    engine.claim(worker=worker)
    engine.shift_clock("31 s")
    engine.tick()
    engine.shift_clock("60 s")
    engine.tick()
    assert state(engine, worker) == "unresponsive"
    engine.shift_clock("62 s")
    engine.tick()
    assert walk(engine, worker) == ["initializing", "idle", "busy", "unresponsive", "shutdown"]
    for call in (lambda: engine.claim(worker=worker), lambda: engine.call("resume_worker", p_worker_uuid=worker, **BY)):
        with pytest.raises(psycopg.Error) as refused:
            call()
        assert refused.value.sqlstate == "TK409", "register again"
    engine.check()


def test_a_clock_that_jumps_ahead_ends_nobody_at_once(engine: Engine) -> None:
    worker = register(engine)
    steps(engine, 1)
    engine.claim(worker=worker)
    engine.shift_clock("5 hours")
    engine.settle()
    engine.tick()
    assert state(engine, worker) == "unresponsive"
    assert heartbeat(engine, worker) == "idle"


def test_asking_for_work_is_a_sign_of_life(engine: Engine) -> None:
    worker = register(engine)
    steps(engine, 1)
    engine.claim(worker=worker)
    engine.shift_clock("31 s")
    engine.tick()
    engine.settle()
    assert len(engine.claim(worker=worker)) == 1
    assert walk(engine, worker)[-3:] == ["unresponsive", "idle", "busy"]


def test_an_idle_worker_misses_nothing(engine: Engine) -> None:
    """Only who holds work is watched closely; whoever vanished is tidied up after a day."""
    worker = register(engine)
    engine.shift_clock("23 hours")
    engine.tick()
    assert state(engine, worker) == "idle"
    engine.shift_clock("25 hours")
    engine.tick()
    assert state(engine, worker) == "shutdown"


def test_a_graceful_shutdown_finishes_what_is_held(engine: Engine) -> None:
    worker = register(engine)
    steps(engine, 3)
    held = engine.claim(2, worker)
    assert shutdown(engine, worker) == "busy"
    assert engine.claim(worker=worker) == [], "it takes nothing more"
    assert {row["code"] for row in engine.complete(held)} == {None}
    assert heartbeat(engine, worker) == "shutdown"
    assert len(engine.queued()) == 1
    engine.check()


def test_an_idle_worker_shuts_down_at_once(engine: Engine) -> None:
    worker = register(engine)
    assert shutdown(engine, worker) == "shutdown"
    assert walk(engine, worker) == ["initializing", "idle", "shutdown"]
    assert shutdown(engine, worker) == "shutdown", "asking twice is no error"


def test_every_edge_of_the_page_was_walked(engine: Engine) -> None:
    """All nine edges of seed 000's worker, each by something that happens in life."""
    recovered, silent, busy, idle = (register(engine) for _ in range(4))
    steps(engine, 3)
    for worker in (recovered, silent, busy):
        assert len(engine.claim(1, worker)) == 1
    shutdown(engine, idle)
    held = engine.rows("select workflow_step_uuid, claim_uuid from tasker.step_overview where worker_uuid = %s", busy)
    shutdown(engine, busy)
    engine.complete(held)
    heartbeat(engine, busy)
    engine.shift_clock("31 s")
    engine.tick()
    heartbeat(engine, recovered)
    engine.shift_clock("62 s")
    engine.tick()
    another = register(engine)
    engine.settle()
    engine.complete(engine.claim(1, another))
    heartbeat(engine, another)
    walked = engine.rows(
        "select distinct from_state, event, to_state from tasker.worker_transitions where from_state is not null"
    )
    rules = engine.rows(
        "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = 'orchestration.worker'"
    )
    assert len(rules) == 8
    assert {tuple(row.values()) for row in walked} == {tuple(row.values()) for row in rules}


@on_one_server
def test_parallel_claims_of_one_worker_never_exceed_its_capacity(engine: Engine, open_engine: OpenEngine) -> None:
    """Seed 000 invariant 1: task count <= max_concurrent_tasks."""
    worker = register(engine, p_max_concurrent=7)
    steps(engine, 60)
    sessions = [open_engine() for _ in range(8)]
    claims = in_parallel([lambda s=s: s.claim(3, worker) for s in sessions])  # type: ignore[misc]
    held = [claimed for batch in claims for claimed in batch]
    assert len(held) == 7
    assert engine.claim(worker=worker) == []
    engine.complete(held[:2])
    claims = in_parallel([lambda s=s: s.claim(3, worker) for s in sessions])  # type: ignore[misc]
    assert sum(len(batch) for batch in claims) == 2


def test_only_who_has_the_capabilities_sees_a_step(engine: Engine) -> None:
    plain, gpu, both = (
        register(engine),
        register(engine, p_capabilities=["gpu"]),
        register(engine, p_capabilities=["gpu", "lint", "x"]),
    )
    task = engine.create(
        graph(
            step("any"),
            step("gpu", requires=["gpu"]),
            step("two", requires=["lint", "gpu"]),
            step("nobody", requires=["moon"]),
        )
    )
    assert [claimed["name"] for claimed in engine.claim(worker=plain)] == ["any"]
    assert [claimed["name"] for claimed in engine.claim(worker=gpu)] == ["gpu"]
    assert [claimed["name"] for claimed in engine.claim(worker=both)] == ["two"]
    assert engine.states(task)["nobody"] == "enqueued"
    assert engine.table("recover") == []
    engine.check()


def test_a_capability_with_a_comma_is_one_capability(engine: Engine) -> None:
    """Queues of different sets of capabilities never mix."""
    engine.create(graph(step("one", requires=["a,b"]), step("two", requires=["a", "b"])))
    assert engine.claim(worker=register(engine)) == []
    assert [c["name"] for c in engine.claim(worker=register(engine, p_capabilities=["a,b"]))] == ["one"]
    assert [c["name"] for c in engine.claim(worker=register(engine, p_capabilities=["a", "b"]))] == ["two"]


def test_a_retry_goes_to_who_has_the_capabilities_too(engine: Engine) -> None:
    plain, able = register(engine), register(engine, p_capabilities=["gpu"])
    engine.create(graph(step("a", requires=["gpu"])))
    engine.fail(engine.claim(worker=able))
    engine.settle()
    assert engine.claim(worker=plain) == []
    assert len(engine.claim(worker=able)) == 1


# -- supervision (seed 003) ------------------------------------------------------------------------------------------


def command(engine: Engine, function: str, worker: UUID) -> str:
    answer: str = engine.call(function, p_worker_uuid=worker, **BY)
    return answer


def test_a_supervisor_pauses_resumes_and_terminates(engine: Engine) -> None:
    worker = register(engine, p_vocabulary="supervision", **HOUR)
    steps(engine, 2)
    assert engine.claim(worker=worker) == [], "it waits for a job"
    assert command(engine, "start_worker", worker) == "RUNNING"
    (held,) = engine.claim(1, worker)
    assert command(engine, "pause_worker", worker) == "PAUSED"
    assert engine.claim(1, worker) == []
    assert engine.complete([held])[0]["code"] is None, "what it holds it may finish"
    assert command(engine, "resume_worker", worker) == "RUNNING"
    (held,) = engine.claim(1, worker)
    assert command(engine, "terminate_worker", worker) == "TERMINATED"
    assert engine.tick()["leases_expired"] == 1, "its work goes to others at once"
    assert engine.complete([held])[0]["code"] == "TK412"
    with pytest.raises(psycopg.Error) as refused:
        engine.claim(1, worker)
    assert refused.value.sqlstate == "TK409"
    rows = engine.rows("select metadata from tasker.worker_transitions where event in ('pause', 'resume', 'terminate')")
    assert [(r["metadata"]["reason"], r["metadata"]["requested_by"]) for r in rows] == [("a test", "ada")] * 3
    engine.check()


TO_STATE: dict[str, Callable[[Engine, UUID], Any]] = {
    "IDLE": lambda engine, worker: None,
    "RUNNING": lambda engine, worker: command(engine, "start_worker", worker),
    "PAUSED": lambda engine, worker: (command(engine, "start_worker", worker), command(engine, "pause_worker", worker)),
    "COMPLETED": lambda engine, worker: (command(engine, "start_worker", worker), shutdown(engine, worker)),
    "TERMINATED": lambda engine, worker: command(engine, "terminate_worker", worker),
}


@pytest.mark.parametrize(
    ("before", "function"),
    [("IDLE", "pause_worker"), ("COMPLETED", "resume_worker"), ("COMPLETED", "pause_worker"), ("COMPLETED", "start_worker"),
     ("TERMINATED", "start_worker"), ("TERMINATED", "terminate_worker"), ("RUNNING", "resume_worker"), ("PAUSED", "pause_worker")],
)  # fmt: skip
def test_forbidden_moves_are_a_conflict(engine: Engine, before: str, function: str) -> None:
    """Seed 003, 1.4: 409 Conflict."""
    worker = register(engine, p_vocabulary="supervision")
    TO_STATE[before](engine, worker)
    assert state(engine, worker) == before
    with pytest.raises(psycopg.Error) as refused:
        command(engine, function, worker)
    assert refused.value.sqlstate == "TK409"
    assert state(engine, worker) == before


@pytest.mark.parametrize("before", ["IDLE", "RUNNING", "PAUSED", "COMPLETED"])
def test_terminate_works_from_any_state(engine: Engine, before: str) -> None:
    worker = register(engine, p_vocabulary="supervision")
    TO_STATE[before](engine, worker)
    assert command(engine, "terminate_worker", worker) == "TERMINATED"


def test_a_supervised_worker_that_is_not_heard_of_fails(engine: Engine) -> None:
    worker = register(engine, p_vocabulary="supervision")
    command(engine, "start_worker", worker)
    steps(engine, 1)
    assert len(engine.claim(1, worker)) == 1
    engine.shift_clock("31 s")
    assert engine.tick()["leases_expired"] == 1
    assert state(engine, worker) == "FAILED"


@on_one_server
def test_jobs_get_their_workers_all_or_none_and_nobody_twice(engine: Engine, open_engine: OpenEngine) -> None:
    """Seed 003: allocation is atomic, however many look for workers at once."""
    jobs = [engine.create(graph(step("a"), vocabulary="supervision", worker_count=3)) for _ in range(6)]
    assert {engine.state(job) for job in jobs} == {"PENDING"}
    sessions = [open_engine() for _ in range(8)]

    def play(session: Engine) -> None:
        for _ in range(2):
            register(session, p_vocabulary="supervision", **HOUR)
            session.tick(1)

    in_parallel([lambda s=s: play(s) for s in sessions])  # type: ignore[misc]
    engine.settle()
    engine.shift_clock("1 s")
    engine.settle()
    given = engine.rows("select task_uuid, count(*) as workers from tasker.job_workers group by 1")
    assert [row["workers"] for row in given] == [3] * 5, "16 workers are enough for five jobs"
    assert sorted(engine.state(job) for job in jobs) == ["PENDING"] + ["RUNNING"] * 5


# -- the log ---------------------------------------------------------------------------------------------------------

WALLS: dict[str, str] = {
    "update": "update tasker.worker_transitions set to_state = 'busy'",
    "flip": "update tasker.worker_transitions set most_recent = false",
    "delete": "delete from tasker.worker_transitions",
    "truncate": "truncate tasker.worker_transitions",
    "illegal edge": """insert into tasker.worker_transitions (worker_uuid, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select worker_uuid, lifecycle, 'idle', 'task_assigned', 'shutdown', 3, false from tasker.workers""",
    "from elsewhere": """insert into tasker.worker_transitions (worker_uuid, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select worker_uuid, lifecycle, 'busy', 'task_completed', 'idle', 3, false from tasker.workers""",
    "second beginning": """insert into tasker.worker_transitions (worker_uuid, lifecycle, event, to_state, sort_key)
        select worker_uuid, lifecycle, 'create', 'initializing', 1 from tasker.workers""",
    "a hole": """insert into tasker.worker_transitions (worker_uuid, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select worker_uuid, lifecycle, 'idle', 'task_assigned', 'busy', 5, false from tasker.workers""",
    "other lifecycle": """insert into tasker.worker_transitions (worker_uuid, lifecycle, from_state, event, to_state, sort_key, most_recent)
        select worker_uuid, 'supervision.worker', 'IDLE', 'start_task', 'RUNNING', 3, false from tasker.workers""",
}


@pytest.mark.parametrize("wall", WALLS)
@pytest.mark.parametrize("role", [None, "tasker_owner"])
def test_the_log_of_workers_takes_nothing_illegal(
    engine: Engine, open_engine: OpenEngine, wall: str, role: str | None
) -> None:
    """Not even from the owner of the table."""
    worker = register(engine)
    with pytest.raises(psycopg.Error):
        open_engine(role=role).rows(WALLS[wall])
    assert walk(engine, worker) == ["initializing", "idle"]


@pytest.mark.parametrize(
    "arguments",
    [{"p_max_concurrent": 0}, {"p_heartbeat_interval": "0 s"}, {"p_max_missed_heartbeats": 0}, {"p_name": ""}],
    ids=str,
)  # fmt: skip
def test_a_senseless_worker_is_refused(engine: Engine, arguments: Row) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.call("register_worker", **{"p_name": "w", **arguments})
    assert refused.value.sqlstate == "TK400"


def test_a_worker_of_a_vocabulary_without_workers_is_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as refused:
        register(engine, p_vocabulary="pipeline")
    assert refused.value.sqlstate == "TK404"
