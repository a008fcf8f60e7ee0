"""A client of each kind on a fresh database, and small helpers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtasker import AsyncClient, Client
from tests.conftest import leave_out_repetitions

Graph = dict[str, Any]

# The client's statements run on every server; what it makes of their answers is the same on all of them.
_ON_EVERY_SERVER = {
    "test_a_workflow_from_template_to_audit",
    "test_failures_retries_and_repairs_by_hand",
    "test_a_diamond_of_each_kind_of_handler",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the repetitions on a second server of tests that would show nothing new there."""
    leave_out_repetitions(config, items, Path(__file__).parent, _ON_EVERY_SERVER)


def graph(*steps: str | Graph, name: str = "graph") -> Graph:
    """A graph of the given steps; a text such as "d<b,c" is a step with its dependencies, handled by "work"."""
    described = []
    for step in steps:
        if isinstance(step, str):
            own, _, needs = step.partition("<")
            step = {"name": own, "handler": "work", "depends_on": needs.split(",") if needs else []}
        described.append(step)
    return {"name": name, "steps": described}


def eventually(condition: Callable[[], Any], timeout: float = 15.0) -> Any:
    """Wait for a condition and return its value; fails when it stays false."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {timeout} s: {condition}")


class Blocking:
    """An AsyncClient used from sync code, so that one test serves both clients."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(method(*args, **kwargs))

        return call

    def events(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        found = self._client.events(*args, **kwargs)
        while True:
            try:
                yield self._runner.run(anext(found))
            except StopAsyncIteration:
                return


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    with Client(database) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def api(request: pytest.FixtureRequest, database: str) -> Iterator[Any]:
    """Client and AsyncClient in turn, behind the same blocking calls."""
    if request.param == "sync":
        with Client(database) as client:
            yield client
    else:
        with asyncio.Runner() as runner:
            made = AsyncClient(database)
            runner.run(made.open())
            yield Blocking(made, runner)
            runner.run(made.close())
