"""Seed 003: workers allocated atomically, depth, supervisors, idempotency, and both tables of error recovery."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.vocabularies import pages
from tests.vocabularies.lab import Lab, refused
from tests.workflow.engine import BY, Row, in_parallel, step

BROKEN: Row = {"success": False, "error": {"message": "it broke"}, "category": "transient"}


def job(lab: Lab, *steps: Row, workers: int = 1, **arguments: Any) -> UUID:
    flow = {"name": "job", "vocabulary": "supervision", "worker_count": workers, "steps": list(steps) or [step("a")]}
    return lab.create(flow, **arguments)


def given(lab: Lab, task: UUID) -> list[UUID]:
    return lab.column("select worker_uuid from tasker.job_workers where task_uuid = %s", task)


# -- workers for jobs


def test_a_job_waits_until_all_its_workers_are_there(lab: Lab) -> None:
    """PENDING → RUNNING: Resources available; Resource unavailable: keep in PENDING (retry allocation)."""
    task = job(lab, workers=3)
    two = lab.supervised(2)
    lab.settle()
    assert (lab.state(task), given(lab, task)) == ("PENDING", []), "all or none"
    assert {lab.worker_state(worker) for worker in two} == {"IDLE"}
    (third,) = lab.supervised(1)
    lab.settle()
    assert lab.state(task) == "RUNNING"
    assert set(given(lab, task)) == {*two, third}
    assert {lab.worker_state(worker) for worker in given(lab, task)} == {"RUNNING"}


@pytest.mark.parametrize("workers", [0, 11, 1.5, "many"])
def test_a_job_has_one_to_ten_workers(lab: Lab, workers: Any) -> None:
    with refused("TK400") as refusal:
        job(lab, workers=workers)
    assert refusal.detail["problems"][0]["path"] == "worker_count"


def test_two_jobs_that_race_for_workers_never_share_or_split_them(
    server: Any, module_conn: psycopg.Connection[Any]
) -> None:
    """Five workers, four jobs of two: two jobs get both of theirs, in whatever order sessions commit."""
    lab = Lab(module_conn)
    lab.supervised(5)
    dsn = module_conn.info.dsn + f" password='{module_conn.info.password}'"
    sessions = [psycopg.connect(dsn, autocommit=True) for _ in range(4)]
    try:
        labs = [Lab(session) for session in sessions]

        def create(place: int) -> Callable[[], UUID]:
            return lambda: job(labs[place], workers=2, p_namespace=lab.namespace)

        tasks = in_parallel([create(place) for place in range(4)])
    finally:
        for session in sessions:
            session.close()
    lab.settle()
    held = [given(lab, task) for task in tasks]
    assert sorted(len(workers) for workers in held) == [0, 0, 2, 2]
    assert len({worker for workers in held for worker in workers}) == 4
    assert sorted(lab.state(task) for task in tasks) == ["PENDING", "PENDING", "RUNNING", "RUNNING"]
    for task in tasks:
        lab.command("cancel_task", task)
    lab.clear()


def test_jobs_are_at_most_five_deep(lab: Lab) -> None:
    parent = job(lab)
    for depth in range(1, 6):
        parent = job(lab, p_parent_task_uuid=parent)
        assert lab.one("select depth from tasker.tasks where task_uuid = %s", parent) == depth
    with refused("TK400") as refusal:
        job(lab, p_parent_task_uuid=parent)
    assert refusal.detail["limit"] == 5


def test_cancelling_a_job_cancels_its_children_and_kills_its_workers(lab: Lab) -> None:
    """RUNNING → CANCELED: Kill workers, release resources."""
    lab.supervised(3)
    parent = job(lab, workers=2)
    child = job(lab, p_parent_task_uuid=parent)
    (grandchild, *_) = [job(lab, p_parent_task_uuid=child)]
    workers = given(lab, parent) + given(lab, child)
    assert len(workers) == 3
    held = lab.claim(worker=workers[0])
    assert lab.command("cancel_task", parent) == "CANCELED"
    assert [lab.state(task) for task in (parent, child, grandchild)] == ["CANCELED"] * 3
    assert {lab.worker_state(worker) for worker in workers} == {"TERMINATED"}
    assert [row["code"] for row in lab.complete(held)] == ["TK412"] * len(held)
    lab.sound()


def test_a_finished_job_releases_its_workers(lab: Lab) -> None:
    """RUNNING → COMPLETED: Release resources, store result."""
    (worker,) = lab.supervised(1)
    task = job(lab, step("a"), step("b", "a"))
    lab.work(worker=worker)
    assert lab.state(task) == "COMPLETED"
    assert lab.worker_state(worker) == "COMPLETED", "All tasks done"
    assert lab.steps(task)["b"]["result"] == "b"
    released = lab.one("select released_at from tasker.job_workers where task_uuid = %s", task)
    assert released is not None


# -- supervisors


def test_a_paused_worker_claims_nothing_and_reports_what_it_holds(lab: Lab) -> None:
    (worker,) = lab.supervised(1)
    job(lab, step("a"), step("b"))
    held = lab.claim(1, worker)
    assert lab.command("pause_worker", worker) == "PAUSED"
    assert lab.claim(worker=worker) == []
    assert [row["code"] for row in lab.complete(held)] == [None]
    assert lab.command("resume_worker", worker) == "RUNNING"
    assert len(lab.claim(worker=worker)) == 1
    log = lab.rows(
        "select event, metadata ->> 'reason' as reason, metadata ->> 'requested_by' as who"
        " from tasker.worker_transitions where worker_uuid = %s and event in ('pause', 'resume') order by sort_key",
        worker,
    )
    assert [(row["event"], row["reason"], row["who"]) for row in log] == [
        ("pause", BY["p_reason"], BY["p_requested_by"]),
        ("resume", BY["p_reason"], BY["p_requested_by"]),
    ]


def test_a_terminated_worker_loses_what_it_holds(lab: Lab) -> None:
    worker, other = lab.supervised(2)
    task = job(lab, workers=2)
    held = lab.claim(worker=worker)
    assert lab.command("terminate_worker", worker) == "TERMINATED"
    lab.settle()
    assert [row["code"] for row in lab.complete(held)] == ["TK412"]
    lab.work(worker=other)
    assert lab.state(task) == "COMPLETED"
    lab.sound()


# -- 3. idempotency


def test_the_same_request_id_gives_the_same_answer(lab: Lab) -> None:
    """test_idempotent_pause of the page: the second call is not a second pause, which would be refused."""
    (worker,) = lab.supervised(1)
    lab.command("start_worker", worker)
    request = {"p_worker_uuid": worker, **BY, "p_request_id": f"req-{uuid4()}"}
    assert lab.call("pause_worker", **request) == lab.call("pause_worker", **request) == "PAUSED"
    assert [event for _, event, _ in lab.worker_log(worker)].count("pause") == 1
    with refused("TK409"):
        lab.command("pause_worker", worker)
    with refused("TK423"):
        lab.call("pause_worker", **{**request, "p_reason": "something else"})


def test_request_ids_are_forgotten_after_their_time(lab: Lab, shared: Path) -> None:
    (printed,) = re.findall(r"ttl_seconds: int = (\d+)", pages.text(shared, "003"))
    request = f"req-{uuid4()}"
    lab.call("register_worker", p_name="w", p_request_id=request)
    kept = lab.one(
        "select round(extract(epoch from expires_at - created_at))::int from tasker.idempotency_keys where request_id = %s",
        request,
    )
    offset = lab.one("select round(extract(epoch from coalesce((select shift from tasker.test_clock), '0')))::int")
    assert kept - offset in (int(printed), 24 * int(printed))
    lab.later("25 hours")
    lab.tick()
    assert lab.rows("select * from tasker.idempotency_keys where request_id = %s", request) == []


def test_the_table_of_idempotency_keys_is_as_printed(lab: Lab, shared: Path) -> None:
    printed = re.search(r"CREATE TABLE idempotency_keys \((.*?)\n\);", pages.text(shared, "003"), re.S)
    assert printed
    names = [name for name in re.findall(r"^    (\w+) [A-Z]", printed[1], re.M) if name != "INDEX"]
    stored = lab.column(
        "select attname from pg_attribute where attrelid = 'tasker.idempotency_keys'::regclass and attnum > 0"
        " and not attisdropped"
    )
    assert set(names) <= set(stored)
    (index,) = re.findall(r"INDEX (\w+) \(", printed[1])
    assert lab.one("select count(*) from pg_indexes where schemaname = 'tasker' and indexname = %s", index) == 1


# -- 4. error recovery


def test_worker_error_recovery(lab: Lab, shared: Path) -> None:
    """4.1: transient errors retried (3 attempts), exhaustion paused, unrecoverable failed, timeouts terminated."""
    part = pages.between(pages.text(shared, "003"), "### 4.1 Worker Error Recovery", "### 4.2 Job Error Recovery")
    assert [row[0] for row in pages.table(part, "Error Type")] == [
        "Transient network error", "Resource exhaustion", "Unrecoverable error", "Supervisor timeout",
    ]  # fmt: skip
    (worker,) = lab.supervised(1)
    task = job(lab, step("a", max_attempts=3))
    failures = [BROKEN, BROKEN]
    lab.work(lambda claimed: failures.pop() if failures else None, worker=worker)
    assert (lab.state(task), lab.steps(task)["a"]["attempts"]) == ("COMPLETED", 3)

    exhausted, lost, late = lab.supervised(3)
    for running in (exhausted, lost, late):
        lab.command("start_worker", running)
    assert lab.command("pause_worker", exhausted) == "PAUSED"
    assert lab.command("terminate_worker", late) == "TERMINATED"
    lab.later("31 seconds")
    lab.settle()
    assert lab.worker_state(lost) == "FAILED", "never heard of again"


def test_a_crashed_worker_is_replaced(lab: Lab) -> None:
    """4.2: Worker crash: spawn new worker, retry; the job stays RUNNING."""
    (worker,) = lab.supervised(1)
    task = job(lab, step("a"))
    assert lab.claim(worker=worker, lease="10 s")
    lab.later("31 seconds")
    lab.settle()
    assert (lab.worker_state(worker), lab.state(task)) == ("FAILED", "RUNNING")
    (replacement,) = lab.supervised(1)
    lab.settle()
    assert lab.worker_state(replacement) == "RUNNING"
    lab.work(worker=replacement)
    assert (lab.state(task), lab.worker_state(replacement)) == ("COMPLETED", "COMPLETED")
    lab.sound()


def test_a_job_whose_step_is_invalid_fails_at_once(lab: Lab) -> None:
    """4.2: Validation error: fail immediately."""
    (worker,) = lab.supervised(1)
    task = job(lab, step("a"), step("b", "a"))
    lab.work(lambda claimed: {**BROKEN, "category": "permanent"}, worker=worker)
    assert (lab.state(task), lab.steps(task)["a"]["attempts"]) == ("FAILED", 1)
    with refused("TK409") as refusal:
        lab.command("reset_task", task)
    assert "Create a new one instead" in refusal.hint, "create new job instead"


# -- 5. persistence


def test_every_column_of_the_printed_tables_has_its_place(lab: Lab, shared: Path) -> None:
    """Where a column has another name here, or is read from the log since the newest row is the state."""
    elsewhere: dict[str, dict[str, str | None]] = {
        "workers": {
            "id": "worker_uuid", "workspace_id": "namespaces", "created_at": "registered_at", "updated_at": "last_heartbeat_at",
            "metadata": "capabilities", "status": None,
        },
        "worker_state_transitions": {
            "id": "worker_transition_uuid", "worker_id": "worker_uuid", "timestamp": "created_at", "reason": "metadata",
        },
        "jobs": {
            "id": "task_uuid", "parent_job_id": "parent_task_uuid", "task_description": "context", "status": None,
        },
        "job_state_transitions": {
            "id": "task_transition_uuid", "job_id": "task_uuid", "timestamp": "created_at", "reason": "metadata",
        },
    }  # fmt: skip
    tables = {
        "workers": "workers", "worker_state_transitions": "worker_transitions", "jobs": "tasks",
        "job_state_transitions": "task_transitions",
    }  # fmt: skip
    for name, table in tables.items():
        body = re.search(rf"CREATE TABLE {name} \((.*?)\n\);", pages.text(shared, "003"), re.S)
        assert body
        stored = set(
            lab.column(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0", f"tasker.{table}"
            )
        )
        for column in re.findall(r"^    (\w+) [A-Z(]", body[1], re.M):
            if column not in ("CHECK", "INDEX"):
                place = elsewhere[name].get(column, column)
                assert place is None or place in stored, (name, column)
