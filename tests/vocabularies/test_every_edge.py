"""Every edge of the nine lifecycles of seeds 000 to 003 is walked by calling what a user calls; the logs prove it.

The two lifecycles of seed 004 are walked in tests/kernel/test_every_edge.py.
"""

from __future__ import annotations

from uuid import UUID

from tests.kernel.test_every_edge import STEP_EDGES, TASK_EDGES
from tests.vocabularies.lab import Edge, Lab
from tests.workflow.engine import BY, Row, report_of, step

BROKEN: Row = {"success": False, "error": {"type": "io", "message": "it broke"}, "category": "transient"}
WRONG: Row = {"success": False, "error": {"type": "syntax", "message": "it is wrong"}, "category": "permanent"}
CHECK = [{"type": "command", "command": "true"}]


def walked(lab: Lab, lifecycle: str) -> set[Edge]:
    """What the logs of this namespace's entities hold."""
    logs = {
        "task": "tasker.task_transitions t where t.namespace = %(ns)s",
        "step": "tasker.workflow_step_transitions t where t.namespace = %(ns)s",
        "worker": "tasker.worker_transitions t join tasker.workers w using (worker_uuid) where %(ns)s = any (w.namespaces)",
        "circuit_breaker": "tasker.circuit_breaker_transitions t join tasker.circuit_breakers b"
        " using (circuit_breaker_uuid) where starts_with(b.tool, %(ns)s)",
    }
    kind = lab.one("select kind from tasker.lifecycles where lifecycle = %s", lifecycle)
    rows = lab.connection.execute(
        f"select t.from_state, t.event, t.to_state from {logs[kind]} and t.lifecycle = %(lc)s and t.from_state is not null".encode(),
        {"ns": lab.namespace, "lc": lifecycle},
    )
    return set(rows)


def assert_all_walked(lab: Lab, lifecycle: str) -> None:
    rows = lab.rows(
        "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = %s", lifecycle
    )
    rules = {tuple(row.values()) for row in rows}
    assert rules - walked(lab, lifecycle) == set()
    lab.sound()


def once(lab: Lab, outcome: Row | None = None, worker: UUID | str = "w", count: int = 1) -> list[Row]:
    """Claim exactly so many steps and, if an outcome is given, report it for them."""
    lab.settle()
    claims = lab.claim(100, worker)
    assert len(claims) == count, claims
    if outcome is not None:
        for claimed in claims:
            lab.run_step(claimed, outcome)
        lab.settle()
    return claims


def flow(lab: Lab, vocabulary: str, *steps: Row, **fields: object) -> UUID:
    start = fields.pop("start", True)
    return lab.create({"name": "flow", "vocabulary": vocabulary, "steps": list(steps), **fields}, p_start=start)


OK: Row = {"result": 1}


def test_orchestration(lab: Lab) -> None:
    """Seed 000: tasks and their workstreams."""
    done = flow(lab, "orchestration", step("a"), step("b", "a"))
    lab.work(lambda claimed: BROKEN if claimed["name"] == "a" and claimed["attempt"] == 1 else None)
    assert lab.state(done) == "completed"

    failed = flow(lab, "orchestration", step("a", max_attempts=1, on_failure="stop"), step("b", "a"))
    once(lab, BROKEN)
    assert lab.state(failed) == "failed"
    assert lab.states(failed) == {"a": "failed", "b": "cancelled"}

    invalid = flow(lab, "orchestration", step("a", acceptance=CHECK))
    once(lab, {"result": 1, "passed": False})
    assert lab.states(invalid) == {"a": "failed"}
    lab.command("cancel_task", invalid)

    left_out = flow(lab, "orchestration", step("a", condition="$.context.wanted"))
    assert lab.state(left_out) == "completed", "nothing of it had to run"
    planned = flow(lab, "orchestration", step("a"), start=False)
    assert lab.command("cancel_task", planned) == "cancelled"
    ready = flow(lab, "orchestration", step("a"))
    assert (lab.state(ready), lab.states(ready)) == ("ready", {"a": "queued"})
    assert lab.command("cancel_task", ready) == "cancelled"
    assert lab.states(ready) == {"a": "cancelled"}

    mixed = flow(lab, "orchestration", step("running"), step("again"), step("checking", acceptance=CHECK))
    claims = {claimed["name"]: claimed for claimed in once(lab, count=3)}
    lab.fail([claims["again"]])
    lab.complete([claims["checking"]])
    assert lab.states(mixed) == {"running": "running", "again": "retrying", "checking": "validating"}
    assert lab.command("cancel_task", mixed) == "cancelled"
    assert set(lab.states(mixed).values()) == {"cancelled"}

    judged = flow(lab, "orchestration", step("a"), final_validation=True)
    once(lab, OK)
    assert lab.state(judged) == "validating", "it waits for a verdict on the whole"
    assert lab.call("fail_validation", p_task_uuid=judged, **BY) == "failed"

    assert_all_walked(lab, "orchestration.task")
    assert_all_walked(lab, "orchestration.workstream")


