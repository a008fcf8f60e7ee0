"""Notifications are hints: small, per statement, switchable by namespace, throttled, and part of the transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, Engine, refused

CHANNELS = ("tasker_work", "tasker_task_state", "tasker_step_state")
Connect = Callable[..., psycopg.Connection[Any]]


class Ear:
    """Listens on a connection of its own. What was sent is read up to a mark, so that silence needs no waiting."""

    def __init__(self, engine: Engine, conn: psycopg.Connection[Any]) -> None:
        self._engine = engine
        self._conn = conn
        for channel in (*CHANNELS, "mark"):
            conn.execute(f"listen {channel}".encode())

    def heard(self) -> list[tuple[str, str]]:
        """(channel, payload) of everything sent since the last call."""
        self._engine.run("notify mark")
        found: list[tuple[str, str]] = []
        for notification in self._conn.notifies(timeout=30):
            if notification.channel == "mark":
                return found
            assert len(notification.payload.encode()) < 8000
            found.append((notification.channel, notification.payload))
        raise AssertionError("the mark did not come")

    def events(self, channel: str) -> list[list[dict[str, Any]]]:
        """The payloads of one channel since the last call, each a list of events."""
        return [json.loads(payload) for heard, payload in self.heard() if heard == channel]


@pytest.fixture
def ear(engine: Engine, connect: Connect) -> Ear:
    engine.one("select tasker.ensure_namespace('default')")
    return Ear(engine, connect())


def rest(engine: Engine) -> None:
    """Let the throttle of tasker_work forget that it sent anything."""
    engine.run("update tasker.work_signals set last_notified_at = '-infinity'")


@pytest.mark.parametrize(
    ("mode", "channels"),
    [
        ("off", set()),
        ("work", {"tasker_work"}),
        ("tasks", {"tasker_work", "tasker_task_state"}),
        ("all", {"tasker_work", "tasker_task_state", "tasker_step_state"}),
    ],
)
def test_a_namespace_chooses_what_is_sent(engine: Engine, ear: Ear, mode: str, channels: set[str]) -> None:
    engine.one("select tasker.set_namespace_notifications('default', %s)", mode)
    engine.task(DIAMOND)
    engine.finish(engine.worker())
    assert {channel for channel, _ in ear.heard()} == channels


def test_the_default_is_to_signal_work(engine: Engine, ear: Ear) -> None:
    engine.task(DIAMOND, namespace="new-one")
    assert ear.heard() == [("tasker_work", "new-one")]


def test_namespaces_do_not_disturb_each_other(engine: Engine, ear: Ear) -> None:
    for namespace, mode in (("quiet", "off"), ("loud", "all")):
        engine.one("select tasker.ensure_namespace(%s)", namespace)
        engine.one("select tasker.set_namespace_notifications(%s, %s)", namespace, mode)
    engine.task(DIAMOND, namespace="quiet")
    loud = engine.task(DIAMOND, namespace="loud")
    heard = ear.heard()
    assert [payload for channel, payload in heard if channel == "tasker_work"] == ["loud"]
    for channel, payload in heard:
        if channel != "tasker_work":
            assert {event["task_uuid"] for event in json.loads(payload)} == {str(loud)}


def test_events_carry_ids_and_states_and_nothing_else(engine: Engine, ear: Ear) -> None:
    """Anyone connected may listen: no context, no result, no reason."""
    engine.one("select tasker.set_namespace_notifications('default', 'all')")
    task = engine.task([{"name": "only", "arguments": {"password": "secret"}}])
    (claimed,) = engine.claim(engine.worker())
    ear.heard()
    engine.complete(claimed, {"token": "secret"})
    ((event,),) = ear.events("tasker_step_state")
    assert event == {
        "workflow_step_uuid": str(claimed["workflow_step_uuid"]),
        "task_uuid": str(task),
        "namespace": "default",
        "from_state": "in_progress",
        "to_state": "enqueued_for_orchestration",
        "event": "enqueue_for_orchestration",
        "sort_key": 4,
        "correlation_id": str(claimed["correlation_id"]),
    }
    engine.orchestrate()
    (events,) = ear.events("tasker_task_state")
    assert [event["to_state"] for event in events] == ["evaluating_results", "complete"]
    assert set(events[0]) == {
        "task_uuid", "namespace", "from_state", "to_state", "event", "sort_key", "correlation_id",
    }  # fmt: skip


def test_they_are_sent_per_statement_and_not_per_row(engine: Engine, ear: Ear) -> None:
    engine.one("select tasker.set_namespace_notifications('default', 'all')")
    task = engine.task([{"name": f"s{number}"} for number in range(500)])
    ear.heard()
    claimed = engine.claim(engine.worker(), limit=500)
    payloads = ear.events("tasker_step_state")
    assert len(payloads) == -(-500 // 12), "a dozen events in each"
    assert sum(len(events) for events in payloads) == 500
    assert {event["workflow_step_uuid"] for events in payloads for event in events} == {
        str(step["workflow_step_uuid"]) for step in claimed
    }
    assert engine.state(task) == "steps_in_process"


def test_a_rolled_back_transition_is_not_announced(engine: Engine, ear: Ear) -> None:
    engine.one("select tasker.set_namespace_notifications('default', 'all')")
    with engine.conn.transaction(force_rollback=True):
        engine.task(DIAMOND)
    assert ear.heard() == []


def test_work_is_signalled_at_most_a_hundred_times_a_second(engine: Engine, ear: Ear) -> None:
    """NOTIFY serialises all commits of a server: what comes within 10 ms is left to the poll."""
    rest(engine)
    ear.heard()
    sent = []
    for _ in range(30):
        engine.task(DIAMOND)
        sent.append(engine.one("select last_notified_at from tasker.work_signals where namespace = 'default'"))
    times = sorted(set(sent))
    assert ear.heard() == [("tasker_work", "default")] * len(times)
    assert all(later - earlier >= timedelta(milliseconds=10) for earlier, later in pairwise(times))


def test_whoever_finds_the_throttle_taken_does_not_wait(engine: Engine, connect: Connect, ear: Ear) -> None:
    other = connect(autocommit=False)
    rest(engine)
    other.execute("select from tasker.work_signals where namespace = 'default' for update")
    engine.run("set lock_timeout = '5 s'")
    engine.task(DIAMOND)
    assert ear.heard() == []
    other.rollback()
    engine.task(DIAMOND)
    assert ear.heard() == [("tasker_work", "default")]


def test_equal_notifications_of_one_transaction_arrive_once(engine: Engine, ear: Ear) -> None:
    """PostgreSQL folds equal payloads of a transaction: a listener must never count them."""
    with engine.conn.transaction():
        for _ in range(3):
            rest(engine)
            engine.task(DIAMOND)
    assert ear.heard() == [("tasker_work", "default")]
    for _ in range(3):
        rest(engine)
        engine.task(DIAMOND)
    assert ear.heard() == [("tasker_work", "default")] * 3


def test_ready_steps_are_signalled_when_results_free_them(engine: Engine, ear: Ear) -> None:
    engine.task(DIAMOND)
    (top,) = engine.claim(engine.worker())
    engine.complete(top)
    rest(engine)
    ear.heard()
    engine.orchestrate()
    assert ear.heard() == [("tasker_work", "default")]


def test_a_lost_notification_loses_no_work(engine: Engine, ear: Ear) -> None:
    """Switched off altogether, everything still runs: polling is the truth."""
    engine.one("select tasker.set_namespace_notifications('default', 'off')")
    task = engine.task(DIAMOND)
    engine.finish(engine.worker())
    assert engine.state(task) == "complete"
    assert ear.heard() == []


def test_a_mode_is_one_of_four_and_a_namespace_must_exist(rules: Engine) -> None:
    with refused("TK404"):
        rules.one("select tasker.set_namespace_notifications('nowhere', 'all')")
    with refused("TK400"):
        rules.one("select tasker.set_namespace_notifications('default', 'everything')")
