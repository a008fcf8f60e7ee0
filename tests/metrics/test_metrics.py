"""Metrics of seeds 002 and 003: they say what the logs say, over the whole log and over a period."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict

import pytest
from psycopg.types.json import Jsonb

from tests.cli.conftest import Cli
from tests.kernel.engine import DIAMOND, Engine, Row, chain, refused
from tests.workflow.engine import wait_until

EVER = "-infinity"


def visits(engine: Engine) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Stays in states, from the export: (lifecycle, state) -> (seconds, next state)."""
    found: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for line in engine.values("select tasker.export_transitions()"):
        if line["from_state"] is not None:
            stay = line["metadata"]["duration_seconds"], line["to_state"]
            found[line["lifecycle"], line["from_state"]].append(stay)
    return found


def percentile(values: list[float], share: float) -> float:
    """As percentile_cont defines it."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def test_transition_counts(history: Engine) -> None:
    expected = Counter(
        (line["lifecycle"], line["from_state"], line["trigger"], line["to_state"])
        for line in history.values("select tasker.export_transitions()")
    )
    for source in ("tasker.metrics_transition_counts", f"tasker.metrics_transition_counts('{EVER}')"):
        rows = history.rows(f"select * from {source}")
        assert {tuple(row.values())[:4]: row["transitions"] for row in rows} == expected
    assert history.rows("select * from tasker.metrics_transition_counts(clock_timestamp())") == []


def test_time_in_state(history: Engine) -> None:
    expected = visits(history)
    rows = history.rows("select * from tasker.metrics_time_in_state")
    assert {(row["lifecycle"], row["state"]) for row in rows} == set(expected)
    for row in rows:
        seconds = [stay for stay, _ in expected[row["lifecycle"], row["state"]]]
        assert row["visits"] == len(seconds)
        assert row["avg_seconds"] == pytest.approx(statistics.fmean(seconds))
        assert row["p50_seconds"] == pytest.approx(percentile(seconds, 0.5))
        assert row["p90_seconds"] == pytest.approx(percentile(seconds, 0.9))
        assert row["p99_seconds"] == pytest.approx(percentile(seconds, 0.99))
        assert row["max_seconds"] == pytest.approx(max(seconds))


def test_the_table_of_states(history: Engine) -> None:
    """Seed 002, State Metrics: average duration, success rate, common next state, for every state there is."""
    rows = {(row["lifecycle"], row["state"]): row for row in history.rows("select * from tasker.metrics_states")}
    assert set(rows) == {
        (row["lifecycle"], row["state"]) for row in history.rows("select * from tasker.lifecycle_states")
    }
    for key, stays in visits(history).items():
        row = rows[key]
        assert row["visits"] == len(stays)
        assert row["avg_seconds"] == pytest.approx(statistics.fmean(seconds for seconds, _ in stays))
        counts = Counter(state for _, state in stays)
        assert counts[row["common_next_state"]] == max(counts.values())
    # the rows of the page's own table that have one fixed value
    assert (rows["execution.task", "COMPLETED"]["success_rate"], rows["execution.task", "FAILED"]["success_rate"]) == (
        1,
        0,
    )
    assert rows["execution.task", "COMPLETED"]["common_next_state"] is None
    assert rows["execution.task", "IN_PROGRESS"]["common_next_state"] == "VALIDATING"
    assert rows["execution.task", "VALIDATING"]["success_rate"] == 1
    running = Counter(state for _, state in visits(history)["execution.task", "IN_PROGRESS"])
    assert rows["execution.task", "IN_PROGRESS"]["success_rate"] == pytest.approx(
        running["VALIDATING"] / running.total()
    )
    assert rows["execution.task", "TIMEOUT"]["success_rate"] is None, "never left, and not an end"


def test_a_period_reads_its_pages_only(engine: Engine) -> None:
    """A BRIN tells which pages of the log belong to a period."""
    worker = engine.worker()
    for _ in range(30):
        engine.task([{"name": f"s{n}"} for n in range(40)])
    engine.finish(worker)
    engine.run("vacuum analyze tasker.workflow_step_transitions")
    engine.run("set enable_seqscan = off")  # so small a log is read whole otherwise
    plan = str(
        engine.one(
            "explain (format json) select count(*) from tasker.workflow_step_transitions"
            " where created_at >= now() - interval '1 s'"
        )
    )
    assert "workflow_step_transitions_created_at_idx" in plan


def test_rejections(engine: Engine) -> None:
    worker = engine.worker()
    engine.task(chain("a"))
    (claimed,) = engine.claim(worker)
    late: Row = {"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": "00000000-0000-7000-8000-000000000000"}
    unknown: Row = {"step_uuid": "00000000-0000-7000-8000-000000000000", "claim_uuid": late["claim_uuid"]}
    engine.report(late, late, unknown)
    rows = engine.rows("select * from tasker.metrics_rejections")
    assert [tuple(row.values()) for row in rows] == [
        ("TK412", "stale_claim", "step", 2), ("TK404", "not_found", "step", 1),
    ]  # fmt: skip
    assert engine.rows("select * from tasker.metrics_rejections(clock_timestamp())") == []


def test_idempotency(engine: Engine) -> None:
    task = engine.task(chain("a"))
    for _ in range(4):
        engine.one("select tasker.cancel_task(%s, 'no need', 'ada', 'r1')", task)
    (row,) = engine.rows("select * from tasker.metrics_idempotency")
    assert row == {"endpoint": "cancel_task", "requests": 1, "hits": 3, "hit_rate": 0.75}


def test_queues(engine: Engine) -> None:
    engine.task([{"name": f"s{n}"} for n in range(3)], namespace="mine")
    engine.task([{"name": "pressed", "requires": ["press"]}], namespace="mine")
    engine.run("select pg_sleep(1.1)")
    rows = engine.rows("select namespace, requires, depth, oldest_seconds from tasker.metrics_queues")
    found = {(row["namespace"], *row["requires"]): row for row in rows if row["namespace"] in (None, "mine")}
    assert {queue: row["depth"] for queue, row in found.items()} == {(None,): 0, ("mine",): 3, ("mine", "press"): 1}
    assert found[None,]["oldest_seconds"] == 0
    assert found["mine",]["oldest_seconds"] >= 1  # how much more depends on the machine
    assert found["mine", "press"]["oldest_seconds"] >= 1
    engine.finish(engine.worker())
    assert engine.one("select sum(depth) from tasker.metrics_queues where namespace = 'mine' and requires = '{}'") == 0


def waits(engine: Engine) -> set[tuple[str, str, str, int]]:
    rows = engine.rows("select * from tasker.metrics_waits")
    assert all(row["oldest_seconds"] >= 0 for row in rows)
    return {(row["waits_for"], row["name"], row["namespace"], row["steps"]) for row in rows}


def test_waits(engine: Engine) -> None:
    """What no free worker could change is told by what it is; what waits no longer is not, whatever rows are left."""
    engine.one("select tasker.register_template(%s)", Jsonb({"name": "child", "steps": [{"name": "inner"}]}))
    engine.one("select tasker.configure_breaker('anvil', 1, '1 hour')")
    assert waits(engine) == set()
    parent = engine.task([{"name": "sub", "workflow": {"name": "child"}}])
    told = {"event": "paid", "value": "7", "timeout_seconds": 600, "on_timeout": "fail"}
    engine.task([{"name": f"told{n}", "wait_for": told} for n in range(2)], namespace="shop")
    rare = engine.task([{"name": "rare", "handler": "engrave"}])
    held = engine.task([{"name": "pressed", "handler": "press", "tool": "anvil"}])
    engine.rows("select tasker.record_breaker_result('anvil', false)")
    engine.one("select tasker.ensure_namespace('tight')")
    engine.rows("select tasker.set_limit('namespace', 'tight', 1)")
    tight = engine.task([{"name": f"fits{n}", "handler": "press"} for n in range(2)], namespace="tight")
    worker = engine.one("select tasker.register_worker('w', p_handlers => array['press', 'inner'])")
    engine.orchestrate()
    claimed = sorted(claimed["name"].rstrip("01") for claimed in engine.claim(worker))
    assert claimed == ["fits", "inner"]
    assert waits(engine) == {
        ("workflow", "child", "default", 1), ("event", "paid", "shop", 2),
        ("handler", "engrave", "default", 1), ("breaker", "anvil", "default", 1),
        ("limit", "namespace tight", "tight", 1),
    }  # fmt: skip
    engine.shift_clock("1 minute")
    assert engine.one("select min(oldest_seconds) from tasker.metrics_waits") >= 60

    for task in (parent, rare, held, tight):
        engine.one("select tasker.cancel_task(%s, 'not needed', 'ada')", task)
    assert waits(engine) == {("event", "paid", "shop", 2)}
    engine.one("select tasker.emit_event('paid', '7', p_namespace => 'shop')")
    engine.orchestrate()
    assert waits(engine) == set()


def test_a_step_that_is_held_back_again_waits_on(engine: Engine) -> None:
    """Its age is not that of the last cooldown: a breaker that stays open for an hour shows an hour."""
    engine.one("select tasker.configure_breaker('anvil', 1, '400 ms')")
    engine.task([{"name": f"pressed{n}", "handler": "anvil"} for n in range(2)])
    engine.rows("select tasker.record_breaker_result('anvil', false)")
    worker = engine.worker()
    assert engine.claim(worker) == []

    def tried() -> bool:
        engine.tick()
        return len(engine.claim(worker)) == 1

    wait_until(tried, "the cooldown is over: one is tried, the other held back again")
    beyond_its_state = engine.one(
        "select w.oldest_seconds - extract(epoch from tasker.clock() - s.state_since)"
        " from tasker.metrics_waits w, tasker.step_overview s where w.waits_for = 'breaker' and s.state = 'enqueued'"
    )
    assert beyond_its_state > -0.1


def test_workers(engine: Engine) -> None:
    engine.task(DIAMOND)
    worker = engine.one("select tasker.register_worker('w', p_max_concurrent => 4)")
    (claimed,) = engine.claim(worker)
    (row,) = engine.rows("select * from tasker.metrics_workers")
    assert (row["name"], row["capacity"], row["held_steps"], row["utilisation"]) == ("w", 4, 1, 0.25)
    assert row["phase"] == "busy"
    assert 0 <= row["seconds_since_heartbeat"] < 10
    engine.report({"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": claimed["claim_uuid"]})
    engine.finish(worker)
    engine.one("select tasker.shutdown_worker(%s)", worker)
    assert engine.rows("select * from tasker.metrics_workers") == []


def test_step_durations(engine: Engine) -> None:
    worker = engine.worker()
    engine.task(
        [
            {"name": "small", "handler": "h"},
            {"name": "large", "handler": "h"},
            {"name": "broken", "handler": "h", "max_attempts": 1},
        ]
    )
    claimed = {step["name"]: step for step in engine.claim(worker)}
    reports: list[Row] = [
        {"result": {"exit_code": 0, "output_size_bytes": 12345}, "execution_time_ms": 40},
        {"result": "x" * 98, "execution_time_ms": 7},
        {"success": False, "error": {"message": "it broke", "exit_code": 3}, "execution_time_ms": 1},
    ]
    engine.report(
        *(
            {"step_uuid": claimed[name]["workflow_step_uuid"], "claim_uuid": claimed[name]["claim_uuid"], **report}
            for name, report in zip(("small", "large", "broken"), reports, strict=True)
        )
    )
    rows = {row["name"]: row for row in engine.rows("select * from tasker.metrics_step_durations")}
    assert {
        name: (row["success"], row["execution_duration_ms"], row["output_size_bytes"], row["exit_code"], row["attempt"])
        for name, row in rows.items()
    } == {
        "small": (True, 40, 12345, 0, 1),
        "large": (True, 7, 100, None, 1),
        "broken": (False, 1, None, 3, 1),
    }
    assert all(row["validation_duration_ms"] is None and row["total_duration_ms"] >= 0 for row in rows.values())


def test_step_durations_with_validation(engine: Engine) -> None:
    worker = engine.worker()
    engine.task([{"name": "a", "acceptance": [{"type": "command", "command": "true"}]}], vocabulary="execution")
    (claimed,) = engine.claim(worker)
    engine.complete(claimed)
    engine.run("select pg_sleep(0.05)")
    engine.one("select tasker.report_validation(%s, %s, true)", claimed["workflow_step_uuid"], claimed["claim_uuid"])
    (row,) = engine.rows("select * from tasker.metrics_step_durations")
    assert row["validation_duration_ms"] >= 50
    assert row["total_duration_ms"] >= row["validation_duration_ms"]


def test_what_a_worker_reports_badly_breaks_no_metric(engine: Engine) -> None:
    worker = engine.worker()
    engine.task(chain("a"))
    (claimed,) = engine.claim(worker)
    engine.complete(claimed, {"exit_code": "nought", "output_size_bytes": [1]})
    (row,) = engine.rows("select * from tasker.metrics_step_durations")
    assert (row["exit_code"], row["output_size_bytes"]) == (None, 49)


VIEWS = [
    "metrics_state_visits", "metrics_transition_counts", "metrics_time_in_state", "metrics_states", "metrics_rejections",
    "metrics_idempotency", "metrics_queues", "metrics_waits", "metrics_workers", "metrics_step_durations",
]  # fmt: skip


def test_who_may_read_metrics(history: Engine) -> None:
    views = history.values(
        "select relname from pg_class where relnamespace = 'tasker'::regnamespace and relkind = 'v' and relname like 'metrics%'"
    )
    assert sorted(views) == sorted(VIEWS)
    for role in ("tasker_monitor", "tasker_operator", "tasker_auditor", "tasker_client", "tasker_worker"):
        with history.conn.transaction(force_rollback=True):
            history.run(f"set local role {role}")
            for query in (*(f"select * from tasker.{view}" for view in VIEWS), "select tasker.prometheus_metrics()"):
                if role in ("tasker_client", "tasker_worker"):
                    with refused("42501"), history.conn.transaction():
                        history.rows(query)
                else:
                    history.rows(query)


def test_the_command(lived: str, history: Engine, run_cli: Cli) -> None:
    tables = run_cli("--json", "metrics", "--last", "1 day", PGTASKER_DSN=lived).json
    assert set(tables) == {
        "states", "time in state", "transitions", "rejected transitions", "idempotency", "queues", "waits", "workers",
    }  # fmt: skip
    assert len(tables["time in state"]) == len(visits(history))
    printed = run_cli("metrics", PGTASKER_DSN=lived).stdout
    for heading in tables:
        assert f"\n{heading}\n" in printed
    assert run_cli("metrics", "--last", "a while", PGTASKER_DSN=lived, expect=1).stdout == ""
