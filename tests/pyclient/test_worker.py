"""The worker in this process: handlers, failures, batches, leases, wake-ups, goals. Signals: test_worker_process.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgtasker import (
    Client,
    NotFound,
    PermanentError,
    PgtaskerError,
    RetryAfter,
    SchemaMissing,
    StepContext,
    TransientError,
    WaitTimeout,
    Worker,
    WorkerSummary,
)

from .conftest import eventually, graph

Connect = Callable[..., psycopg.Connection[Any]]


@contextlib.contextmanager
def running(worker: Worker) -> Iterator[list[WorkerSummary]]:
    """Run a worker in a thread until the block ends; its summary is in the list afterwards."""
    summaries: list[WorkerSummary] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            summaries.append(worker.run())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield summaries
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
        assert not errors


def echo(worker: Worker, *names: str) -> Worker:
    """Give a worker handlers that return what they got."""
    for name in names:

        @worker.step(name)
        def handle(ctx: StepContext) -> dict[str, Any]:
            return {"name": ctx.name, "inputs": sorted(ctx.inputs), "attempt": ctx.attempt}

    return worker


def only_step(client: Client, task_uuid: uuid.UUID) -> Any:
    (step,) = client.steps(task_uuid)
    return step


# ----------------------------------------------------------------------------------------------------------- handlers


def multiply(ctx: StepContext) -> int:
    """A handler that other processes can import."""
    return int(ctx.arguments["by"]) * int(sum(ctx.inputs.values()) or 1)


def die(ctx: StepContext) -> None:
    """A handler that takes its process along at the first attempt."""
    if ctx.attempt == 1:
        os._exit(3)


@pytest.mark.parametrize("kind", ["sync", "async", "process"])
def test_a_diamond_of_each_kind_of_handler(kind: str, database: str, client: Client) -> None:
    worker = Worker(database, executor="process" if kind == "process" else "thread", concurrency=2)
    if kind == "async":

        @worker.step("multiply")
        async def multiply_later(ctx: StepContext) -> int:
            await asyncio.sleep(0)
            return multiply(ctx)

    else:
        worker.step("multiply")(multiply)
    by = {"handler": "multiply", "arguments": {"by": 2}}
    task_uuid = client.create_task_from_graph(
        graph(
            {"name": "a", **by},
            {"name": "b", "depends_on": ["a"], **by},
            {"name": "c", "depends_on": ["a"], **by},
            {"name": "d", "depends_on": ["b", "c"], **by},
        )
    )
    (task,) = worker.run_until(task_uuid, timeout=60)
    assert task.phase == "succeeded"
    assert {step.name: step.result for step in client.steps(task_uuid)} == {"a": 2, "b": 4, "c": 4, "d": 16}
    assert client.check_consistency() == []
    assert all(record.execution_time_ms is not None for record in client.get_task_audit_history(task_uuid))


def test_a_handler_sees_everything_about_its_step(database: str, client: Client) -> None:
    seen: list[StepContext] = []
    worker = Worker(database)
    worker.step("look")(seen.append)
    correlation_id = uuid.uuid4()
    step = {"name": "s", "handler": "look", "arguments": {"a": 1}, "timeout_seconds": 40, "max_attempts": 7}
    task_uuid = client.create_task_from_graph(graph(step, name="g"), {"c": 2}, correlation_id=correlation_id)
    worker.run_until(task_uuid, timeout=30)
    (ctx,) = seen
    assert (ctx.task_uuid, ctx.task_name, ctx.namespace, ctx.name) == (task_uuid, "g", "default", "s")
    assert (ctx.handler, ctx.attempt, ctx.max_attempts) == ("look", 1, 7)
    assert (ctx.arguments, ctx.context, ctx.inputs) == ({"a": 1}, {"c": 2}, {})
    assert ctx.correlation_id == correlation_id
    assert not ctx.cancelled.is_set()
    left = ctx.seconds_left()
    assert left is not None and 0 < left <= 40


def test_a_flaky_step_is_tried_again(database: str, client: Client) -> None:
    worker = Worker(database)

    @worker.step("flaky")
    def flaky(ctx: StepContext) -> int:
        if ctx.attempt < 3:
            raise RetryAfter(0.05, "not yet")
        return ctx.attempt

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "flaky"}))
    worker.run_until(task_uuid, timeout=30)
    step = only_step(client, task_uuid)
    assert (step.phase, step.result, step.attempts) == ("succeeded", 3, 3)
    assert [record.success for record in client.get_task_audit_history(task_uuid)] == [True, False, False]


class Database(Exception):
    """What an application makes of a driver's error."""


