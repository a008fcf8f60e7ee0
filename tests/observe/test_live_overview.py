"""live_overview: what happens now, at a cost that does not grow with what is over."""

from __future__ import annotations

import psycopg
import pytest

from bench import history
from bench.server import Database
from tests.conftest import TestServer
from tests.workflow.engine import Engine, Row, graph, step, wait_until
from tests.workflow.fixtures import on_one_server


def overview(engine: Engine, last: str = "1 hour") -> Row:
    found: Row = engine.one("select tasker.live_overview(%s::interval)", last)
    return found


def counts(found: Row, kind: str) -> dict[str, int]:
    return {row["phase"]: row["entities"] for row in found["counts"] if row["kind"] == kind}


def rates(found: Row, kind: str) -> dict[str, float]:
    return {row["phase"]: row["per_second"] for row in found["rates"] if row["kind"] == kind}


def test_work_by_phase_queues_workers_and_breakers(engine: Engine) -> None:
    assert {name: overview(engine)[name] for name in ("counts", "rates", "workers", "breakers", "overdue_timers")} == {
        "counts": [], "rates": [], "workers": [], "breakers": [], "overdue_timers": 0,
    }  # fmt: skip
    engine.worker(p_max_concurrent=8)
    for _ in range(100):
        engine.create(graph(step("a"), step("b", "a")))
    (held, *_) = engine.claim(limit=5)
    engine.complete([held])
    engine.rows("select tasker.configure_breaker('press', 1), tasker.configure_breaker('lathe', 1)")
    engine.rows("select tasker.record_breaker_result('press', false)")

    found = overview(engine)
    assert counts(found, "step") == {"pending": 100, "queued": 95, "running": 4, "reported_success": 1}
    assert counts(found, "task") == {"running": 100}
    # a hundred an hour is 0.0 a second
    assert rates(found, "step")["queued"] == pytest.approx(100 / 3600, abs=0.05)
    (queue,) = [row for row in found["queues"] if row["namespace"] == "default"]
    assert (queue["depth"], queue["requires"]) == (95, [])
    (worker,) = found["workers"]
    assert (worker["held_steps"], worker["capacity"], worker["phase"]) == (4, 8, "busy")
    (breaker,) = found["breakers"]
    assert (breaker["tool"], breaker["phase"]) == ("press", "open")
    assert rates(overview(engine, "10 seconds"), "step")["queued"] <= 10.0

    engine.rows("update tasker.timers set due_at = clock_timestamp() - interval '1 minute'")
    assert overview(engine)["overdue_timers"] == engine.one("select count(*) from tasker.timers")


def test_what_it_can_not_look_back_for_is_refused(engine: Engine) -> None:
    for last in ("0 s", "2 hours", None):
        with pytest.raises(psycopg.Error) as refused:
            engine.one("select tasker.live_overview(%s::interval)", last)
        assert refused.value.sqlstate == "TK400"


@on_one_server
def test_what_is_over_is_not_read(engine: Engine, server: TestServer) -> None:
    """Counted by the server, beside 20,000 finished steps with 102,400 log rows."""
    history.fill(Database(server.server, engine.connection.info.dbname), 20_000)
    for _ in range(3):
        engine.create(graph(step("a"), step("b", "a")))
    engine.claim()
    found = overview(engine, "1 second")
    assert not found["catching_up"] and counts(found, "step")["running"] == 3
    wait_until(
        lambda: engine.one(
            "select max(created_at) < clock_timestamp() - interval '1 s' from tasker.workflow_step_transitions"
        ),
        "a second without a transition",
    )

    def read() -> dict[str, int]:
        rows = engine.rows(
            "select relname, (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where schemaname = 'tasker'"
        )
        return {row["relname"]: row["rows"] for row in rows}

    before = read()
    found = overview(engine, "1 second")
    rows = {name: count - before.get(name, 0) for name, count in read().items()}
    assert counts(found, "step") == {"pending": 3, "running": 3, "succeeded": 20_000}
    logs = ("tasks", "task_transitions", "workflow_step_transitions", "workflow_steps", "changes")
    # the BRIN index leads to whole ranges of pages
    assert max(rows.get(name, 0) for name in logs) < 10_000, rows
