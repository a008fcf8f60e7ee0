"""Workers as operating system processes: signals, kills, several at once, a server that goes and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtasker import Client, EmbeddedServer, Worker, migrate
from pgtasker.worker import load_worker

from .conftest import eventually, graph
from .test_worker_failure import FOREVER, alive, pids

MODULE = """
import asyncio, os, time
from pgtasker import Worker
from pgtasker.shell import shell

worker = Worker(lease=2.0, poll_interval=0.2, vocabulary=os.environ.get("WORKER_VOCABULARY", "tasker"))
worker.step("shell")(shell)

@worker.step("pid")
def pid(ctx):
    return os.getpid()

@worker.step("sleep")
def sleep(ctx):
    time.sleep(ctx.arguments["seconds"])
    return "slept"

@worker.step("nap")
async def nap(ctx):
    await asyncio.sleep(ctx.arguments["seconds"])
    return "napped"

@worker.step("suicide")
def suicide(ctx):
    if ctx.attempt == 1:
        os.kill(os.getpid(), 9)
    return "alive"
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path, database: str) -> Iterator[Start]:
    """Start `python -m pgtasker.worker jobs:worker ...` (or other code) and make sure that it ends."""
    (tmp_path / "jobs.py").write_text(MODULE)
    processes: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str, code: str | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "pgtasker.worker", "jobs:worker"]
        process = subprocess.Popen(
            [*command, *arguments], cwd=tmp_path, env={**os.environ, "PGTASKER_WORKER_DSN": database}
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.wait()


Told = Callable[[str], bool]


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    """Whether the log of the processes has some words in it by now."""
    heard: list[str] = []

    def has(words: str) -> bool:
        heard.append(capfd.readouterr().err)
        return words in "".join(heard)

    return has


def phase(client: Client, task_uuid: Any) -> str:
    return client.steps(task_uuid)[0].phase


def step(handler: str, **more: Any) -> dict[str, Any]:
    return {"name": handler, "handler": handler, "retry": {"base_delay": 0.05}, **more}


def registered(conn: psycopg.Connection[Any], count: int = 1) -> bool:
    row = conn.execute("select count(*) from tasker.workers").fetchone()
    return row is not None and row[0] >= count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_handler_finish(
    number: signal.Signals, start: Start, client: Client, conn: psycopg.Connection[Any]
) -> None:
    """Meanwhile the lease is kept and nothing new is claimed; the exit code says that all is well."""
    running = client.create_task_from_graph(graph(step("sleep", arguments={"seconds": 3})))
    process = start("--concurrency", "1", "--name", "drained")
    eventually(lambda: phase(client, running) == "running")
    waiting = client.create_task_from_graph(graph(step("pid")))
    process.send_signal(number)
    assert process.wait(30) == 0
    assert client.task(running).phase == "succeeded"
    assert client.steps(running)[0].attempts == 1
    assert client.task(waiting).phase == "running"
    ended = conn.execute(
        "select s.is_terminal, t.metadata ->> 'reason' from tasker.workers w join tasker.worker_transitions t"
        " on t.worker_uuid = w.worker_uuid and t.most_recent join tasker.lifecycle_states s"
        " on s.lifecycle = t.lifecycle and s.state = t.to_state where w.name = 'drained'"
    ).fetchone()
    assert ended == (True, "drained")


def test_an_idle_worker_ends_at_once(start: Start, conn: psycopg.Connection[Any]) -> None:
    process = start()
    listens = "select count(*) from pg_stat_activity where application_name like 'pgtasker-worker%listener'"
    listens += " and state = 'idle' and datname = current_database()"
    eventually(lambda: registered(conn) and conn.execute(listens).fetchone() == (1,))
    begun = time.monotonic()
    process.terminate()
    assert process.wait(30) == 0
    # A second is the promise; a loaded machine gets some more.
    assert time.monotonic() - begun < 5


def test_the_drain_can_be_cancelled_and_ends_in_time(start: Start, client: Client) -> None:
    task_uuid = client.create_task_from_graph(graph(step("nap", arguments={"seconds": 60})))
    process = start("--drain-timeout", "60")
    eventually(lambda: phase(client, task_uuid) == "running")
    process.terminate()
    client.cancel_task(task_uuid, "no time", "anna")
    assert process.wait(30) == 0

    task_uuid = client.create_task_from_graph(graph(step("nap", arguments={"seconds": 60}, retry={"base_delay": 60})))
    process = start("--drain-timeout", "0.2")
    eventually(lambda: phase(client, task_uuid) == "running")
    process.terminate()
    # The coroutine was ended, and that was reported: nobody waits for the lease, and nothing is left undone.
    assert process.wait(30) == 0
    assert client.get_task_audit_history(task_uuid)[0].metadata["error"]["type"] == "WorkerStopped"


def test_a_second_signal_does_not_wait(start: Start, client: Client, told: Told) -> None:
    sync = client.create_task_from_graph(graph(step("sleep", arguments={"seconds": 60})))
    other = client.create_task_from_graph(graph(step("nap", arguments={"seconds": 60}, retry={"base_delay": 60})))
    process = start("--verbose")
    eventually(lambda: phase(client, sync) == phase(client, other) == "running")
    process.terminate()
    eventually(lambda: told("stopping"))  # two signals that arrive together are one
    process.terminate()
    assert process.wait(30) == 1
    # The coroutine could be ended and said so; the thread could not, and is not reported as finished.
    assert [record.success for record in client.get_task_audit_history(other)] == [False]
    assert client.get_task_audit_history(sync) == []
    with Client(client._dsn) as rescuer:
        eventually(lambda: rescuer.tick().leases_expired > 0)


def test_a_killed_workers_steps_go_to_another(start: Start, client: Client, database: str) -> None:
    task_uuid = client.create_task_from_graph(graph(step("sleep", arguments={"seconds": 60})))
    process = start()
    eventually(lambda: phase(client, task_uuid) == "running")
    process.kill()
    rescuer = Worker(database, poll_interval=0.2)
    rescuer.step("sleep")(lambda ctx: "rescued")
    (task,) = rescuer.run_until(task_uuid, timeout=60)
    assert task.phase == "succeeded"
    (found,) = client.steps(task_uuid)
    assert (found.result, found.attempts) == ("rescued", 2)
    assert len(client.get_task_audit_history(task_uuid)) == 2


SUPERVISOR = """
import os, sys
from pgtasker.worker import run_processes
sys.exit(run_processes("jobs:worker", 2, dsn=os.environ.pop("PGTASKER_WORKER_DSN"), concurrency=1, name="many"))
"""


def test_several_processes_under_one_supervisor(start: Start, client: Client, conn: psycopg.Connection[Any]) -> None:
    """A process that dies is started again; its step is tried again; a signal ends them all."""
    process = start(code=SUPERVISOR)
    eventually(lambda: registered(conn, 2), 60)
    tasks = [client.create_task_from_graph(graph(step("pid"))) for _ in range(10)]
    fatal = client.create_task_from_graph(graph(step("suicide")))
    for task_uuid in [*tasks, fatal]:
        assert client.wait(task_uuid, timeout=60).phase == "succeeded"
    eventually(lambda: registered(conn, 3), 60)
    names = {name for (name,) in conn.execute("select distinct name from tasker.workers")}
    assert names == {"many-1", "many-2"}
    process.terminate()
    assert process.wait(30) == 0


def test_processes_that_were_drained_are_not_started_again(
    start: Start, client: Client, conn: psycopg.Connection[Any]
) -> None:
    process = start(code=SUPERVISOR)
    eventually(lambda: registered(conn, 2), 60)
    for worker in client.workers():
        client.drain_worker(worker.worker_uuid, "a new version", "anna")
    assert process.wait(30) == 0
    assert not registered(conn, 3)


def test_the_processes_end_with_their_supervisor(start: Start, conn: psycopg.Connection[Any]) -> None:
    process = start(code=SUPERVISOR)
    eventually(lambda: registered(conn, 2), 60)
    process.kill()
    left = "select count(*) from tasker.workers where shutdown_requested_at is null"
    eventually(lambda: conn.execute(left).fetchone() == (0,))


def test_loading_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loadable.py").write_text("from pgtasker import Worker\nworker = Worker(name='it')\nthing = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_worker("loadable:worker").name == "it"
    assert load_worker("loadable") is load_worker("loadable:worker")
    with pytest.raises(ValueError, match="no 'other'"):
        load_worker("loadable:other")
    with pytest.raises(ValueError, match=r"not a pgtasker\.Worker"):
        load_worker("loadable:thing")
    with pytest.raises(ImportError):
        load_worker("no_such_module:worker")


@pytest.fixture(scope="module")
def own_server(server_folder: Path) -> Iterator[EmbeddedServer]:
    """A server that a test may stop."""
    server = EmbeddedServer(server_folder / "restarted", settings={"fsync": "off"})
    server.start()
    migrate.upgrade(server.uri("postgres"))
    yield server
    server.stop("immediate")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_worker_and_a_client_live_through_a_restart_of_the_server(own_server: EmbeddedServer, mode: str) -> None:
    dsn = own_server.uri("postgres")
    worker = Worker(dsn, lease=2.0, poll_interval=0.2, concurrency=2)

    @worker.step("slow")
    def slow(ctx: Any) -> int:
        time.sleep(0.02)
        return 1

    import threading

    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with Client(dsn) as client:
            each = {"handler": "slow", "retry": {"base_delay": 0.05}}
            task_uuid = client.create_task_from_graph(graph(*({"name": f"s{n}", **each} for n in range(60))))
            seen = []
            for change in client.events(poll_interval=0.05):
                seen.append(change.transition_uuid)
                if len(seen) == 150:
                    own_server.stop(mode)
                    own_server.start()
                if change.entity_uuid == task_uuid and client.task(task_uuid).is_terminal:
                    break
            assert client.task(task_uuid).phase == "succeeded"
            assert len(seen) == len(set(seen))
            assert client.check_consistency() == []
    finally:
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()


def test_a_worker_that_waits_for_its_server_can_be_stopped(
    own_server: EmbeddedServer, tmp_path: Path, told: Told
) -> None:
    (tmp_path / "jobs.py").write_text(MODULE)
    environment = {**os.environ, "PGTASKER_WORKER_DSN": own_server.uri("postgres")}
    process = subprocess.Popen(
        [sys.executable, "-m", "pgtasker.worker", "jobs:worker", "--name", "patient"], cwd=tmp_path, env=environment
    )
    try:
        with psycopg.connect(own_server.uri("postgres"), autocommit=True) as conn:
            query = "select count(*) from tasker.workers where name = 'patient'"
            eventually(lambda: conn.execute(query).fetchone() == (1,), 60)
        own_server.stop("immediate")
        eventually(lambda: told("the database failed, trying again"))
        assert process.poll() is None
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        own_server.start()


def test_the_children_of_a_killed_worker_die_and_its_step_goes_on(start: Start, client: Client, tmp_path: Path) -> None:
    """SIGKILL leaves no time for anything: the groups are ended from outside, the lease runs out."""
    pid_file = tmp_path / "pids"
    arguments = {"argv": FOREVER, "env": {"PIDS": str(pid_file)}}
    task_uuid = client.create_task_from_graph(graph(step("shell", arguments=arguments)))
    first = start("--concurrency", "1")
    processes = eventually(lambda: pids(pid_file))
    assert all(map(alive, processes))
    first.kill()
    first.wait()
    eventually(lambda: not any(map(alive, processes)), 10)
    pid_file.unlink()
    start("--concurrency", "1")
    again = eventually(lambda: pids(pid_file), 30)
    assert not set(again) & set(processes)
    assert client.steps(task_uuid)[0].attempts == 2
    client.cancel_task(task_uuid, "enough", "anna")
    eventually(lambda: not any(map(alive, again)), 10)


def test_the_second_signal_ends_the_process_tree(start: Start, client: Client, tmp_path: Path, told: Told) -> None:
    pid_file = tmp_path / "pids"
    arguments = {"argv": FOREVER, "env": {"PIDS": str(pid_file)}}
    task_uuid = client.create_task_from_graph(graph(step("shell", arguments=arguments, max_attempts=1)))
    process = start("--verbose")
    processes = eventually(lambda: pids(pid_file))
    process.terminate()
    eventually(lambda: told("stopping"))
    assert all(map(alive, processes))
    process.terminate()
    assert process.wait(30) == 1
    eventually(lambda: not any(map(alive, processes)))
    assert client.steps(task_uuid)[0].last_error["type"] == "WorkerStopped"


def stopped_between_calls(pid: int, conn: psycopg.Connection[Any]) -> bool:
    """Stop a process; let it go on where a session of it is in the middle of a call, and so holds locks, for good."""
    os.kill(pid, signal.SIGSTOP)
    busy = "select count(*) from pg_stat_activity where application_name like 'pgtasker-worker%' and state <> 'idle'"
    busy += " and datname = current_database()"
    for _ in range(50):
        if conn.execute(busy).fetchone() == (0,):
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGCONT)
    return False