def conflict(ctx: StepContext) -> None:
    try:
        raise psycopg.errors.SerializationFailure("conflict")
    except psycopg.Error as error:
        raise Database("generic message") from error


def leave(ctx: StepContext) -> None:
    raise SystemExit("bye")


def broken(ctx: StepContext) -> None:
    raise ValueError("nul \x00 and \udcff " + "x" * 100_000)


def permanent(ctx: StepContext) -> None:
    raise PermanentError("never")


def transient(ctx: StepContext) -> None:
    raise TransientError("later")


def not_json(ctx: StepContext) -> float:
    return float("nan")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("handler", "category", "type_name"),
    [
        (permanent, "permanent", "PermanentError"),
        (transient, "transient", "TransientError"),
        (conflict, "transient", "Database"),
        (broken, "unknown", "ValueError"),
        (leave, "unknown", "SystemExit"),
        (not_json, "permanent", "InvalidValue"),
    ],
)
def test_how_an_exception_is_reported(
    kind: str,
    handler: Callable[[StepContext], Any],
    category: str,
    type_name: str,
    database: str,
    client: Client,
    conn: psycopg.Connection[Any],
) -> None:
    worker = Worker(database)
    if kind == "sync":
        worker.step("h")(handler)
    else:

        @worker.step("h")
        async def later(ctx: StepContext) -> Any:
            return handler(ctx)

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "h", "max_attempts": 1}))
    (task,) = worker.run_until(task_uuid, timeout=30)
    assert task.phase == "blocked"
    error = only_step(client, task_uuid).last_error
    assert error["type"].endswith(type_name)
    assert error["message"]
    assert len(json.dumps(error)) < 20_000
    if handler is not not_json:
        assert f"in {handler.__name__}" in error["traceback"]
        assert "_steps.py" not in error["traceback"]
    (record,) = client.get_task_audit_history(task_uuid)
    assert record.success is False
    assert record.metadata["category"] == category


