"""Workers, breakers, recovery, request ids and checkpoints on the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgtasker import Client

Cli = Callable[..., Any]
Connection = psycopg.Connection[Any]
NOWHERE = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def client(database: str) -> Any:
    with Client(database) as client:
        yield client


def test_a_supervised_worker(cli: Cli, client: Client) -> None:
    worker_uuid = str(client.register_worker("w", ["sew"], vocabulary="supervision"))
    (listed,) = cli("worker", "list", "--json").json
    assert (listed["worker_uuid"], listed["state"], listed["held_steps"]) == (worker_uuid, "IDLE", 0)
    by_hand = ("--reason", "by hand", "--by", "ann")
    assert cli("worker", "start", worker_uuid, *by_hand).stdout == "RUNNING\n"
    client.create_task_from_graph({"name": "g", "steps": [{"name": "a", "handler": "h"}]})
    assert len(client.claim_steps(worker_uuid)) == 1
    assert cli("worker", "pause", worker_uuid, *by_hand, "--request-id", "p1", "--json").json == {
        "worker_uuid": worker_uuid,
        "state": "PAUSED",
    }
    assert cli("worker", "pause", worker_uuid, *by_hand, "--request-id", "p1").stdout == "PAUSED\n"
    assert cli("worker", "pause", worker_uuid, *by_hand, "--json", expect=1).error["code"] == "TK409"
    shown = cli("worker", "show", worker_uuid, "--json").json
    assert (shown["worker"]["capabilities"], shown["worker"]["held_steps"]) == (["sew"], 1)
    assert [row["to_state"] for row in shown["transitions"]] == ["IDLE", "RUNNING", "PAUSED"]
    assert (shown["transitions"][-1]["requested_by"], shown["transitions"][-1]["reason"]) == ("ann", "by hand")
    assert [row["name"] for row in shown["held"]] == ["a"]
    text = cli("worker", "show", worker_uuid).stdout
    assert "PAUSED" in text and "by hand" in text
    assert cli("worker", "resume", worker_uuid, *by_hand).stdout == "RUNNING\n"
    assert cli("worker", "terminate", worker_uuid, *by_hand).stdout == "TERMINATED\n"
    assert cli("worker", "list", "--json").json == []
    assert cli("worker", "list", "--all").stdout.count(worker_uuid) == 1
    assert "worker list" in cli("worker", "show", NOWHERE, expect=1).stderr
    assert "not a uuid" in cli("worker", "show", "w", expect=2).stderr
    assert cli("worker", "pause", worker_uuid, expect=2).stderr  # a reason is needed


def test_tools_have_timeouts(cli: Cli) -> None:
    assert cli("tool", "configure", "browser", "--timeout", 20).stdout == "browser: 20 s\n"
    assert cli("tool", "list", "--json").json == [{"tool": "browser", "timeout": 20.0}]
    assert cli("tool", "configure", "browser", "--json").json == {"tool": "browser", "timeout": None}


def test_a_circuit_breaker(cli: Cli, client: Client) -> None:
    assert cli("breaker", "list", "--json").json == []
    closed = cli("breaker", "configure", "mail", "--failure-threshold", 1, "--cooldown", 3600).stdout.strip()
    assert client.record_breaker_result("mail", False, {"message": "no route"}) != closed
    (listed,) = cli("breaker", "list", "--json").json
    assert (listed["tool"], listed["phase"], listed["cooldown"]) == ("mail", "open", 3600)
    assert listed["cools_until"] is not None
    assert cli("breaker", "reset", "mail", "--reason", "repaired", "--by", "ann", "--json").json == {
        "tool": "mail",
        "state": closed,
    }
    shown = cli("breaker", "show", "mail", "--json").json
    assert shown["breaker"]["phase"] == "closed"
    assert shown["transitions"][-1]["reason"] == "repaired"
    assert "repaired" in cli("breaker", "show", "mail").stdout
    assert "breaker list" in cli("breaker", "show", "fax", expect=1).stderr
    assert cli("breaker", "reset", "fax", "--reason", "x", "--json", expect=1).error["code"] == "TK404"
    assert cli("breaker", "configure", "mail", "--failure-threshold", 0, "--json", expect=1).error["code"] == "TK400"


def test_a_limit(cli: Cli, client: Client) -> None:
    assert "limit set" in cli("limit", "list").stderr
    assert cli("limit", "set", "tool", "press", "--concurrency", 3, "--rate", 10, "--per", 60).stdout.strip() == (
        "tool press: 3 at once, 10 in 60 s"
    )
    (listed,) = cli("limit", "list", "--json").json
    assert (listed["concurrency"], listed["rate"], listed["running"], listed["waiting"]) == (3, 10, 0, 0)
    assert [limit.name for limit in client.limits()] == ["press"]
    assert cli("limit", "set", "tool", "press", "--json", expect=1).error["code"] == "TK400"
    cli("limit", "remove", "tool", "press")
    assert cli("limit", "remove", "tool", "press", "--json", expect=1).error["code"] == "TK404"


def test_recovery_is_a_dry_run_unless_told_otherwise(cli: Cli, client: Client, conn: Connection) -> None:
    assert cli("recover", "--json").json == []
    task_uuid = client.create_task_from_graph({"name": "g", "steps": [{"name": "a", "handler": "h"}]})
    conn.execute("select pgmq.purge_queue(queue_name) from tasker.task_namespaces where namespace = 'default'")
    (found,) = cli("recover", "--json", expect=1).json
    assert (found["problem"], found["done"]) == ("queued_without_message", False)
    assert "--yes" in cli("recover", "--task", task_uuid, expect=1).stderr
    assert cli("recover", "--task", NOWHERE).stdout == ""
    assert "--reason" in cli("recover", "--yes", expect=2).stderr
    (done,) = cli("recover", "--yes", "--reason", "the queue was lost", "--by", "ann", "--json").json
    assert done["done"] is True
    assert cli("recover", "--json").json == []
    assert len(client.claim_steps(client.register_worker("w"))) == 1


def test_a_command_with_a_request_id_is_safe_to_repeat(cli: Cli, client: Client, conn: Connection) -> None:
    client.register_template({"name": "t", "steps": [{"name": "a", "handler": "h"}]})
    create = ("task", "create", "t", "--request-id", "order 1", "--by", "ann")
    task_uuid = cli(*create).stdout.strip()
    assert cli(*create).stdout.strip() == task_uuid
    assert cli(*create, "--priority", 3, "--json", expect=1).error["code"] == "TK423"
    cancel = ("task", "cancel", task_uuid, "--reason", "wrong", "--by", "ann")
    assert cli(*cancel, "--request-id", "c").stdout == cli(*cancel, "--request-id", "c").stdout
    assert cli(*cancel, "--json", expect=1).error["code"] == "TK409"
    listed = cli("idempotency", "list", "--json").json
    assert [(row["request_id"], row["endpoint"], row["hits"]) for row in listed] == [
        ("c", "cancel_task", 1),
        ("order 1", "submit_tasks", 1),
    ]
    said = cli("idempotency", "list")
    assert "order 1" in said.stdout and "2 of 4 requests (50%)" in said.stderr
    assert cli("idempotency", "purge").stdout == "0\n"
    conn.execute("update tasker.idempotency_keys set expires_at = clock_timestamp() - interval '1 second'")
    assert cli("idempotency", "purge", "--json").json == {"purged": 2}
    assert cli("idempotency", "list").stdout == ""


def test_the_checkpoint_of_a_step(cli: Cli, client: Client) -> None:
    task_uuid = client.create_task_from_graph({"name": "g", "steps": [{"name": "a", "handler": "h"}]})
    step = f"{task_uuid}/a"
    assert "no checkpoint" in cli("step", "checkpoint", step, expect=1).stderr
    (claim,) = client.claim_steps(client.register_worker("w"))
    client.save_checkpoint(claim.workflow_step_uuid, claim.claim_uuid, {"pages": 3})
    shown = cli("step", "checkpoint", step, "--json").json
    assert (shown["name"], shown["attempt"], shown["checkpoint"]) == ("a", 1, {"pages": 3})
    assert '"pages": 3' in cli("step", "checkpoint", claim.workflow_step_uuid).stdout
    assert cli("step", "checkpoint", uuid.uuid4(), expect=1).stderr
    cancel = ("step", "cancel", step, "--reason", "x", "--by", "ann", "--request-id", "s")
    assert cli(*cancel).stdout == cli(*cancel).stdout


def test_a_killed_supervisor_of_worker_processes_takes_their_programs_along(
    cli: Cli, database: str, client: Client, tmp_path: Any
) -> None:
    pid_file = tmp_path / "pid"
    step = {
        "name": "a",
        "handler": "shell",
        "arguments": {"argv": ["sh", "-c", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 300"]},
    }
    client.create_task_from_graph({"name": "g", "steps": [step]})
    command = [sys.executable, "-m", "pgtasker.cli", "worker", "run", "pgtasker.cli.handlers:worker"]
    process = subprocess.Popen([*command, "--dsn", database])
    try:
        pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text()))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        eventually(lambda: not running(pid))
    finally:
        process.kill()
        process.wait()


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def eventually(condition: Callable[[], Any], timeout: float = 30.0) -> Any:
    """Wait for a condition and return its value; fails when it stays false."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout} s")
