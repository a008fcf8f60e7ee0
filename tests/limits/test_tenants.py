"""Limits and logins that are bound to namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.workflow.engine import Engine, graph, step


@pytest.fixture
def acme(engine: Engine, login: Callable[..., str]) -> Iterator[Engine]:
    """An operator who is bound to namespace acme."""
    for namespace in ("acme", "rival"):
        engine.call("ensure_namespace", p_namespace=namespace)
    with psycopg.connect(login("tasker_operator"), autocommit=True) as connection:
        engine.one("select tasker.bind_login(%s, '{acme}', 'a test', 'ada')", connection.info.user)
        yield Engine(connection)


def test_a_tenant_limits_its_own_and_nothing_that_is_shared(engine: Engine, acme: Engine) -> None:
    acme.call("set_limit", p_scope="template", p_name="flow", p_concurrency=2, p_namespace="acme")
    acme.call("set_limit", p_scope="tool", p_name="press", p_rate=2, p_namespace="acme")
    refused: list[dict[str, Any]] = [
        {"p_scope": "tool", "p_name": "press"},
        {"p_scope": "tool", "p_name": "press", "p_namespace": "rival"},
        {"p_scope": "template", "p_name": "flow", "p_namespace": "rival"},
        {"p_scope": "template", "p_name": "flow"},
        {"p_scope": "namespace", "p_name": "acme"},
        {"p_scope": "namespace", "p_name": "rival"},
    ]
    for limit in refused:
        with pytest.raises(psycopg.Error) as error:
            acme.call("set_limit", **limit, p_concurrency=1)
        assert error.value.sqlstate == "TK403"
        with pytest.raises(psycopg.Error) as error:
            acme.call("remove_limit", **limit)
        assert error.value.sqlstate == "TK403"
    engine.call("set_limit", p_scope="namespace", p_name="acme", p_concurrency=5)
    engine.call("set_limit", p_scope="namespace", p_name="rival", p_concurrency=5)
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=5)
    assert acme.column("select scope from tasker.limit_overview order by 1") == ["namespace", "template", "tool"]


def test_a_limit_that_is_shared_is_served_by_whoever_ticks(engine: Engine, acme: Engine) -> None:
    engine.call("set_limit", p_scope="tool", p_name="press", p_concurrency=1)
    engine.worker(p_heartbeat_interval="1 hour")
    engine.create(graph(step("a", tool="press"), step("b", tool="press")), p_namespace="rival")
    engine.create(graph(step("c", tool="press")), p_namespace="acme")
    assert [claimed["name"] for claimed in engine.claim(1, namespaces=["rival"])] == ["a"]
    assert engine.claim() == []
    assert acme.rows("select * from tasker.limit_waits") != []
    assert acme.column("select distinct namespace from tasker.limit_waits") == ["acme"]
    # as if a session had died with it
    engine.rows("update tasker.limit_slots set workflow_step_uuid = null")
    assert acme.tick()["next_due_at"] is not None
    engine.shift_clock("2 s")
    assert acme.tick()["timers_fired"] == 1
    assert [claimed["name"] for claimed in engine.claim()] == ["b"]