def test_the_rest_of_a_batch_goes_on_without_the_bad_ones(
    database: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    """Ten steps in one queue: one without handler, one whose JSON Python cannot read, one whose result is not JSON."""
    worker = echo(Worker(database, concurrency=10), "work")
    worker.step("nan")(not_json)
    steps = [{"name": f"s{n}", "handler": "work"} for n in range(10)]
    steps[3]["handler"] = "nobody"
    steps[6]["handler"] = "nan"
    text = json.dumps({"name": "g", "steps": steps})
    # Python refuses numbers of more than 4,300 digits; jsonb holds them.
    text = text.replace('{"name": "s5",', '{"name": "s5", "arguments": {"n": ' + "9" * 5000 + "},")
    row = conn.execute("select tasker.create_task_from_graph(%s::jsonb)", [text]).fetchone()
    assert row is not None
    worker.run_until_idle(timeout=30)
    found = dict(
        conn.execute(
            "select name, coalesce(last_error ->> 'type', phase) from tasker.step_overview where task_uuid = %s",
            [row[0]],
        ).fetchall()
    )
    expected = {f"s{n}": "succeeded" for n in range(10)}
    expected |= {"s3": "queued", "s5": "UndecodableArguments", "s6": "pgtasker.errors.InvalidValue"}
    assert found == expected
    assert conn.execute("select count(*) from tasker.step_claims").fetchone() == (0,)


def test_a_handler_for_all_other_names(database: str, client: Client) -> None:
    worker = echo(Worker(database), "known")
    worker.step("*")(lambda ctx: f"other {ctx.handler}")
    task_uuid = client.create_task_from_graph(
        graph({"name": "a", "handler": "known"}, {"name": "b", "handler": "strange"})
    )
    worker.run_until(task_uuid, timeout=30)
    results = {step.name: step.result for step in client.steps(task_uuid)}
    assert results["a"]["name"] == "a" and results["b"] == "other strange"


def test_a_process_that_dies_costs_one_attempt(database: str, client: Client) -> None:
    worker = Worker(database, executor="process", concurrency=1)
    worker.step("die")(die)
    step = {"name": "a", "handler": "die", "retry": {"base_delay": 0.01}}
    task_uuid = client.create_task_from_graph(graph(step))
    (task,) = worker.run_until(task_uuid, timeout=60)
    assert task.phase == "succeeded"
    assert only_step(client, task_uuid).attempts == 2


def test_a_short_result_does_not_wait_for_a_long_handler(database: str, client: Client) -> None:
    release = threading.Event()
    worker = Worker(database, concurrency=2)
    worker.step("long")(lambda ctx: release.wait(30))
    worker.step("short")(lambda ctx: "done")
    task_uuid = client.create_task_from_graph(
        graph(
            {"name": "long", "handler": "long"},
            {"name": "short", "handler": "short"},
            {"name": "next", "handler": "short", "depends_on": ["short"]},
        )
    )
    with running(worker):
        eventually(lambda: [s.name for s in client.steps(task_uuid) if s.phase == "succeeded"] == ["short", "next"])
        release.set()
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"


def test_no_transaction_is_open_while_a_handler_runs(
    database: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    release, started = threading.Event(), threading.Event()
    worker = Worker(database)

    @worker.step("hold")
    def hold(ctx: StepContext) -> None:
        started.set()
        release.wait(30)

    client.create_task_from_graph(graph({"name": "a", "handler": "hold"}))
    with running(worker):
        assert started.wait(30)
        eventually(
            lambda: (
                conn.execute(
                    "select count(*) from pg_stat_activity where application_name like 'pgtasker-worker%'"
                    " and (state <> 'idle' or backend_xid is not null or backend_xmin is not null)"
                ).fetchone()
                == (0,)
            )
        )
        release.set()


def test_handlers_of_one_worker_run_side_by_side_up_to_its_concurrency(database: str, client: Client) -> None:
    most, now, guard = 0, 0, threading.Lock()
    worker = Worker(database, concurrency=3)

    @worker.step("work")
    def work(ctx: StepContext) -> None:
        nonlocal most, now
        with guard:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with guard:
            now -= 1

    task_uuid = client.create_task_from_graph(graph(*(f"s{n}" for n in range(30))))
    worker.run_until(task_uuid, timeout=30)
    assert most == 3


def test_sessions_share_the_handlers_of_a_worker(database: str, client: Client, conn: psycopg.Connection[Any]) -> None:
    worker = Worker(database, name="w", concurrency=3, sessions=2)
    all_at_once = threading.Barrier(3)  # more than either of them may run

    @worker.step("work")
    def work(ctx: StepContext) -> int:
        return all_at_once.wait(timeout=30)

    with running(worker) as summaries:
        task = client.wait(client.create_task_from_graph(graph("a", "b", "c")), timeout=30)
    assert task.phase == "succeeded"
    (summary,) = summaries
    assert (summary.claimed, summary.succeeded, summary.unfinished) == (3, 3, 0)
    names = conn.execute(
        "select w.name, s.is_terminal from tasker.workers w"
        " join tasker.worker_transitions t on t.worker_uuid = w.worker_uuid and t.most_recent"
        " join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state order by 1"
    ).fetchall()
    assert names == [("w/1", True), ("w/2", True)]
    assert client.check_consistency() == []


def test_a_session_with_nothing_to_do_gets_a_part_of_what_another_goes_on_with(
    database: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    """Else one session keeps all workflows of which it has claimed the first step, and the other never works."""
    worker = Worker(database, name="w", concurrency=400, sessions=2)

    @worker.step("work")
    async def work(ctx: StepContext) -> None:
        pass

    steps = graph("s0", *(f"s{n}<s{n - 1}" for n in range(1, 8)), name="long")
    client.register_template({**steps, "version": "1"})
    worker.run_until(*client.create_tasks([{"name": "long"}] * 150), timeout=60)
    ended = conn.execute("select count(*) from tasker.workflow_steps where name = 's7' group by worker_uuid").fetchall()
    assert len(ended) == 2 and min(ended)[0] > 20, ended
    assert client.check_consistency() == []


def test_a_session_that_fails_ends_the_others(empty_database: str) -> None:
    with pytest.raises(SchemaMissing):
        echo(Worker(empty_database, sessions=2), "work").run()


# ----------------------------------------------------------------------------------------------- leases, cancellation


@pytest.mark.parametrize("kind", ["thread", "blocked loop"])
def test_the_lease_is_kept_while_a_handler_runs(kind: str, database: str, client: Client) -> None:
    """Even when an async handler blocks the event loop for several leases."""
    worker = Worker(database, lease=0.6)
    if kind == "thread":
        worker.step("slow")(lambda ctx: time.sleep(2))
    else:

        @worker.step("slow")
        async def slow(ctx: StepContext) -> None:
            time.sleep(2)

    other = echo(Worker(database, lease=0.6, poll_interval=0.1), "slow")
    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "slow"}))
    with running(worker):
        eventually(lambda: only_step(client, task_uuid).phase == "running")
        with running(other):
            assert client.wait(task_uuid, timeout=30).phase == "succeeded"
    assert only_step(client, task_uuid).attempts == 1