def test_orchestration_worker(lab: Lab) -> None:
    """Seed 000: workers and their health checks (interval 10 s, 3 may be missed)."""
    flow(lab, "orchestration", *(step(f"s{number}") for number in range(3)))
    worker = lab.worker(p_heartbeat_interval="10 s")
    assert lab.worker_state(worker) == "idle"
    (claimed,) = lab.claim(1, lease="1 hour")
    assert lab.worker_state(worker) == "busy"
    lab.run_step(claimed)
    lab.settle()
    assert lab.call("worker_heartbeat", p_worker_uuid=worker) == "idle"

    lab.claim(1, lease="1 hour")
    lab.later("31 seconds")
    lab.settle()
    assert lab.worker_state(worker) == "unresponsive"
    assert lab.column("select * from tasker.held_claims(%s)", worker) == [], "its task was given to others"
    assert lab.call("worker_heartbeat", p_worker_uuid=worker) == "idle"
    assert lab.call("shutdown_worker", p_worker_uuid=worker) == "shutdown"

    lab.later("1 hour")
    silent = lab.worker("silent", p_heartbeat_interval="10 s")
    lab.settle()
    assert lab.claim(1, "silent", lease="1 day")
    lab.later("31 seconds")
    lab.settle()
    lab.later("31 seconds")
    lab.settle()
    assert lab.worker_state(silent) == "shutdown"

    lab.later("1 hour")
    graceful = lab.worker("graceful")
    lab.settle()
    (claimed,) = lab.claim(1, "graceful")
    assert lab.call("shutdown_worker", p_worker_uuid=graceful) == "busy", "after_task_complete"
    assert lab.claim(1, "graceful") == []
    lab.run_step(claimed)
    assert lab.call("worker_heartbeat", p_worker_uuid=graceful) == "shutdown"
    lab.work(worker="another")
    assert_all_walked(lab, "orchestration.worker")


