"""The worker when time passes or something fails: timeouts, checkpoints, clean-up, identities, pauses, programs.

Signals and kills: test_worker_process.py. Acceptance checks: test_acceptance.py.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtasker import Client, InvalidValue, PermanentError, StaleClaim, StepContext, Worker
from pgtasker.shell import run, shell

from .conftest import eventually, graph
from .test_worker import echo, only_step, running, worker_named

Connection = psycopg.Connection[Any]

FOREVER = [
    "sh",
    "-c",
    # a child that outlives its parent unless the whole group is ended
    'echo started; sleep 300 & echo $! > "$PIDS"; echo $$ >> "$PIDS"; wait',
]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pids(path: Path) -> list[int]:
    """The processes that FOREVER has written down, once both are there."""
    words = path.read_text().split() if path.exists() else []
    return [int(word) for word in words] if len(words) == 2 else []


def shell_step(pid_file: Path, **more: Any) -> dict[str, Any]:
    arguments = {"argv": FOREVER, "env": {"PIDS": str(pid_file)}}
    return {"name": "a", "handler": "shell", "arguments": arguments, **more}


# ----------------------------------------------------------------------------------------------------------- timeouts


@pytest.mark.parametrize("vocabulary", ["tasker", "execution"])
def test_a_program_that_runs_too_long_leaves_its_output(
    vocabulary: str, database: str, client: Client, tmp_path: Path, conn: Connection
) -> None:
    """The database says what it means: a failure, or a state of its own."""
    worker = Worker(database, vocabulary=vocabulary)
    worker.step("shell")(shell)
    step = shell_step(tmp_path / "pids", timeout_seconds=1.0, max_attempts=1)
    task_uuid = client.create_task_from_graph({**graph(step), "vocabulary": vocabulary})
    with running(worker) as summaries:
        eventually(lambda: only_step(client, task_uuid).last_error, 30)
        eventually(lambda: not any(map(alive, pids(tmp_path / "pids"))))
    assert summaries[0].refused == 1
    failed = only_step(client, task_uuid)
    assert (failed.last_error["type"], failed.attempts) == ("timeout", 1)
    saved = conn.execute("select checkpoint from tasker.step_checkpoints").fetchone()
    assert saved is not None and saved[0]["stdout"] == "started\n"
    assert [entry.to_state for entry in client.timeline(task_uuid)].count("TIMEOUT") == (vocabulary == "execution")
    reported = [entry.metadata for entry in client.timeline(task_uuid) if "timed_out" in (entry.metadata or {})]
    assert reported[0]["checkpoint"]["stdout"] == "started\n"


def test_a_sync_handler_is_told_that_its_time_is_over(database: str, client: Client) -> None:
    worker = Worker(database)
    told: list[float | None] = []

    @worker.step("slow")
    def slow(ctx: StepContext) -> None:
        assert ctx.cancelled.wait(30)
        told.append(ctx.seconds_left())
        raise RuntimeError("half done")

    task_uuid = client.create_task_from_graph(
        graph({"name": "a", "handler": "slow", "timeout_seconds": 1, "max_attempts": 1})
    )
    (task,) = worker.run_until(task_uuid, timeout=30)
    assert task.phase == "blocked"
    (left,) = told
    assert left is not None and left <= 0.1
    # What the handler says then is not what counts.
    assert only_step(client, task_uuid).last_error["type"] == "timeout"


def test_without_anybody_who_ticks_the_worker_tells_of_the_timeout_itself(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgtasker._worker_engine._TIMEOUT_PATIENCE", 0.1)
    worker = Worker(database, drive=False, poll_interval=0.1)

    @worker.step("slow")
    async def slow(ctx: StepContext) -> None:
        await asyncio.sleep(300)

    task_uuid = client.create_task_from_graph(
        graph({"name": "a", "handler": "slow", "timeout_seconds": 0.2, "max_attempts": 1})
    )
    with running(worker):
        eventually(lambda: only_step(client, task_uuid).phase == "reported_failure", 30)
    assert only_step(client, task_uuid).last_error["type"] == "timeout"


# --------------------------------------------------------------------------------------------------------- checkpoints


def save_and_fail(ctx: StepContext) -> Any:
    """A handler that other processes can import."""
    if ctx.attempt == 1:
        ctx.save_checkpoint({"pages": 3})
        raise RuntimeError("page 4 is missing")
    return ctx.checkpoint


@pytest.mark.parametrize("kind", ["thread", "process", "async"])
def test_the_next_attempt_finds_the_checkpoint(kind: str, database: str, client: Client) -> None:
    worker = Worker(database, executor="process" if kind == "process" else "thread", concurrency=1)
    if kind == "async":

        @worker.step("save")
        async def save(ctx: StepContext) -> Any:
            if ctx.attempt == 1:
                await ctx.save_checkpoint_async({"pages": 3})
                raise RuntimeError("page 4 is missing")
            return ctx.checkpoint

    else:
        worker.step("save")(save_and_fail)
    step = {"name": "a", "handler": "save", "retry": {"base_delay": 0.01}}
    task_uuid = client.create_task_from_graph(graph(step))
    worker.run_until(task_uuid, timeout=60)
    assert only_step(client, task_uuid).result == {"pages": 3}


def test_a_checkpoint_of_a_step_that_was_taken_away_is_refused(database: str, client: Client) -> None:
    worker = Worker(database, poll_interval=60)
    refused: list[BaseException] = []

    @worker.step("late")
    def late(ctx: StepContext) -> None:
        with pytest.raises(InvalidValue):
            ctx.save_checkpoint(None)
        ctx.cancelled.wait(30)
        try:
            ctx.save_checkpoint("too late")
        except StaleClaim as error:
            refused.append(error)

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "late"}))
    with running(worker):
        eventually(lambda: only_step(client, task_uuid).phase == "running")
        client.cancel_task(task_uuid, "not needed", "anna")
        eventually(lambda: refused)


# -------------------------------------------------------------------------------------------------- cancel and clean up


def test_cancelling_a_task_ends_the_whole_process_tree_at_once(database: str, client: Client, tmp_path: Path) -> None:
    """By notification: neither a poll nor a heartbeat is due before the end of the test."""
    worker = Worker(database, poll_interval=600, lease=600, heartbeat_interval=600)
    worker.step("shell")(shell)
    cleaned: list[tuple[str, bool]] = []

    @worker.cleanup("shell")
    def clean(ctx: StepContext) -> None:
        # The handler has ended; what it started ends within a moment.
        cleaned.append((ctx.name, eventually(lambda: not any(map(alive, pids(tmp_path / "pids"))))))

    task_uuid = client.create_task_from_graph(graph(shell_step(tmp_path / "pids")))
    with running(worker) as summaries:
        processes = eventually(lambda: pids(tmp_path / "pids"))
        assert all(map(alive, processes))
        client.cancel_task(task_uuid, "not needed", "anna")
        eventually(lambda: not any(map(alive, processes)), 10)
        eventually(lambda: cleaned)
    assert cleaned == [("a", True)]
    assert (summaries[0].refused, summaries[0].exit_code) == (1, 0)


@pytest.mark.parametrize("kind", ["sync", "async", "fails"])
def test_clean_up_runs_for_interrupted_steps_only(kind: str, database: str, client: Client) -> None:
    worker = echo(Worker(database, poll_interval=0.2), "quick")
    cleaned: list[tuple[str, bool]] = []

    @worker.step("slow")
    async def slow(ctx: StepContext) -> None:
        await asyncio.sleep(300)

    if kind == "async":

        @worker.cleanup("*")
        async def clean_later(ctx: StepContext) -> None:
            await asyncio.sleep(0)
            cleaned.append((ctx.name, ctx.cancelled.is_set()))

    else:

        @worker.cleanup("*")
        def clean(ctx: StepContext) -> None:
            cleaned.append((ctx.name, ctx.cancelled.is_set()))
            if kind == "fails":
                raise OSError("nothing to clean")

    steps: list[Any] = [
        {"name": "done", "handler": "quick"},
        {"name": "late", "handler": "slow", "timeout_seconds": 0.3, "max_attempts": 1},
    ]
    (task,) = worker.run_until(client.create_task_from_graph(graph(*steps)), timeout=30)
    assert task.phase == "blocked"
    assert cleaned == [("late", True)]


def test_a_forced_stop_ends_the_process_tree(database: str, client: Client, tmp_path: Path) -> None:
    worker = Worker(database)
    worker.step("shell")(shell)
    task_uuid = client.create_task_from_graph(graph(shell_step(tmp_path / "pids", retry={"base_delay": 60})))
    with running(worker) as summaries:
        processes = eventually(lambda: pids(tmp_path / "pids"))
        worker.stop()
        worker.stop(force=True)
    eventually(lambda: not any(map(alive, processes)))
    assert (summaries[0].failed, summaries[0].unfinished) == (1, 0)
    assert only_step(client, task_uuid).last_error["type"] == "WorkerStopped"


# ----------------------------------------------------------------------------------------------------------- identities


def test_a_worker_that_was_shut_down_by_others_comes_back(database: str, client: Client, conn: Connection) -> None:
    worker = echo(Worker(database, name="unwanted", poll_interval=0.1), "work")
    with running(worker):
        first = eventually(lambda: worker_named(client, "unwanted"))
        client.shutdown_worker(first, "not needed")
        eventually(lambda: conn.execute("select count(*) from tasker.workers").fetchone() == (2,))
        task_uuid = client.create_task_from_graph(graph("a"))
        assert client.wait(task_uuid, timeout=30).phase == "succeeded"
        assert only_step(client, task_uuid).worker_uuid != first


@pytest.mark.parametrize("vocabulary", ["tasker", "supervision"])
def test_a_worker_that_is_drained_finishes_what_it_runs_and_stops(
    database: str, client: Client, conn: Connection, vocabulary: str
) -> None:
    worker = Worker(database, name="w", vocabulary=vocabulary, poll_interval=600, concurrency=1)
    go = threading.Event()

    @worker.step("work")
    def hold(ctx: StepContext) -> str:
        assert go.wait(60)
        return "held to the end"

    with running(worker) as summaries:
        us = eventually(lambda: worker_named(client, "w"))
        if vocabulary == "supervision":
            client.start_worker(us, "by hand", "anna")
        first = client.create_task_from_graph({**graph("hold"), "vocabulary": vocabulary})
        eventually(lambda: only_step(client, first).phase == "running")
        client.drain_worker(us, "a new version", "anna")
        second = client.create_task_from_graph({**graph("hold"), "vocabulary": vocabulary})
        go.set()
        eventually(lambda: summaries, 30)
    assert only_step(client, first).result == "held to the end"
    assert only_step(client, second).phase == "queued", "nothing new was taken"
    assert (summaries[0].succeeded, summaries[0].exit_code) == (1, 0)
    assert client.is_drained(us)
    assert conn.execute("select count(*) from tasker.workers").fetchone() == (1,), "it did not register again"
    assert conn.execute(
        "select requested_by, reason from tasker.audit_events where event = 'worker_drained'"
    ).fetchall() == [("anna", "a new version")]


def test_a_terminated_worker_loses_what_it_runs_and_goes_on(
    database: str, client: Client, tmp_path: Path, conn: Connection
) -> None:
    worker = Worker(database, name="w", vocabulary="supervision", poll_interval=0.2)
    worker.step("shell")(shell)
    job = {**graph(shell_step(tmp_path / "pids", retry={"base_delay": 0.01})), "vocabulary": "supervision"}
    with running(worker) as summaries:
        first = eventually(lambda: worker_named(client, "w"))
        client.start_worker(first, "by hand", "anna")
        task_uuid = client.create_task_from_graph(job)
        processes = eventually(lambda: pids(tmp_path / "pids"))
        client.terminate_worker(first, "broken", "anna")
        eventually(lambda: not any(map(alive, processes)), 10)
        eventually(lambda: conn.execute("select count(*) from tasker.workers").fetchone() == (2,))
        second = eventually(lambda: newest_worker(conn))
        assert second != first
        client.start_worker(second, "by hand", "anna")
        eventually(lambda: only_step(client, task_uuid).attempts == 2)
        eventually(lambda: set(pids(tmp_path / "pids")) - set(processes))
        client.cancel_task(task_uuid, "enough", "anna")
    assert summaries[0].refused == 2
    eventually(lambda: not any(map(alive, pids(tmp_path / "pids"))))


def newest_worker(conn: Connection) -> uuid.UUID:
    row = conn.execute("select worker_uuid from tasker.workers order by registered_at desc limit 1").fetchone()
    assert row is not None
    found: uuid.UUID = row[0]
    return found


def test_a_paused_worker_waits_and_goes_on_when_it_is_resumed(database: str, client: Client, conn: Connection) -> None:
    """The notification of its own state wakes it: the next poll is far away."""
    worker = echo(Worker(database, name="w", vocabulary="supervision", poll_interval=600), "work")
    with running(worker):
        worker_uuid = eventually(lambda: worker_named(client, "w"))
        client.start_worker(worker_uuid, "by hand", "anna")
        client.pause_worker(worker_uuid, "lunch", "anna")
        task_uuid = client.create_task_from_graph(graph("a"))
        # It was woken, asked, and got nothing.
        eventually(lambda: asked_since(conn, task_uuid))
        assert only_step(client, task_uuid).phase == "queued"
        client.resume_worker(worker_uuid, "lunch is over", "anna")
        assert client.wait(task_uuid, timeout=60).phase == "succeeded"
    assert conn.execute("select count(*) from tasker.workers").fetchone() == (1,)


def asked_since(conn: Connection, task_uuid: uuid.UUID) -> bool:
    row = conn.execute(
        "select max(state_change) > (select created_at from tasker.tasks where task_uuid = %s) from pg_stat_activity"
        " where datname = current_database() and application_name = 'pgtasker-worker' and query like '%%claim_steps%%'",
        [task_uuid],
    ).fetchone()
    return row is not None and bool(row[0])


def test_a_worker_is_heard_of_while_its_handlers_are_busy(database: str, client: Client, conn: Connection) -> None:
    worker = Worker(database, heartbeat_interval=0.3, lease=60, concurrency=1)
    release = threading.Event()

    @worker.step("hold")
    def hold(ctx: StepContext) -> None:
        release.wait(60)

    task_uuid = client.create_task_from_graph(graph({"name": "a", "handler": "hold"}))
    with running(worker):
        eventually(lambda: only_step(client, task_uuid).phase == "running")
        last = "select last_heartbeat_at from tasker.workers"
        beats: set[Any] = set()

        def heard_of_often() -> bool:
            client.tick()
            beats.add(conn.execute(last).fetchone())
            return len(beats) > 8

        eventually(heard_of_often)
        assert client.worker_state(newest_worker(conn)) == "busy"
        release.set()
    assert only_step(client, task_uuid).attempts == 1


# ------------------------------------------------------------------------------------------------------------- programs


def context(**arguments: Any) -> StepContext:
    return StepContext(
        step_uuid=uuid.uuid4(),
        task_uuid=uuid.uuid4(),
        namespace="default",
        task_name="t",
        name="a",
        handler="shell",
        attempt=1,
        max_attempts=1,
        context={},
        arguments=arguments,
        inputs={"before": 1},
        correlation_id=None,
        cancelled=threading.Event(),
        deadline=None,
    )


async def test_what_a_program_returns() -> None:
    done = await shell(context(argv=["sh", "-c", "echo out; echo err >&2; exit 3"], expected_exit_codes=[3]))
    assert done.pop("duration_ms") >= 0
    assert done == {
        "exit_code": 3,
        "output_size_bytes": 8,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_truncated": False,
        "stderr_truncated": False,
    }
    capped = await shell(context(argv=["seq", "100000"], max_output_bytes=4))
    assert (capped["stdout"], capped["stdout_truncated"], capped["output_size_bytes"]) == ("1\n2\n", True, 588895)
    given = await shell(context(argv=["cat"], inputs_on_stdin=True))
    assert given["stdout"] == '{"before": 1}'
    with pytest.raises(RuntimeError, match=r"sh exited with 4, expected \[0\]: why") as failed:
        await shell(context(argv=["sh", "-c", "echo why; exit 4"]))
    assert failed.value.details["exit_code"] == 4  # type: ignore[attr-defined]
    wrong: dict[str, Any]
    for wrong in ({"argv": "ls"}, {"argv": []}, {"argv": ["ls"], "expected_exit_codes": "all"}, {"argv": ["no-such"]}):
        with pytest.raises(PermanentError):
            await shell(context(**wrong))


async def test_a_program_gets_only_what_is_on_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTASKER_DSN", "postgresql://u:secret@h/d")
    ran = await run(["env"], env={"COLOR": "red"})
    assert "COLOR=red" in ran.stdout and "PATH=" in ran.stdout and "secret" not in ran.stdout


async def test_a_program_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo $$ > \"$PIDS\"; echo up; while :; do sleep 0.05; done"
    seen: list[str] = []
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await run(
            ["sh", "-c", stubborn],
            env={"PIDS": str(tmp_path / "pid")},
            timeout_seconds=0.5,
            before_kill=lambda ran: seen.append(ran.stdout),
        )
    assert time.monotonic() - begun < 20
    assert seen == ["up\n"]
    assert not alive(int((tmp_path / "pid").read_text()))
    assert os.getpid() != int((tmp_path / "pid").read_text())


async def test_a_program_that_is_cancelled_while_it_starts_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs already when the worker does not know of it yet."""
    start = asyncio.create_subprocess_exec
    told = asyncio.Event()

    async def start_slowly(*arguments: Any, **options: Any) -> Any:
        process = await start(*arguments, **options)
        await told.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    running_program = asyncio.ensure_future(run(FOREVER, env={"PIDS": str(tmp_path / "pids")}))
    processes = await asyncio.to_thread(eventually, lambda: pids(tmp_path / "pids"))
    running_program.cancel()
    await asyncio.sleep(0)
    told.set()
    with pytest.raises(asyncio.CancelledError):
        await running_program
    await asyncio.to_thread(eventually, lambda: not any(map(alive, processes)))