@pytest.mark.parametrize("kind", ["thread", "process", "async"])
def test_a_cancelled_step_is_told_to_its_handler(kind: str, database: str, client: Client) -> None:
    worker = Worker(database, poll_interval=0.2, executor="process" if kind == "process" else "thread", concurrency=1)
    ended = threading.Event()
    if kind == "async":

        @worker.step("hold")
        async def hold_async(ctx: StepContext) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                if ctx.cancelled.is_set():
                    ended.set()

    elif kind == "process":
        worker.step("hold")(hold_until_cancelled)
    else:

        @worker.step("hold")
        def hold(ctx: StepContext) -> None:
            if ctx.cancelled.wait(60):
                ended.set()

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "hold"}))
    with running(worker) as summaries:
        eventually(lambda: only_step(client, task_uuid).phase == "running", 60)
        client.cancel_task(task_uuid, "not needed", "anna")
        if kind != "process":
            assert ended.wait(20)
        after = client.create_task_from_graph(graph({"name": "b", "handler": "hold"}))
        eventually(lambda: only_step(client, after).phase == "running")
        client.cancel_task(after, "not needed", "anna")
    assert client.task(task_uuid).phase == "cancelled"
    assert (summaries[0].claimed, summaries[0].refused, summaries[0].succeeded) == (2, 2, 0)
    # The worker did not insist: no late report was refused by the fence.
    assert client.get_task_audit_history(task_uuid) == []


def hold_until_cancelled(ctx: StepContext) -> None:
    """A handler that other processes can import."""
    ctx.cancelled.wait(60)


def test_an_async_handler_ends_at_its_timeout(database: str, client: Client) -> None:
    worker = Worker(database)

    @worker.step("slow")
    async def slow(ctx: StepContext) -> None:
        await asyncio.sleep(60)

    step = {"name": "a", "handler": "slow", "timeout_seconds": 0.2, "max_attempts": 1}
    task_uuid = client.create_task_from_graph(graph(step))
    (task,) = worker.run_until(task_uuid, timeout=30)
    assert task.phase == "blocked"
    assert only_step(client, task_uuid).last_error["type"] == "timeout"


def test_a_claim_whose_answer_was_lost_is_given_back(database: str, client: Client) -> None:
    """The claim was committed, the connection broke before the rows came: the lease would be kept for ever."""
    worker = echo(Worker(database, lease=1.0, poll_interval=60, name="forgetful"), "work")
    with running(worker):
        worker_uuid = eventually(lambda: worker_named(client, "forgetful"))
        (claim, *_) = eventually(lambda: claim_behind_its_back(client, worker_uuid))
        assert client.wait(claim.task_uuid, timeout=30).phase == "succeeded"
    types = [record.metadata.get("error", {}).get("type") for record in client.get_task_audit_history(claim.task_uuid)]
    assert types[-1] == "ClaimLost"


def claim_behind_its_back(client: Client, worker_uuid: uuid.UUID) -> Any:
    """Create a task and claim it for a worker in one transaction, so that the worker cannot be quicker."""
    with psycopg.connect(client._dsn or "") as own:
        step = {"name": "a", "handler": "work", "retry": {"base_delay": 0.01}}
        client.create_task_from_graph(graph(step), conn=own)
        return client.claim_steps(worker_uuid, lease=1.0, conn=own)


def worker_named(client: Client, name: str) -> uuid.UUID | None:
    with psycopg.connect(client._dsn or "") as own:
        row = own.execute("select worker_uuid from tasker.workers where name = %s", [name]).fetchone()
        return row[0] if row else None


# ---------------------------------------------------------------------------------------------------------- wake-ups


