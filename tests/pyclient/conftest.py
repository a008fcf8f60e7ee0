"""A client of each kind on a fresh database, and small helpers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pgtasker import AsyncClient, Client

Graph = dict[str, Any]


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