def test_pipeline(lab: Lab) -> None:
    """Seed 001: workstreams that are retried as a whole, steps, and both ways of Recovery 2."""
    good = flow(lab, "pipeline", step("s1"), step("s2", "s1"))
    lab.work(lambda claimed: BROKEN if claimed["attempt"] == 1 else None)
    assert lab.state(good) == "S_SUCCESS"

    # the page's own history: S_RUNNING, S_FAILED, S_RETRYING, S_RUNNING, S_SUCCESS
    again = flow(lab, "pipeline", step("s1"), step("s2", "s1", max_attempts=1), max_retries=1)
    failures = [BROKEN]
    lab.work(lambda claimed: failures.pop() if claimed["name"] == "s2" and failures else None)
    assert lab.path(again) == ["S_PENDING", "S_RUNNING", "S_FAILED", "S_RETRYING", "S_RUNNING", "S_SUCCESS"]
    assert lab.path(again, "s2") == ["S_PENDING", "S_RUNNING", "S_FAILED", "S_RETRYING", "S_RUNNING", "S_SUCCESS"]
    assert lab.path(again, "s1") == ["S_PENDING", "S_RUNNING", "S_SUCCESS"], "what succeeded is not run again"

    given_up = flow(lab, "pipeline", step("s1", max_attempts=1), max_retries=2)
    lab.work(lambda claimed: BROKEN)
    assert lab.path(given_up)[-4:] == ["S_RETRYING", "S_RUNNING", "S_FAILED", "S_ABANDONED"]
    assert lab.one("select retry_count from tasker.tasks where task_uuid = %s", given_up) == 2

    stopped = flow(lab, "pipeline", step("s1"))
    assert lab.command("cancel_task", stopped) == "S_ABANDONED"

    mended = flow(lab, "pipeline", step("s1", max_attempts=1), step("s2", max_attempts=1), max_retries=1)
    once(lab, WRONG, count=2)
    assert lab.state(mended) == "S_RETRYING"
    assert lab.command("reset_step", lab.key(mended, "s1")) == "S_PENDING"
    assert lab.command("skip_step", lab.key(mended, "s2")) == "S_SUCCESS"
    lab.work()
    assert lab.state(mended) == "S_SUCCESS"
    assert_all_walked(lab, "pipeline.workstream")
    assert_all_walked(lab, "pipeline.step")


def test_pipeline_circuit_breaker(lab: Lab) -> None:
    """Seed 001: opens at the threshold, cools down, tries once, closes or opens again, and can be reset."""
    tool = f"{lab.namespace}-aider"
    configure = {"p_tool": tool, "p_failure_threshold": 2, "p_cooldown": "60 s", "p_vocabulary": "pipeline"}
    assert lab.call("configure_breaker", **configure) == "CLOSED"
    flow(
        lab,
        "pipeline",
        *(step(f"s{n}", tool=tool, retry={"base_delay": 1000, "max_delay": 1000, "jitter": 0}) for n in range(5)),
    )
    for _ in range(2):
        lab.fail(lab.claim(1))
    assert lab.call("breaker_state", p_tool=tool) == "OPEN"
    assert lab.claim() == [], "requests rejected"
    lab.later("61 seconds")
    lab.settle()
    (trial,) = lab.claim()
    assert lab.call("breaker_state", p_tool=tool) == "HALF_OPEN"
    lab.fail([trial])
    assert lab.call("breaker_state", p_tool=tool) == "OPEN"
    lab.later("61 seconds")
    lab.settle()
    (trial,) = lab.claim()
    lab.complete([trial])
    assert lab.call("breaker_state", p_tool=tool) == "CLOSED"

    def report(success: bool) -> None:
        lab.call("record_breaker_result", p_tool=tool, p_success=success)

    for failures in (2, 2):
        for _ in range(failures):
            report(False)
        assert lab.call("breaker_state", p_tool=tool) == "OPEN"
        if failures and walked(lab, "pipeline.circuit_breaker") >= {("OPEN", "reset_circuit", "CLOSED")}:
            lab.later("61 seconds")
            lab.settle()
            assert lab.call("breaker_state", p_tool=tool) == "HALF_OPEN"
        assert lab.call("reset_breaker", p_tool=tool, **BY) == "CLOSED"
    assert_all_walked(lab, "pipeline.circuit_breaker")