def test_a_notification_wakes_an_idle_worker(database: str, client: Client, conn: psycopg.Connection[Any]) -> None:
    worker = echo(Worker(database, poll_interval=60), "work")
    with running(worker):
        first = client.create_task_from_graph(graph("a"))
        client.wait(first, timeout=30)
        # past the quick polls that follow work, ten a second at least: its session has asked nothing for half a second
        asked = "select clock_timestamp() - max(state_change) > interval '0.5 s' from pg_stat_activity"
        asked += " where datname = current_database() and application_name = 'pgtasker-worker'"
        eventually(lambda: conn.execute(asked).fetchone() == (True,))
        begun = time.monotonic()
        second = client.create_task_from_graph(graph("a", "b<a"))
        client.wait(second, timeout=30)
        assert time.monotonic() - begun < 20


def test_one_notification_for_many_steps_wakes_enough(database: str, client: Client) -> None:
    """Ten steps of one transaction make one notification; ten one-step workers take them all."""
    release = threading.Event()
    with contextlib.ExitStack() as stack:
        workers = [Worker(database, poll_interval=60, concurrency=1, name=f"w{n}") for n in range(5)]
        for worker in workers:
            worker.step("work")(lambda ctx: release.wait(30))
            stack.enter_context(running(worker))
        eventually(lambda: all(worker_named(client, f"w{n}") for n in range(5)))
        task_uuid = client.create_task_from_graph(graph(*(f"s{n}" for n in range(5))))
        eventually(lambda: {s.phase for s in client.steps(task_uuid)} == {"running"})
        release.set()
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"


