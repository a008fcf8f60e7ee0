"""What a worker process logs with --log-format json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgtasker import Client
from tests.pyclient.conftest import graph

HANDLERS = """
import logging
from pgtasker import Worker

worker = Worker()
logger = logging.getLogger("mine")

@worker.step("work")
def work(step):
    logger.warning("pressing %s", step.name, extra={"parts": 7})
    if step.name == "b":
        try:
            1 / 0
        except ZeroDivisionError:
            logger.exception("it broke")

@worker.step("other")
async def other(step):
    logger.warning("weighing")
"""


@pytest.mark.parametrize(
    "command",
    [
        ["pgtasker.worker", "handlers:worker", "--stop-with-stdin"],
        ["pgtasker.cli", "worker", "run", "handlers:worker"],
        ["pgtasker.cli", "worker", "run", "handlers:worker", "-n", "2"],
    ],
)
def test_one_object_a_line_with_the_step_it_belongs_to(database: str, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    environment = {**os.environ, "PGTASKER_DSN": database}
    with Client(database) as client:
        flow = graph("a", "b<a")
        flow["steps"].append({"name": "c", "handler": "other"})
        task = client.create_task_from_graph(flow)
        with subprocess.Popen(
            [sys.executable, "-m", *command, "--verbose", "--log-format", "json"],
            cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert client.wait(task, timeout=60).phase == "succeeded"
            process.terminate()
            output = process.communicate(timeout=60)[1]
        steps = {step.name: step for step in client.steps(task)}
        correlation = client.task(task).correlation_id
    lines: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    assert all({"time", "level", "logger", "message", "process"} <= set(line) for line in lines)
    mine = {line["step"]: line for line in lines if line["logger"] == "mine"}
    assert set(mine) == {"a", "b", "c"}
    for name, line in mine.items():
        assert line["step_uuid"] == str(steps[name].workflow_step_uuid)
        assert (line["task_uuid"], line["attempt"], line["correlation_id"]) == (str(task), 1, str(correlation))
    assert (mine["a"]["message"], mine["a"]["level"], mine["a"]["parts"]) == ("pressing a", "warning", 7)
    assert "ZeroDivisionError" in mine["b"]["error"]
    assert any(line["logger"] == "pgtasker.worker" and "step_uuid" not in line for line in lines)
