"""Acceptance checks: each kind, and what the step makes of them in lifecycles with and without a phase for them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from pgtasker import Client, StepContext, Worker

from .conftest import eventually, graph
from .test_worker import only_step, running

Check = dict[str, Any]

VOCABULARIES = pytest.mark.parametrize("vocabulary", ["tasker", "pipeline", "orchestration", "execution"])
HAS_PHASE = {"orchestration", "execution"}


def build(database: str, vocabulary: str = "tasker") -> Worker:
    """A worker whose handler returns a number, with checks of its own."""
    worker = Worker(database, vocabulary="tasker" if vocabulary == "pipeline" else vocabulary)

    @worker.step("build")
    def make(ctx: StepContext) -> dict[str, int]:
        return {"pages": 7}

    @worker.check("is there")
    def is_there(ctx: StepContext, result: Any) -> bool:
        return bool(result["pages"] == 7 and ctx.name == "a")

    @worker.check("is long")
    async def is_long(ctx: StepContext, result: Any) -> None:
        await asyncio.sleep(0)
        if result["pages"] < 100:
            raise AssertionError("too short")

    @worker.check("hangs")
    async def hangs(ctx: StepContext, result: Any) -> None:
        await asyncio.sleep(300)

    return worker


def run_step(worker: Worker, client: Client, vocabulary: str, *checks: Check, cwd: Path | None = None) -> Any:
    """Run one step with these checks to its end; returns the step."""
    arguments = {} if cwd is None else {"cwd": str(cwd)}
    step = {"name": "a", "handler": "build", "acceptance": list(checks), "arguments": arguments, "max_attempts": 3}
    task_uuid = client.create_task_from_graph({**graph(step), "vocabulary": vocabulary})
    with running(worker):

        def ended() -> Any:
            found = only_step(client, task_uuid)
            return found if found.is_terminal or found.phase in ("failed", "circuit_open") else None

        return eventually(ended, 60)


def told_of(client: Client, step: Any, vocabulary: str) -> dict[str, Any]:
    """What was stored of the checks."""
    if vocabulary not in HAS_PHASE and step.last_error:
        details: dict[str, Any] = step.last_error["details"]
        return details
    logged = [entry.metadata or {} for entry in client.timeline(step.task_uuid)]
    (validation,) = [metadata["validation"] for metadata in logged if "validation" in metadata]
    found: dict[str, Any] = validation
    return found


@VOCABULARIES
def test_a_step_whose_checks_pass_succeeds(vocabulary: str, database: str, client: Client, tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text("Total 7\n")
    step = run_step(
        build(database, vocabulary),
        client,
        vocabulary,
        {"type": "file_exists", "path": "report.txt"},
        {"type": "python_import", "module": "json.tool"},
        {"type": "command", "argv": ["grep", "-q", "Total", "report.txt"]},
        {"type": "command", "argv": ["sh", "-c", "exit 3"], "expected_exit_codes": [3], "timeout": 20},
        {"type": "lint", "argv": ["true"]},
        {"type": "custom", "handler": "is there"},
        cwd=tmp_path,
    )
    assert (step.phase, step.result, step.attempts) == ("succeeded", {"pages": 7}, 1)
    assert client.task(step.task_uuid).phase == "succeeded"
    assert client.check_consistency() == []
    told = told_of(client, step, vocabulary)
    assert [check["type"] for check in told["checks"]] == [
        *("file_exists", "python_import", "command", "command", "lint", "custom")
    ]
    assert all(check["passed"] for check in told["checks"])
    assert told["checks"][3]["exit_code"] == 3
    assert told["validation_duration_ms"] >= told["checks"][1]["duration_ms"]
    assert told["execution_duration_ms"] >= 0


@VOCABULARIES
def test_a_failed_check_fails_the_step_without_retry(
    vocabulary: str, database: str, client: Client, tmp_path: Path
) -> None:
    step = run_step(
        build(database, vocabulary),
        client,
        vocabulary,
        {"type": "file_exists", "path": "report.txt"},
        {"type": "custom", "handler": "is there"},
        {"type": "custom", "handler": "is long"},
        cwd=tmp_path,
    )
    assert step.phase in ("failed", "circuit_open")
    assert step.attempts == 1
    told = told_of(client, step, vocabulary)
    assert [check["passed"] for check in told["checks"]] == [False, True, False]
    assert told["checks"][0]["message"] == "there is no report.txt"
    assert told["checks"][2]["message"] == "AssertionError: too short"
    assert {"validation_duration_ms", "execution_duration_ms"} <= set(told)
    if vocabulary not in HAS_PHASE:
        assert step.last_error["type"] == "validation_failed"
        assert "report.txt" in step.last_error["message"]
    assert client.check_consistency() == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"type": "python_import", "module": "no_such_module_here"}, "No module named"),
        ({"type": "python_import"}, "needs 'module'"),
        ({"type": "command", "argv": ["sh", "-c", "echo broken >&2; exit 2"]}, "exited with 2: broken"),
        ({"type": "command", "argv": ["no-such-program"]}, "cannot be started"),
        ({"type": "command", "argv": "ls"}, "needs 'argv'"),
        ({"type": "command", "argv": ["ls"], "expected_exit_codes": "all"}, "list of whole numbers"),
        ({"type": "command", "argv": ["sleep", "300"], "timeout": 0.2}, "longer than 0.2 s"),
        ({"type": "lint", "argv": ["false"]}, "exited with 1"),
        ({"type": "custom", "handler": "nobody"}, "no check named 'nobody'; it has: hangs, is long, is there"),
        ({"type": "custom", "handler": "hangs", "timeout": 0.2}, "longer than 0.2 s"),
        ({"type": "js_import", "module": "no-such-module"}, "no-such-module"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_told_of_a_failed_check(check: Check, message: str, database: str, client: Client) -> None:
    step = run_step(build(database), client, "tasker", check)
    (told,) = step.last_error["details"]["checks"]
    assert message in told["message"]
    if "exited" in message:
        assert told["exit_code"] > 0 and told["output_size_bytes"] >= 0


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_a_javascript_module_is_imported(database: str, client: Client, tmp_path: Path) -> None:
    (tmp_path / "good.mjs").write_text("export const x = 1;\n")
    check = {"type": "js_import", "module": "./good.mjs"}
    assert run_step(build(database), client, "tasker", check, cwd=tmp_path).phase == "succeeded"


def test_a_step_is_in_its_phase_while_it_is_checked(database: str, client: Client, tmp_path: Path) -> None:
    """It can be cancelled there, which ends the check."""
    worker = build(database, "orchestration")
    check = {"type": "command", "argv": ["sh", "-c", f"touch {tmp_path}/begun; sleep 300"], "timeout": 300}
    step = {"name": "a", "handler": "build", "acceptance": [check]}
    task_uuid = client.create_task_from_graph({**graph(step), "vocabulary": "orchestration"})
    with running(worker) as summaries:
        eventually(lambda: (tmp_path / "begun").exists())
        assert only_step(client, task_uuid).phase == "validating"
        client.cancel_task(task_uuid, "not needed", "anna")
    assert (summaries[0].refused, summaries[0].succeeded) == (1, 0)
    assert only_step(client, task_uuid).phase == "cancelled"