def test_without_notifications_the_worker_polls_and_says_why(
    database: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Like a pooler in transaction mode: LISTEN is accepted, and what is sent elsewhere never arrives."""
    deaf = psycopg.conninfo.make_conninfo(database, dbname="postgres")
    worker = echo(Worker(database, poll_interval=0.1, listen_dsn=deaf), "work")
    with caplog.at_level(logging.WARNING, "pgtasker.worker"), running(worker):
        eventually(lambda: "notifications do not arrive" in caplog.text)
        assert "listen_dsn" in caplog.text
        task_uuid = client.create_task_from_graph(graph("a"))
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"


def test_workers_take_only_their_namespaces(database: str, client: Client) -> None:
    client.ensure_namespace("mine")
    client.ensure_namespace("yours")
    mine = client.create_task_from_graph(graph("a"), namespace="mine")
    yours = client.create_task_from_graph(graph("a"), namespace="yours")
    echo(Worker(database, namespaces=["mine"]), "work").run_until_idle(timeout=30)
    assert client.task(mine).phase == "succeeded"
    assert client.task(yours).phase == "running"


def test_client_and_worker_need_no_more_than_their_roles(database: str, login: Callable[..., str]) -> None:
    worker = echo(Worker(login("tasker_worker")), "work")
    with Client(login("tasker_client")) as client, running(worker):
        task_uuid = client.create_task_from_graph(graph("a", "b<a"))
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"
        assert len(client.get_task_audit_history(task_uuid)) == 2
        assert list(client.events(follow=False))
        client.explain_task(task_uuid)


# ------------------------------------------------------------------------------------------------- broken connections


@pytest.mark.parametrize("pgbouncer", [False, True])
def test_a_worker_survives_the_loss_of_its_connections(
    pgbouncer: bool, database: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    worker = echo(Worker(database, concurrency=4, lease=2.0, pgbouncer=pgbouncer), "work")
    steps = [{"name": f"s{n}", "handler": "work", "retry": {"base_delay": 0.01}} for n in range(40)]
    with running(worker):
        tasks = []
        for _ in range(10):
            tasks.append(client.create_task_from_graph(graph(*steps)))
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'pgtasker-worker%'"
            )
            time.sleep(0.03)
        for task_uuid in tasks:
            assert client.wait(task_uuid, timeout=60).phase == "succeeded"
    assert client.check_consistency() == []


def test_a_worker_leaves_a_server_that_became_read_only(
    database: str, client: Client, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """After a switchover the old primary still answers; the worker looks for a writable one until there is."""
    worker = echo(Worker(database, poll_interval=0.1), "work")
    name = conn.info.dbname
    with running(worker):
        client.wait(client.create_task_from_graph(graph("a")), timeout=30)
        conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'pgtasker-worker%'"
        )
        # This connection is older than the setting.
        task_uuid = client.create_task_from_graph(graph("a"), conn=conn)
        eventually(lambda: "session is read-only" in caplog.text)
        assert only_step(client, task_uuid).phase == "queued"
        conn.execute(f"alter database {name} set default_transaction_read_only = off".encode())
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"


def test_conflicts_of_the_engine_are_tried_again(
    database: str, client: Client, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Deadlocks in the engine's own calls never become a step's result."""
    conn.execute("create sequence public.calls")
    conn.execute("grant usage on sequence public.calls to public")
    conn.execute(
        "alter function tasker.apply_reports(tasker.step_report[], boolean, tasker.claimant) rename to apply_reports_really"
    )
    conn.execute(
        """
        create function tasker.apply_reports(p_reports tasker.step_report[], p_settle boolean, p_claimant tasker.claimant)
          returns setof tasker.step_outcome language plpgsql as $$
        begin
          if nextval('public.calls') % 3 <> 0 then raise exception 'deadlock' using errcode = '40P01'; end if;
          return query select * from tasker.apply_reports_really(p_reports, p_settle, p_claimant);
        end $$
        """
    )
    worker = echo(Worker(database), "work")
    task_uuid = client.create_task_from_graph(graph("a", "b<a", "c<a", "d<b,c"))
    (task,) = worker.run_until(task_uuid, timeout=60)
    assert task.phase == "succeeded"
    assert all(record.success for record in client.get_task_audit_history(task_uuid))


def test_a_report_the_database_cannot_take_does_not_stop_the_others(
    database: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    """The call fails as a whole because of one result: it is found, and that step fails with a reason."""
    conn.execute(
        "alter function tasker.apply_reports(tasker.step_report[], boolean, tasker.claimant) rename to apply_reports_really"
    )
    conn.execute(
        """
        create function tasker.apply_reports(p_reports tasker.step_report[], p_settle boolean, p_claimant tasker.claimant)
          returns setof tasker.step_outcome language plpgsql as $$
        begin
          if p_reports::text like '%poison%' then raise exception 'no' using errcode = '22P05'; end if;
          return query select * from tasker.apply_reports_really(p_reports, p_settle, p_claimant);
        end $$
        """
    )
    worker = Worker(database, concurrency=10)
    worker.step("work")(lambda ctx: "poison" if ctx.name == "s4" else "fine")
    task_uuid = client.create_task_from_graph(graph(*(f"s{n}" for n in range(10))))
    (task,) = worker.run_until(task_uuid, timeout=60)
    assert (task.phase, task.satisfied_steps) == ("blocked", 9)
    error = next(step for step in client.steps(task_uuid) if step.name == "s4").last_error
    assert error["type"] == "ResultNotStored"


def test_a_worker_without_a_server_fails_at_once(database: str) -> None:
    worker = Worker(psycopg.conninfo.make_conninfo(database, dbname="nowhere"))
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        worker.run()


def test_a_worker_without_the_schema_says_so(empty_database: str) -> None:
    with pytest.raises(SchemaMissing, match="migrate"):
        Worker(empty_database).run()


# ------------------------------------------------------------------------------------------------- goals and lifetime


def test_running_until_idle(database: str, client: Client) -> None:
    worker = echo(Worker(database), "work")
    assert worker.run_until_idle(timeout=30).claimed == 0
    tasks = [client.create_task_from_graph(graph("a", "b<a", "c<b")) for _ in range(5)]
    summary = worker.run_until_idle(timeout=30)
    assert (summary.claimed, summary.succeeded, summary.exit_code) == (15, 15, 0)
    assert {client.task(task_uuid).phase for task_uuid in tasks} == {"succeeded"}


def test_running_until_idle_past_a_cancelled_task(database: str, client: Client) -> None:
    """Messages of cancelled steps still stand in the queue; there is work behind them."""
    for _ in range(5):
        client.cancel_task(client.create_task_from_graph(graph("a")), "r", "anna")
    task_uuid = client.create_task_from_graph(graph("a"))
    echo(Worker(database, concurrency=1), "work").run_until_idle(timeout=30)
    assert client.task(task_uuid).phase == "succeeded"


def test_idle_may_mean_to_wait_for_timers(database: str, client: Client) -> None:
    worker = Worker(database)

    @worker.step("flaky")
    def flaky(ctx: StepContext) -> int:
        if ctx.attempt == 1:
            raise RetryAfter(0.5)
        return 1

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "flaky"}))
    worker.run_until_idle(timeout=30)
    assert client.task(task_uuid).phase == "waiting_retry"
    worker.run_until_idle(timeout=30, wait_for_timers=5)
    assert client.task(task_uuid).phase == "succeeded"