def test_a_worker_that_was_given_up_comes_back(start: Start, client: Client, conn: psycopg.Connection[Any]) -> None:
    """It was stopped for so long that the server gave it up: it must not go on under its old name."""
    process = start("--name", "sleepy")
    eventually(lambda: registered(conn))
    eventually(lambda: stopped_between_calls(process.pid, conn))
    conn.execute("update tasker.workers set last_heartbeat_at = last_heartbeat_at - interval '2 days'")
    client.tick()
    (first,) = conn.execute("select worker_uuid from tasker.workers").fetchone() or (None,)
    ended = "select s.is_terminal from tasker.worker_transitions t join tasker.lifecycle_states s"
    ended += " on s.lifecycle = t.lifecycle and s.state = t.to_state where t.worker_uuid = %s and t.most_recent"
    assert conn.execute(ended, [first]).fetchone() == (True,)
    os.kill(process.pid, signal.SIGCONT)
    eventually(lambda: registered(conn, 2), 30)
    task_uuid = client.create_task_from_graph(graph(step("pid")))
    assert client.wait(task_uuid, timeout=30).phase == "succeeded"
    assert client.steps(task_uuid)[0].worker_uuid != first
    assert client.check_consistency() == []


def test_a_step_whose_checker_was_killed_is_not_lost(
    start: Start, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the result and the verdict of its checks: somebody does it again, or it fails; it never hangs."""
    monkeypatch.setenv("WORKER_VOCABULARY", "execution")
    check = {
        "type": "command",
        "argv": ["sh", "-c", f"[ -e {tmp_path}/begun ] || {{ touch {tmp_path}/begun; sleep 300; }}"],
    }
    ad_hoc = {**graph(step("pid", acceptance=[{**check, "timeout": 600}])), "vocabulary": "execution"}
    task_uuid = client.create_task_from_graph(ad_hoc)
    first = start("--concurrency", "1")
    eventually(lambda: (tmp_path / "begun").exists())
    assert phase(client, task_uuid) == "validating"
    first.kill()
    first.wait()
    start("--concurrency", "1")
    eventually(lambda: phase(client, task_uuid) != "validating", 30)