def test_execution(lab: Lab) -> None:
    """Seed 002, arrow by arrow."""
    good = flow(lab, "execution", step("t", acceptance=CHECK))
    lab.work(lambda claimed: BROKEN if claimed["attempt"] == 1 else None)
    assert lab.path(good, "t") == [
        "PENDING", "IN_PROGRESS", "FAILED", "RETRYING", "IN_PROGRESS", "VALIDATING", "COMPLETED",
    ]  # fmt: skip
    assert lab.state(good) == "S_SUCCESS"

    # tests fail: final, the circuit of the step opens; after the cooldown one trial, which succeeds
    healed = flow(lab, "execution", step("t", acceptance=CHECK))
    once(lab, {"result": 1, "passed": False})
    assert lab.states(healed) == {"t": "CIRCUIT_OPEN"}
    lab.later("61 seconds")
    lab.settle()
    assert lab.states(healed) == {"t": "HALF_OPEN"}
    once(lab, OK)
    assert lab.path(healed, "t")[3:] == [
        "FAILED",
        "CIRCUIT_OPEN",
        "HALF_OPEN",
        "IN_PROGRESS",
        "VALIDATING",
        "COMPLETED",
    ]
    assert lab.state(healed) == "S_SUCCESS"

    # a trial that fails opens the circuit again; a manual reset gives all attempts back
    reset = flow(lab, "execution", step("t", max_attempts=1))
    once(lab, BROKEN)
    lab.later("61 seconds")
    once(lab, BROKEN)
    assert lab.path(reset, "t")[-4:] == ["HALF_OPEN", "IN_PROGRESS", "FAILED", "CIRCUIT_OPEN"]
    assert lab.command("reset_step", lab.key(reset, "t")) == "PENDING"
    once(lab, OK)
    assert lab.state(reset) == "S_SUCCESS"

    # timeouts: retried, and given up
    slow = flow(lab, "execution", step("t", timeout_seconds=10, max_attempts=2))
    for _ in range(2):
        lab.settle()
        assert lab.claim(lease="1 hour")
        lab.later("11 seconds")
        lab.settle()
    assert lab.path(slow, "t") == [
        "PENDING", "IN_PROGRESS", "TIMEOUT", "RETRYING", "IN_PROGRESS", "TIMEOUT", "FAILED", "CIRCUIT_OPEN",
    ]  # fmt: skip
    # the workstream is cancelled while the circuit is open
    assert lab.command("cancel_task", slow) == "S_ABANDONED"
    assert lab.states(slow) == {"t": "CANCELLED"}

    skipped = flow(lab, "execution", step("a", max_attempts=1), step("b", "a"), step("c", "b"))
    once(lab, BROKEN)
    assert lab.states(skipped) == {"a": "CANCELLED", "b": "SKIPPED", "c": "SKIPPED"}

    left_out = flow(lab, "execution", step("nice", on_failure="continue"), step("needed"))
    assert lab.command("skip_step", lab.key(left_out, "nice")) == "SKIPPED"
    once(lab, OK)
    assert lab.state(left_out) == "S_SUCCESS"

    # cancelled in every state from which the page knows a way
    many = flow(
        lab, "execution", step("in_progress"), step("validating", acceptance=CHECK), step("retrying"),
        step("trial", max_attempts=1), step("pending", "in_progress"),
    )  # fmt: skip
    claims = {claimed["name"]: claimed for claimed in once(lab, count=4)}
    lab.fail([claims["trial"]])
    lab.later("61 seconds")
    lab.call("extend_leases", p_worker_uuid=lab.worker(), p_lease="1 hour")
    lab.settle()
    lab.report([report_of(claims["retrying"], **BROKEN, retry_after=1000)])
    lab.complete([claims["validating"]])
    assert lab.states(many) == {
        "in_progress": "IN_PROGRESS", "validating": "VALIDATING", "retrying": "RETRYING", "trial": "HALF_OPEN",
        "pending": "PENDING",
    }  # fmt: skip
    lab.command("cancel_task", many)
    assert set(lab.states(many).values()) == {"CANCELLED"}

    # the breaker of the tool: its circuit opens while a step waits, and again before the trial of the step
    tool = f"{lab.namespace}-tool"
    lab.call("configure_breaker", p_tool=tool, p_failure_threshold=1, p_cooldown="100 s", p_vocabulary="execution")
    waiting = flow(lab, "execution", step("t", tool=tool, retry={"base_delay": 1, "jitter": 0}))
    once(lab, BROKEN)
    assert lab.states(waiting) == {"t": "RETRYING"}
    lab.later("2 seconds")
    once(lab, count=0)
    assert lab.states(waiting) == {"t": "CIRCUIT_OPEN"}
    lab.later("101 seconds")
    lab.settle()
    assert lab.states(waiting) == {"t": "HALF_OPEN"}
    permit = lab.row("select * from tasker.breaker_permit(%s)", tool)
    assert permit["allowed"]
    lab.call("record_breaker_result", p_tool=tool, p_success=False, p_permit_uuid=permit["permit_uuid"])
    once(lab, count=0)
    assert lab.states(waiting) == {"t": "CIRCUIT_OPEN"}, "Test fails"
    lab.later("101 seconds")
    once(lab, OK)
    assert lab.state(waiting) == "S_SUCCESS"
    assert lab.call("breaker_state", p_tool=tool) == "CLOSED"
    assert lab.one("select attempts from tasker.workflow_steps where task_uuid = %s", waiting) == 2, "rests cost none"
    assert_all_walked(lab, "execution.task")


