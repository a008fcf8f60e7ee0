"""The applications behind a real HTTP server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn

from pgtasker.web import api
from pgtasker.web.gate import Gate, new_token
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import Engine

ROLES = ("client", "worker", "operator", "auditor", "monitor")


class _Server(uvicorn.Server):
    """Tells when it answers."""

    ready: threading.Event

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port; its address."""
    server = _Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=1))
    server.ready = threading.Event()
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    try:
        assert server.ready.wait(30)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


Serve = Callable[[Any], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve applications as long as the test runs: `serve(app) -> address`."""
    with contextlib.ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


@dataclass
class Api:
    """The API with one token for each role, called after it: `served["operator"].get(...)`."""

    address: str
    clients: dict[str, httpx.Client]
    tokens: dict[str, str]
    engine: Engine

    def __getitem__(self, role: str) -> httpx.Client:
        return self.clients[role]


@contextlib.contextmanager
def serving_api(dsn: str) -> Iterator[Api]:
    """The API on a database."""
    made = {role: new_token(f"the-{role}", f"tasker_{role}") for role in ROLES}
    with contextlib.ExitStack() as stack:
        engine = Engine(stack.enter_context(psycopg.connect(dsn, autocommit=True)))
        address = stack.enter_context(serving(api.create_app(Gate(dsn, [token for _, token in made.values()]))))
        clients = {
            role: stack.enter_context(
                httpx.Client(base_url=address, headers={"Authorization": f"Bearer {text}"}, timeout=30)
            )
            for role, (text, _) in made.items()
        }
        yield Api(address, clients, {role: text for role, (text, _) in made.items()}, engine)


@pytest.fixture(scope="module")
def served(server: TestServer) -> Iterator[Api]:
    """The API on a database that the tests of a module share."""
    with fresh_database(server, TEMPLATE) as dsn, serving_api(dsn) as served:
        yield served