def test_goals_that_are_not_reached_in_time(database: str, client: Client) -> None:
    worker = Worker(database)
    worker.step("slow")(lambda ctx: ctx.cancelled.wait(1.0))
    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "slow"}))
    with pytest.raises(WaitTimeout):
        worker.run_until(task_uuid, timeout=0.2)
    client.create_task_from_graph(graph({"name": "a", "handler": "slow"}))
    with pytest.raises(WaitTimeout):
        worker.run_until_idle(timeout=0.2)
    with pytest.raises(NotFound):
        worker.run_until(uuid.uuid4(), timeout=10)
    assert worker.run_until() == []


async def test_a_worker_in_a_running_loop(database: str, client: Client) -> None:
    worker = Worker(database)
    started = asyncio.Event()

    @worker.step("hold")
    async def hold(ctx: StepContext) -> None:
        started.set()
        await asyncio.sleep(60)

    step = {"name": "a", "handler": "hold", "retry": {"base_delay": 60}}
    task_uuid = client.create_task_from_graph(graph(step))
    working = asyncio.create_task(worker.run_async())
    await asyncio.wait_for(started.wait(), 30)
    with pytest.raises(PgtaskerError, match="running already"):
        await worker.run_async()
    # Cancelling the worker cancels its handlers, and they are reported, so that nobody waits for the lease.
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    (record,) = client.get_task_audit_history(task_uuid)
    assert (record.success, record.metadata["category"]) == (False, "transient")
    assert record.metadata["error"]["type"] == "WorkerStopped"


def test_stopping_before_the_start_and_in_the_middle(database: str, client: Client) -> None:
    worker = echo(Worker(database), "work")
    worker.stop()
    assert worker.run().exit_code == 0
    started = threading.Event()

    @worker.step("slow")
    def slow(ctx: StepContext) -> str:
        started.set()
        time.sleep(0.3)
        return "finished"

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "slow"}))
    with running(worker) as summaries:
        assert started.wait(30)
    assert summaries[0].exit_code == 0
    assert only_step(client, task_uuid).result == "finished"


def test_a_sync_handler_is_not_reported_before_its_thread_ends(database: str, client: Client) -> None:
    worker = Worker(database, drain_timeout=0.1)
    started, release = threading.Event(), threading.Event()

    @worker.step("stubborn")
    def stubborn(ctx: StepContext) -> None:
        started.set()
        release.wait(30)

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "stubborn"}))
    with running(worker) as summaries:
        assert started.wait(30)
    assert (summaries[0].unfinished, summaries[0].exit_code) == (1, 1)
    assert only_step(client, task_uuid).phase == "running"
    release.set()


def test_a_worker_signs_off(database: str, client: Client, conn: psycopg.Connection[Any]) -> None:
    worker = echo(Worker(database, name="polite", capabilities=["sew"]), "work")
    with running(worker):
        eventually(lambda: worker_named(client, "polite"))
    row = conn.execute(
        "select t.metadata ->> 'reason', w.capabilities, w.max_concurrent >= 16 from tasker.workers w"
        " join tasker.worker_transitions t on t.worker_uuid = w.worker_uuid and t.most_recent where w.name = 'polite'"
    ).fetchone()
    assert row == ("drained", ["sew", "work"], True)


def test_settings_that_make_no_sense_are_refused(database: str) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        Worker(database, concurrency=0).run()
    for sessions in (0, 9):
        with pytest.raises(ValueError, match="sessions"):
            Worker(database, sessions=sessions).run()
    with pytest.raises(ValueError, match="lease"):
        Worker(database, lease=0).run()
    with pytest.raises(ValueError, match="executor"):
        Worker(database, executor="fibre").run()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list"):
        Worker(database, namespaces="media")
    worker = echo(Worker(database), "work")
    with pytest.raises(ValueError, match="already"):
        worker.step("work")
    with pytest.raises(TypeError, match="handler name"):
        worker.step(multiply)  # type: ignore[arg-type]