def test_supervision(lab: Lab) -> None:
    """Seed 003: jobs and their workers."""
    job = flow(lab, "supervision", step("a"), worker_count=1)
    assert lab.state(job) == "PENDING", "Resource unavailable: keep in PENDING"
    (worker,) = lab.supervised(1)
    lab.settle()
    assert (lab.state(job), lab.worker_state(worker)) == ("RUNNING", "RUNNING")
    assert lab.command("pause_worker", worker) == "PAUSED"
    assert lab.claim(worker=worker) == []
    assert lab.command("resume_worker", worker) == "RUNNING"
    once(lab, OK, worker)
    assert (lab.state(job), lab.worker_state(worker)) == ("COMPLETED", "COMPLETED")
    assert lab.command("terminate_worker", worker) == "TERMINATED", "Any state (force stop)"

    (worker,) = lab.supervised(1)
    job = flow(lab, "supervision", step("a"), worker_count=1)
    once(lab, WRONG, worker)
    assert lab.state(job) == "FAILED"

    pending = flow(lab, "supervision", step("a"), worker_count=1)
    assert lab.command("cancel_task", pending) == "CANCELED"
    (worker,) = lab.supervised(1)
    running = flow(lab, "supervision", step("a"), worker_count=1)
    assert lab.command("cancel_task", running) == "CANCELED"
    assert lab.worker_state(worker) == "TERMINATED", "Kill workers"

    idle, paused, crashed = lab.supervised(3)
    assert lab.command("terminate_worker", idle) == "TERMINATED"
    assert lab.command("start_worker", paused) == "RUNNING"
    assert lab.command("pause_worker", paused) == "PAUSED"
    assert lab.command("terminate_worker", paused) == "TERMINATED"
    lab.command("start_worker", crashed)
    lab.later("31 seconds")
    lab.settle()
    assert lab.worker_state(crashed) == "FAILED"
    assert lab.command("terminate_worker", crashed) == "TERMINATED"
    assert_all_walked(lab, "supervision.job")
    assert_all_walked(lab, "supervision.worker")


def test_the_lifecycles_of_seed_004_are_walked_elsewhere_but_for_this_edge(lab: Lab) -> None:
    """tests/kernel/test_every_edge.py walks them all; a blocked task that takes too long is ended by its timer here."""
    blocked = flow(lab, "tasker", step("a"), timeout_seconds=60)
    once(lab, WRONG)
    assert lab.state(blocked) == "blocked_by_failures"
    lab.later("61 seconds")
    lab.settle()
    assert lab.task_log(blocked)[-1] == ("blocked_by_failures", "timeout", "error")
    for lifecycle, edges in (("tasker.task", {*TASK_EDGES}), ("tasker.workflow_step", {*STEP_EDGES})):
        rows = lab.rows(
            "select from_state, event, to_state from tasker.lifecycle_transitions where lifecycle = %s", lifecycle
        )
        here = {("blocked_by_failures", "timeout", "error")} if lifecycle == "tasker.task" else set()
        assert {tuple(row.values()) for row in rows} == edges | here
    lab.sound()
