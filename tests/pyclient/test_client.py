"""Every method of both clients against a real server; nothing about connections, see test_connections.py."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgtasker import (
    BreakerPermit,
    CircuitOpen,
    Client,
    GuardFailed,
    IdempotencyConflict,
    InvalidDefinition,
    InvalidTransition,
    InvalidValue,
    LimitExceeded,
    NotFound,
    NotOwner,
    PgtaskerError,
    Recovery,
    SchemaMissing,
    StaleClaim,
    TaskOverview,
    WaitTimeout,
)
from pgtasker.errors import error_from_psycopg

from .conftest import graph

TEMPLATE = {
    "name": "thumbnail",
    "steps": [
        {"name": "fetch", "handler": "fetch"},
        {"name": "resize", "handler": "resize", "depends_on": ["fetch"], "arguments": {"width": 800}},
    ],
}


def finish(api: Any, worker_uuid: uuid.UUID, results: dict[str, Any] | None = None) -> int:
    """Work by hand until nothing can be claimed; returns how many steps were done."""
    done = 0
    while claims := api.claim_steps(worker_uuid, limit=100):
        outcomes = api.complete_steps(
            {
                "step_uuid": claim.workflow_step_uuid,
                "claim_uuid": claim.claim_uuid,
                "result": (results or {}).get(claim.name, claim.name),
                "execution_time_ms": 5,
            }
            for claim in claims
        )
        assert [outcome.code for outcome in outcomes] == [None] * len(claims)
        assert api.orchestrate().messages > 0
        done += len(claims)
    return done


def test_a_workflow_from_template_to_audit(api: Any) -> None:
    assert api.schema_version()
    template_uuid = api.register_template(TEMPLATE)
    assert api.register_template(TEMPLATE) == template_uuid
    correlation_id = uuid.uuid4()
    task_uuid = api.create_task(
        "thumbnail",
        {"url": "x", "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        correlation_id=correlation_id,
        priority=3,
        tags={"team": "media"},
        requested_by="anna",
    )
    worker_uuid = api.register_worker("w", ["fetch", "resize"], max_concurrent=2)
    (claim,) = api.claim_steps(worker_uuid, ["default"], limit=10, lease=dt.timedelta(seconds=20))
    assert (claim.task_uuid, claim.task_name, claim.name, claim.handler) == (task_uuid, "thumbnail", "fetch", "fetch")
    assert (claim.attempt, claim.max_attempts, claim.timeout) == (1, 5, dt.timedelta(seconds=300))
    assert claim.context == {"url": "x", "at": "2026-01-01T00:00:00+00:00"}
    assert claim.correlation_id == correlation_id
    assert (claim.tool, claim.acceptance, claim.checkpoint) == ("fetch", [], None)
    assert api.held_claims(worker_uuid) == [claim.workflow_step_uuid]
    assert api.extend_leases(worker_uuid, 60) == 1
    assert api.worker_heartbeat(worker_uuid) == api.worker_state(worker_uuid) == "busy"
    assert api.complete_step(claim.workflow_step_uuid, claim.claim_uuid, {"bytes": 12}, execution_time_ms=7)
    counts = api.orchestrate()
    assert (counts.steps_settled, counts.steps_enqueued, counts.tasks_finished) == (1, 1, 0)
    assert api.tick().timers_fired == 0
    (claim,) = api.claim_steps(worker_uuid)
    assert (claim.name, claim.inputs, claim.arguments) == ("resize", {"fetch": {"bytes": 12}}, {"width": 800})
    assert api.complete_step(claim.workflow_step_uuid, claim.claim_uuid, None)
    assert api.orchestrate().tasks_finished == 1

    task = api.task(task_uuid)
    assert isinstance(task, TaskOverview)
    assert task.is_terminal and task.phase == "succeeded"
    assert (task.priority, task.tags, task.requested_by) == (3, {"team": "media"}, "anna")
    assert (task.total_steps, task.satisfied_steps) == (2, 2)
    assert task.completed_at is not None and task.completed_at.tzinfo is not None
    assert api.tasks() == [task]
    assert api.tasks(namespace="default", state=task.state) == [task]
    assert api.tasks(state="nonsense") == []
    steps = api.steps(task_uuid)
    assert [(step.name, step.result) for step in steps] == [("fetch", {"bytes": 12}), ("resize", None)]
    assert api.wait(task_uuid, timeout=5) == task

    entries = api.timeline(task_uuid)
    assert [e.at for e in entries] == sorted(e.at for e in entries)
    assert {e.kind for e in entries} == {"task", "step"}
    assert api.explain_task(task_uuid).task_uuid == task_uuid
    assert api.allowed_events("step", steps[0].workflow_step_uuid) is not None
    assert len(api.get_step_readiness_status(task_uuid)) == 2
    assert len(api.get_step_readiness_status(task_uuid, [str(steps[0].workflow_step_uuid)])) == 1
    assert api.get_task_execution_context(task_uuid)["task_uuid"] == task_uuid

    records = api.get_task_audit_history(task_uuid)
    assert [(r.step_name, r.success, r.worker_uuid) for r in records] == [
        ("resize", True, worker_uuid),
        ("fetch", True, worker_uuid),
    ]
    assert records[1].execution_time_ms == 7
    assert api.get_step_audit_history(task_uuid, steps[0].workflow_step_uuid) == [records[1]]
    assert api.get_audit_by_worker(worker_uuid, limit=1) == [records[0]]
    assert api.get_audit_by_correlation_id(str(correlation_id)) == records

    assert api.check_consistency() == []
    assert api.check_consistency(task_uuid) == []
    assert api.find_stuck(older_than=0.0) == []
    assert api.shutdown_worker(worker_uuid, "over") == "shutdown"


def test_definitions_namespaces_and_diagrams(api: Any) -> None:
    assert api.ensure_namespace("media", "pictures") == "media"
    api.set_namespace_notifications("media", "all")
    with pytest.raises(PgtaskerError):
        api.set_namespace_notifications("media", "sometimes")
    assert "stateDiagram" in api.lifecycle_diagram("tasker.task")
    assert "digraph" in api.lifecycle_diagram("tasker.task", "dot")
    assert "initializing" in api.lifecycle_diagram("tasker.task", "table")
    with pytest.raises(InvalidDefinition) as caught:
        api.define_vocabulary({"vocabulary": "broken"})
    assert caught.value.problems


def test_many_tasks_at_once_keep_their_order(api: Any) -> None:
    api.register_template(TEMPLATE)
    requests = [{"name": "thumbnail", "context": {"n": n}, "priority": n} for n in range(5)]
    uuids = api.create_tasks(requests)
    assert [api.task(task_uuid).context for task_uuid in uuids] == [{"n": n} for n in range(5)]


def test_a_unique_key_says_what_became_of_the_request(api: Any) -> None:
    api.register_template(TEMPLATE)
    first = api.create_task("thumbnail", unique_key="k")
    assert api.create_task("thumbnail", unique_key="k") == first
    wanted = [{"name": "thumbnail", "unique_key": key} for key in "kl"]
    known, new = api.submit_tasks(wanted, request_id="r")
    assert (known.task_uuid, known.outcome, new.outcome) == (first, "duplicate", "created")
    assert api.submit_tasks(wanted, request_id="r") == [known, new]
    late = api.create_task("thumbnail", {"n": 1}, unique_key="m", debounce_seconds=60, debounce_max_seconds=120)
    (pushed,) = api.submit_tasks(
        [{"name": "thumbnail", "context": {"n": 2}, "unique_key": "m", "debounce_seconds": 60}]
    )
    assert (pushed.task_uuid, pushed.outcome) == (late, "pushed_back")
    assert api.task_status(late).context == {"n": 2}


def test_an_idempotency_key_returns_the_first_task(api: Any) -> None:
    first = api.create_task_from_graph(graph("a"), {"n": 1}, idempotency_key="k")
    assert api.create_task_from_graph(graph("a"), {"n": 1}, idempotency_key="k") == first
    with pytest.raises(IdempotencyConflict):
        api.create_task_from_graph(graph("a"), {"n": 2}, idempotency_key="k")
    api.register_template(TEMPLATE)
    second = api.create_task("thumbnail", idempotency_key="t")
    assert api.create_task("thumbnail", idempotency_key="t") == second
    assert api.task(api.create_task("thumbnail", vocabulary="execution")).state == "S_RUNNING"


def test_a_child_task_knows_its_parent(api: Any) -> None:
    parent = api.create_task_from_graph(graph("a"))
    child = api.create_task_from_graph(graph("a"), parent_task_uuid=str(parent))
    assert api.task(child).parent_task_uuid == parent


def test_failures_retries_and_repairs_by_hand(api: Any) -> None:
    worker_uuid = api.register_worker("w")
    last = {"name": "b", "handler": "h", "depends_on": ["a"], "max_attempts": 1}
    task_uuid = api.create_task_from_graph(graph("a", last))
    (claim,) = api.claim_steps(worker_uuid)
    why = {"message": "no"}
    api.fail_step(claim.workflow_step_uuid, claim.claim_uuid, why, "transient", retry_after=0.0, execution_time_ms=1)
    api.orchestrate()
    while api.tick().timers_fired == 0:
        pass
    (claim,) = api.claim_steps(worker_uuid)
    assert claim.attempt == 2
    api.complete_step(claim.workflow_step_uuid, claim.claim_uuid)
    api.orchestrate()
    (claim,) = api.claim_steps(worker_uuid)
    api.fail_step(claim.workflow_step_uuid, claim.claim_uuid, {"message": "broken"}, "permanent")
    api.orchestrate()
    task = api.task(task_uuid)
    assert task.phase == "blocked"
    assert api.wait(task_uuid, timeout=5, blocked=True).phase == "blocked"
    explanation = api.explain_task(task_uuid)
    assert explanation.reasons and explanation.reasons[0].call
    step = api.steps(task_uuid)[1]
    assert step.last_error == {"message": "broken"}
    assert api.resolve_step(step.workflow_step_uuid, "done by hand", "anna", {"ok": 1})
    api.orchestrate()
    assert api.wait(task_uuid, timeout=5).is_terminal
    assert api.steps(task_uuid)[1].result == {"ok": 1}
    assert any(entry.reason == "done by hand" and entry.requested_by == "anna" for entry in api.timeline(task_uuid))


def blocked_task(api: Any) -> tuple[uuid.UUID, uuid.UUID]:
    """A task whose only step failed for good; returns (task, step)."""
    namespace = uuid.uuid4().hex
    worker_uuid = api.register_worker("w", namespaces=[namespace])
    task_uuid = api.create_task_from_graph(
        graph({"name": "a", "handler": "h", "retryable": False}), namespace=api.ensure_namespace(namespace)
    )
    (claim,) = api.claim_steps(worker_uuid)
    api.fail_step(claim.workflow_step_uuid, claim.claim_uuid, {"message": "no"}, "permanent")
    api.orchestrate()
    assert api.task(task_uuid).phase == "blocked"
    return task_uuid, claim.workflow_step_uuid


def test_commands_for_tasks(api: Any) -> None:
    given_up, _ = blocked_task(api)
    assert api.give_up_task(given_up, "hopeless", "anna") == api.task(given_up).state
    assert api.task(given_up).phase == "failed"
    assert api.reset_task(given_up, "once more", "anna") == api.task(given_up).state
    resolved, _ = blocked_task(api)
    assert api.resolve_task(resolved, "by hand", "anna") == api.task(resolved).state
    assert api.task(resolved).phase == "resolved"
    cancelled = api.create_task_from_graph(graph("a"))
    assert api.cancel_task(cancelled, "not needed", "anna") == api.task(cancelled).state
    assert api.task(cancelled).phase == "cancelled"
    for verdict, phase in ((api.pass_validation, "succeeded"), (api.fail_validation, "failed")):
        judged = api.create_task_from_graph({**graph(), "vocabulary": "orchestration", "final_validation": True})
        assert verdict(judged, "looked at", "anna") == api.task(judged).state
        assert api.task(judged).phase == phase
    resumed = api.resume_task(cancelled, "needed after all", "anna", request_id="resume")
    assert api.resume_task(cancelled, "needed after all", "anna", request_id="resume") == resumed != cancelled
    with pytest.raises(InvalidTransition):
        api.resume_task(cancelled, "needed after all", "anna")


def test_start_times_paused_namespaces_and_commands_for_many(api: Any) -> None:
    at = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    tasks = [api.create_task_from_graph(graph("a"), start_at=at, priority=3, tags={"batch": 7}) for _ in range(2)]
    api.register_template(graph("a"))
    tasks.append(api.create_task(graph("a")["name"], start_at=at, tags={"batch": 7}))
    assert {api.task(task).phase for task in tasks} == {"pending"}
    found = api.command_all("cancel_task", {"tags": {"batch": 7}}, "not needed", "anna")
    assert [(row.task_uuid, row.after) for row in found] == [(task, None) for task in sorted(tasks)]
    done = api.command_all("cancel_task", {"tags": {"batch": 7}}, "not needed", "anna", dry_run=False)
    assert [(row.after, row.code) for row in done] == [("cancelled", None)] * 3
    with pytest.raises(InvalidDefinition):
        api.command_all("cancel_task", {}, "not needed", "anna")
    api.pause_namespace("default", "closed", "anna")
    running = api.create_task_from_graph(graph("a"))
    worker = api.register_worker("w")
    assert api.claim_steps(worker) == []
    api.resume_namespace("default", "open", "anna")
    assert [claim.task_uuid for claim in api.claim_steps(worker)] == [running]


def test_schedules(api: Any) -> None:
    api.register_template({"name": "report", **{k: v for k, v in graph("a").items() if k != "name"}})
    due = api.schedule_tasks("hourly", "0 * * * *", "report", {"n": 1}, tags={"team": "x"}, requested_by="anna")
    assert due == api.cron_times("0 * * * *", limit=1)[0]
    (schedule,) = api.schedules("default")
    assert (schedule.schedule, schedule.next_due_at, schedule.context) == ("hourly", due, {"n": 1})
    api.pause_schedule("hourly", "closed", "anna")
    assert api.schedules()[0].next_due_at is None
    assert api.resume_schedule("hourly", "open again", "anna") == due
    period = (due - dt.timedelta(hours=2), due - dt.timedelta(hours=1))
    missing = api.backfill_schedule("hourly", *period, "late", "anna")
    assert [(row.due_at, row.task_uuid, row.is_new) for row in missing] == [(at, None, True) for at in period]
    created = api.backfill_schedule("hourly", *period, "late", "anna", dry_run=False)
    assert [api.task(row.task_uuid).name for row in created] == ["report"] * 2
    api.remove_schedule("hourly", "not needed", "anna")
    assert api.schedules() == []
    with pytest.raises(NotFound):
        api.pause_schedule("hourly", "closed", "anna")
    with pytest.raises(InvalidDefinition):
        api.cron_times("never")


def test_events(api: Any) -> None:
    wait = {"event": "approved", "key": "$.context.order"}
    task = api.create_task_from_graph({"name": "flow", "steps": [{"name": "ship", "wait_for": wait}]}, {"order": 7})
    (step,) = api.steps(task)
    assert (step.waits_for, step.state) == ("event approved of 7", "pending")
    assert api.get_event("approved", "7") is None
    told = api.emit_event("approved", "7", {"by": "anna"}, requested_by="anna", keep=None)
    assert (told.outcome, told.payload, told.emitted_by) == ("emitted", {"by": "anna"}, "anna")
    assert api.emit_event("approved", "7", 1).outcome == "differs"
    api.orchestrate()
    (claim,) = api.claim_steps(api.register_worker("w"))
    assert claim.inputs == {"approved": {"by": "anna"}}
    api.emit_event("approved", "8")
    found = api.emitted_events("default", "approved", limit=1)
    assert [(event.key, event.payload) for event in found] == [("8", {})]
    event = api.get_event("approved", "7")
    assert event is not None and (event.payload, event.keep_until) == ({"by": "anna"}, None)
    with pytest.raises(InvalidDefinition):
        api.emit_event("", "7")


def test_commands_for_steps(api: Any) -> None:
    for command in ("retry_step", "reset_step"):
        task_uuid, step_uuid = blocked_task(api)
        assert getattr(api, command)(step_uuid, "again", "anna")
        assert not api.task(task_uuid).is_terminal
    task_uuid = api.create_task_from_graph(graph("a", "b"))
    first, second = api.steps(task_uuid)
    assert api.cancel_step(first.workflow_step_uuid, "no need", "anna")
    assert api.steps(task_uuid)[0].phase == "cancelled"
    # The tasker vocabulary has no way to skip a step that is queued; the refusal names what is allowed.
    with pytest.raises(InvalidTransition) as caught:
        api.skip_step(second.workflow_step_uuid, "no need", "anna")
    assert caught.value.hint


def test_the_generic_door(api: Any) -> None:
    processor = api.register_processor("p", lease=30)
    assert api.processor_heartbeat(processor, dt.timedelta(seconds=60)).tzinfo is not None
    task_uuid = api.create_task_from_graph(graph("a"), start=False)
    state = api.task(task_uuid).state
    (start,) = [e for e in api.allowed_events("task", task_uuid) if e.event == "start"]
    assert api.transition_task(task_uuid, "start", processor, {"why": "test"}) == start.to_state
    other = api.register_processor("q")
    with pytest.raises(NotOwner):
        api.transition_task(task_uuid, "ready_steps_found", other)
    assert api.transition_with_ownership(task_uuid, state, start.to_state, processor) is False
    cancelled = api.create_task_from_graph(graph("a"))
    step = api.steps(cancelled)[0]
    assert api.transition_step(step.workflow_step_uuid, "cancel", {"reason": "r", "requested_by": "anna"})


def test_one_class_for_each_code(api: Any, conn: psycopg.Connection[Any]) -> None:
    nobody = uuid.uuid4()
    with pytest.raises(InvalidDefinition) as invalid:
        api.register_template({"name": "", "steps": [{"name": "a", "handler": "h", "depends_on": ["b", "a"]}]})
    assert len(invalid.value.problems) >= 2
    assert all(problem["message"] in str(invalid.value) for problem in invalid.value.problems)
    for call in (
        lambda: api.task(nobody),
        lambda: api.create_task("nothing"),
        lambda: api.cancel_task(nobody, "r", "anna"),
        lambda: api.wait(nobody),
        lambda: api.get_task_execution_context(nobody),
        lambda: api.claim_steps(nobody),
    ):
        with pytest.raises(NotFound) as missing:
            call()  # type: ignore[no-untyped-call]
        assert missing.value.sqlstate == "TK404"
    task_uuid = api.create_task_from_graph(graph("a"))
    api.cancel_task(task_uuid, "r", "anna")
    with pytest.raises(InvalidTransition) as forbidden:
        api.cancel_task(task_uuid, "r", "anna")
    assert forbidden.value.sqlstate == "TK409" and forbidden.value.hint
    assert forbidden.value.hint in str(forbidden.value)
    worker_uuid = api.register_worker("w")
    api.create_task_from_graph(graph("a"))
    # The queue still holds the message of the cancelled task's step.
    (claim,) = api.claim_steps(worker_uuid, limit=2)
    with pytest.raises(StaleClaim) as stale:
        api.complete_step(claim.workflow_step_uuid, nobody, 1)
    assert stale.value.detail
    (refused,) = api.complete_steps([{"step_uuid": claim.workflow_step_uuid, "claim_uuid": nobody}])
    assert (refused.state, refused.code) == (None, "TK412")
    waiting = api.create_task_from_graph(graph("a"), start=False)
    api.transition_task(waiting, "start")
    with pytest.raises(GuardFailed) as guarded:
        api.transition_task(waiting, "no_steps_found")
    assert guarded.value.detail["guard"]
    with pytest.raises(LimitExceeded):
        api.complete_steps([{}] * 10_001)
    with pytest.raises(psycopg.Error) as raised:
        conn.execute("select tasker.raise_error('TK503', 'the breaker is open', '{\"tool\": \"x\"}', 'wait')")
    translated = error_from_psycopg(raised.value)
    assert isinstance(translated, CircuitOpen)
    assert (translated.message, translated.detail, translated.hint) == ("the breaker is open", {"tool": "x"}, "wait")


def test_values_are_refused_before_they_are_sent(api: Any) -> None:
    with pytest.raises(InvalidValue, match="nan is not"):
        api.create_task_from_graph(graph("a"), {"x": float("nan")})
    with pytest.raises(InvalidValue, match="time zone"):
        api.create_task_from_graph(graph("a"), {"x": dt.datetime(2026, 1, 1)})
    with pytest.raises(InvalidValue, match="not a UUID"):
        api.task("something")
    with pytest.raises(InvalidValue, match="length of time"):
        api.find_stuck(float("inf"))


def test_waiting_ends_with_the_task_or_the_time(api: Any, database: str) -> None:
    task_uuid = api.create_task_from_graph(graph("a"))
    with pytest.raises(WaitTimeout) as caught:
        api.wait(task_uuid, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.detail["state"] == api.task(task_uuid).state

    def work() -> None:
        with Client(database) as other:
            finish(other, other.register_worker("w"))

    thread = threading.Thread(target=work)
    thread.start()
    assert api.wait(task_uuid, timeout=30).is_terminal
    thread.join()


def test_the_feed_gives_every_transition_once(api: Any) -> None:
    before = api.current_cursor()
    task_uuid = api.create_task_from_graph(graph("a", "b<a"))
    finish(api, api.register_worker("w"))
    everything = list(api.events(before, follow=False, limit=3))
    assert len({change.transition_uuid for change in everything}) == len(everything)
    assert {change.log for change in everything} == {"task", "step", "worker"}
    changes = [change for change in everything if change.log != "worker"]
    logged = api.timeline(task_uuid)
    assert len(changes) == len(logged)
    assert {(c.entity_uuid, c.sort_key, c.to_state, c.event) for c in changes} == {
        (e.entity_uuid, e.sort_key, e.to_state, e.event) for e in logged
    }
    assert list(api.events(everything[4].cursor, follow=False)) == everything[5:]
    assert api.changes_after(everything[4].cursor, limit=2) == everything[5:7]
    assert list(api.events(api.current_cursor(), follow=False)) == []


def test_following_the_feed_sees_what_happens_later(api: Any) -> None:
    feed = api.events(api.current_cursor(), poll_interval=0.05)
    task_uuid = api.create_task_from_graph(graph("a"))
    seen = [next(feed)]
    while seen[-1].log != "step":
        seen.append(next(feed))
    assert seen[0].task_uuid == task_uuid
    feed.close() if hasattr(feed, "close") else None


def test_a_database_without_the_schema_says_so(empty_database: str) -> None:
    with Client(empty_database) as client, pytest.raises(SchemaMissing, match="pgtasker migrate"):
        client.schema_version()


def test_a_closed_client_says_so(database: str) -> None:
    client = Client(database)
    client.close()
    with pytest.raises(PgtaskerError, match="closed"):
        client.tasks()
    with pytest.raises(TypeError, match="not both"):
        Client(database, pool=object())  # type: ignore[arg-type]


def test_an_unreachable_server_is_told_in_the_servers_words(database: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        Client(psycopg.conninfo.make_conninfo(database, dbname="nowhere")).open()


# ------------------------------------------------------------------------------------- time, failure and repetition


def test_a_request_id_makes_a_call_safe_to_repeat(api: Any) -> None:
    task_uuid = api.create_task_from_graph(graph("a"), request_id="order 1")
    assert api.create_task_from_graph(graph("a"), request_id="order 1") == task_uuid
    assert len(api.tasks()) == 1
    with pytest.raises(IdempotencyConflict, match="order 1"):
        api.create_task_from_graph(graph("b"), request_id="order 1")
    cancelled = api.cancel_task(task_uuid, "not needed", "anna", request_id="cancel 1")
    assert api.cancel_task(task_uuid, "not needed", "anna", request_id="cancel 1") == cancelled
    with pytest.raises(InvalidTransition):
        api.cancel_task(task_uuid, "not needed", "anna")
    worker_uuid = api.register_worker("w", request_id="worker 1")
    assert api.register_worker("w", request_id="worker 1") == worker_uuid
    assert api.shutdown_worker(worker_uuid, "over", request_id="bye") == api.shutdown_worker(
        worker_uuid, "over", request_id="bye"
    )
    assert api.purge_expired() == 0


def test_a_checkpoint_outlives_its_attempt(api: Any) -> None:
    step = {"name": "a", "handler": "work", "retry": {"base_delay": 0}}
    api.create_task_from_graph(graph(step))
    worker_uuid = api.register_worker("w")
    (claim,) = api.claim_steps(worker_uuid)
    assert api.save_checkpoint(claim.workflow_step_uuid, claim.claim_uuid, {"done": 7}) is None
    api.fail_step(claim.workflow_step_uuid, claim.claim_uuid, {"message": "late"}, "transient", request_id="f")
    with pytest.raises(StaleClaim):
        api.save_checkpoint(claim.workflow_step_uuid, claim.claim_uuid, {"done": 8})
    api.orchestrate()
    api.tick()
    (again,) = api.claim_steps(worker_uuid)
    assert (again.attempt, again.checkpoint) == (2, {"done": 7})
    with pytest.raises(InvalidDefinition):
        api.save_checkpoint(again.workflow_step_uuid, again.claim_uuid, None)


@pytest.mark.parametrize("passed", [True, False])
def test_a_validation_is_reported_by_itself(api: Any, passed: bool) -> None:
    step = {"name": "a", "handler": "work", "acceptance": [{"type": "file_exists", "path": "x"}]}
    task_uuid = api.create_task_from_graph({**graph(step), "vocabulary": "execution"})
    worker_uuid = api.register_worker("w", vocabulary="execution")
    (claim,) = api.claim_steps(worker_uuid)
    assert claim.acceptance == [{"type": "file_exists", "path": "x"}]
    assert api.complete_step(claim.workflow_step_uuid, claim.claim_uuid, 1) == "VALIDATING"
    state = api.report_validation(claim.workflow_step_uuid, claim.claim_uuid, passed, {"checks": []})
    assert state == ("COMPLETED" if passed else "CIRCUIT_OPEN")
    assert api.steps(task_uuid)[0].attempts == 1
    with pytest.raises(StaleClaim):
        api.report_validation(claim.workflow_step_uuid, claim.claim_uuid, passed)


def test_workers_under_supervision(api: Any) -> None:
    worker_uuid = api.register_worker("w", vocabulary="supervision")
    assert api.worker_state(worker_uuid) == "IDLE"
    assert api.start_worker(worker_uuid, "by hand", "anna") == "RUNNING"
    assert api.pause_worker(worker_uuid, "lunch", "anna", request_id="p") == "PAUSED"
    assert api.pause_worker(worker_uuid, "lunch", "anna", request_id="p") == "PAUSED"
    assert api.claim_steps(worker_uuid) == []
    assert api.resume_worker(worker_uuid, "lunch is over", "anna") == "RUNNING"
    assert api.terminate_worker(worker_uuid, "broken", "anna") == "TERMINATED"
    with pytest.raises(InvalidTransition):
        api.claim_steps(worker_uuid)
    assert api.worker_state(uuid.uuid4()) is None


def test_a_circuit_breaker_for_calls_that_are_no_steps(api: Any) -> None:
    assert api.breaker_state("mail") is None
    with pytest.raises(NotFound):
        api.breaker_permit("mail")
    api.configure_tool("mail", dt.timedelta(minutes=1), request_id="tool")
    api.configure_tool("mail", None)
    closed = api.configure_breaker("mail", failure_threshold=2, cooldown=dt.timedelta(hours=1))
    assert api.breaker_permit("mail").allowed and api.breaker_allows("mail")
    assert api.record_breaker_result("mail", False, {"message": "no route"}) == closed
    opened = api.record_breaker_result("mail", False, {"message": "no route"}, request_id="r")
    assert opened != closed and api.breaker_state("mail") == opened
    permit = api.breaker_permit("mail")
    assert isinstance(permit, BreakerPermit)
    assert (permit.allowed, permit.permit_uuid, permit.state) == (False, None, opened)
    assert permit.retry_at is not None
    with pytest.raises(CircuitOpen) as refusal:
        api.breaker_allows("mail")
    assert refusal.value.detail["tool"] == "mail"
    api.configure_breaker("mail", failure_threshold=2, cooldown=0)
    assert api.reset_breaker("mail", "repaired", "anna") == closed
    assert api.breaker_allows("mail")


def test_recovery_says_what_it_would_do_and_does_it(api: Any, conn: psycopg.Connection[Any]) -> None:
    assert api.recover() == []
    task_uuid = api.create_task_from_graph(graph("a"))
    conn.execute("select pgmq.purge_queue(queue_name) from tasker.task_namespaces where namespace = 'default'")
    (found,) = api.recover()
    assert isinstance(found, Recovery)
    step_uuid = api.steps(task_uuid)[0].workflow_step_uuid
    assert (found.problem, found.entity_uuid, found.done) == ("queued_without_message", step_uuid, False)
    assert api.recover(task_uuid=uuid.uuid4()) == []
    with pytest.raises(InvalidDefinition):
        api.recover(dry_run=False)
    assert [row.done for row in api.recover(False, task_uuid, "the queue was lost", "anna")] == [True]
    assert api.recover() == []
    assert len(api.claim_steps(api.register_worker("w"))) == 1


# ------------------------------------------------------------------------------------------------ refused by hand

NOBODY = "01890000-0000-7000-8000-000000000000"
BY_HAND: dict[str, tuple[Any, ...]] = {
    **{
        command: (NOBODY,)
        for command in (
            "cancel_task", "give_up_task", "resolve_task", "reset_task", "resume_task", "pass_validation", "fail_validation", "cancel_step", "skip_step", "retry_step",
            "reset_step", "resolve_step", "start_worker", "pause_worker", "resume_worker", "terminate_worker", "drain_worker",
        )
    },
    **{
        command: ("no-such-thing",)
        for command in (
            "reset_breaker", "pause_schedule", "resume_schedule", "remove_schedule", "pause_namespace", "resume_namespace",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("command", BY_HAND)
def test_a_refused_command_raises_what_it_always_did_and_leaves_a_row(
    api: Any, conn: psycopg.Connection[Any], command: str
) -> None:
    (target,) = BY_HAND[command]
    with pytest.raises(psycopg.Error) as bare:
        kind = command.rpartition("_")[2].replace("validation", "task")
        parameter = {"breaker": "tool", "schedule": "schedule", "namespace": "namespace"}.get(kind, f"{kind}_uuid")
        conn.execute(
            f"select tasker.{command}(p_{parameter} => %s, p_reason => 'r', p_requested_by => 'anna')", [target]
        )
    expected = error_from_psycopg(bare.value)
    conn.rollback()
    with pytest.raises(PgtaskerError) as raised:
        getattr(api, command)(target, "r", "anna")
    found = raised.value
    assert type(found) is type(expected)
    assert (found.message, found.sqlstate, found.detail, found.hint) == (
        expected.message, expected.sqlstate, expected.detail, expected.hint,
    )  # fmt: skip
    kept = conn.execute("select code, message, detail from tasker.rejected_transitions").fetchall()
    assert [(code, message) for code, message, _ in kept] == [(found.sqlstate, found.message)]
    told = {"command": command, "target": target, "reason": "r", "requested_by": "anna"}
    assert told.items() <= kept[0][2].items()


def test_every_command_by_hand_is_attempted(api: Any, conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        api.attempt_command("dance", NOBODY, "r", "anna")
    assert set(raised.value.detail["commands"]) == {*BY_HAND, "hold_task", "release_task", "bind_login", "unbind_login"}


def test_a_missing_right_stays_what_it_was_and_leaves_a_row(
    login: Callable[..., str], conn: psycopg.Connection[Any]
) -> None:
    missing = pytest.raises(psycopg.errors.InsufficientPrivilege, match="reset_task")
    with Client(login("tasker_client")) as client, missing as raised:
        client.reset_task(NOBODY, "r", "anna")
    assert raised.value.sqlstate == "42501"
    assert conn.execute("select code from tasker.rejected_transitions").fetchall() == [("42501",)]


def test_in_a_transaction_of_the_caller_a_refusal_aborts_and_an_attempt_does_not(client: Client, database: str) -> None:
    def refusals() -> int:
        with psycopg.connect(database) as other:
            return len(other.execute("select from tasker.rejected_transitions").fetchall())

    with psycopg.connect(database) as own:
        with pytest.raises(NotFound):
            client.cancel_task(NOBODY, "r", "anna", conn=own)
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        own.rollback()
        assert refusals() == 0
        with pytest.raises(NotFound):
            client.attempt_command("cancel_task", NOBODY, "r", "anna", conn=own)
        task = client.create_task_from_graph(graph("a"), conn=own)
        own.commit()
    assert refusals() == 1
    assert client.task(task).task_uuid == task
