"""Limits: so many at once, so many in a time, for a tool, a namespace or a template."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, report_of, step
from tests.workflow.fixtures import OpenEngine


def limit(engine: Engine, name: str = "press", scope: str = "tool", **fields: Any) -> UUID:
    uuid: UUID = engine.call("set_limit", p_scope=scope, p_name=name, **fields)
    return uuid


def flow(count: int, tool: str | None = "press", name: str = "flow", **fields: Any) -> Row:
    return graph(*(step(f"s{n}", tool=tool, **fields) for n in range(count)), name=name)


def overview(engine: Engine, name: str = "press") -> Row:
    return engine.row("select * from tasker.limit_overview where name = %s", name)


def test_so_many_run_at_once(engine: Engine) -> None:
    limit(engine, p_concurrency=3)
    task = engine.create(flow(10))
    first = engine.claim()
    assert [claimed["name"] for claimed in first] == ["s0", "s1", "s2"]
    assert engine.claim() == []
    assert {s["attempts"] for s in engine.steps(task).values()} == {0, 1}, "who waits uses up no attempt"
    assert engine.queued() == [], "and stands in no queue"
    shown = overview(engine)
    assert (shown["running"], shown["waiting"], shown["concurrency"]) == (3, 7, 3)
    engine.check()
    assert engine.table("recover") == [], "what waits is not lost"
    engine.complete(first[:1])
    assert [claimed["name"] for claimed in engine.claim()] == ["s3"], "the one that waits longest is next"
    assert engine.claim() == []
    assert engine.drain() == 0
    engine.check()
    engine.complete(first[1:])
    engine.settle()
    assert [claimed["name"] for claimed in engine.claim()] == ["s4", "s5"]


def test_everything_gets_done_in_order(engine: Engine) -> None:
    limit(engine, p_concurrency=2)
    task = engine.create(flow(25))
    engine.drain(limit=2)
    started = "select s.name from tasker.workflow_steps s order by s.last_attempted_at, s.ordinal"
    assert engine.column(started) == [f"s{n}" for n in range(25)]
    assert engine.state(task) == "complete"
    shown = overview(engine)
    assert (shown["running"], shown["reserved"], shown["waiting"]) == (0, 0, 0)
    engine.check()


def test_a_rate_lets_so_many_start_in_any_stretch_of_its_time(engine: Engine) -> None:
    limit(engine, p_rate=2, p_per="1 minute")
    engine.worker(p_heartbeat_interval="1 hour")
    engine.create(flow(5))
    engine.complete(engine.claim())
    engine.settle()
    assert engine.claim() == []
    shown = overview(engine)
    assert (shown["started"], shown["waiting"]) == (2, 3)
    assert shown["next_start_at"] is not None
    engine.shift_clock("59 s")
    engine.settle()
    assert engine.claim() == []
    engine.shift_clock("61 s")
    engine.settle()
    assert [claimed["name"] for claimed in engine.claim(lease="1 hour")] == ["s2", "s3"]
    engine.shift_clock("130 s")
    engine.settle()
    assert [claimed["name"] for claimed in engine.claim()] == ["s4"]


@pytest.mark.parametrize(("scope", "name"), [("tool", "press"), ("namespace", "default"), ("template", "flow")])
def test_each_scope(engine: Engine, scope: str, name: str) -> None:
    engine.call("ensure_namespace", p_namespace="default")
    limit(engine, name, scope, p_concurrency=1)
    engine.create(flow(3))
    engine.create(flow(2, tool="drill", name="other"), p_namespace="elsewhere")
    assert sorted(claimed["name"] for claimed in engine.claim()) == ["s0", "s0", "s1"]


def test_who_waits_holds_up_nobody_else(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.create(graph(*(step(f"s{n}", tool="press") for n in range(20)), step("free")))
    assert len(engine.claim(1)) == 1
    assert [claimed["name"] for claimed in engine.claim(1)] == ["free"]


def test_a_bad_limit_is_refused(engine: Engine) -> None:
    for fields in ({}, {"p_concurrency": 0}, {"p_rate": 1, "p_per": "0 s"}, {"p_rate": 20_000}):
        with pytest.raises(psycopg.Error) as refused:
            limit(engine, **fields)
        assert refused.value.sqlstate == "TK400"
    with pytest.raises(psycopg.Error) as refused:
        limit(engine, scope="moon", p_concurrency=1)
    assert refused.value.sqlstate == "TK400"
    with pytest.raises(psycopg.Error) as refused:
        limit(engine, "nowhere", "namespace", p_concurrency=1)
    assert refused.value.sqlstate == "TK404"
    with pytest.raises(psycopg.Error) as refused:
        engine.call("remove_limit", p_scope="tool", p_name="press")
    assert refused.value.sqlstate == "TK404"


# -- every way by which a step comes to a worker and leaves it ---------------------------------------------------------


def test_a_step_that_is_handed_over_with_a_report_needs_a_slot_too(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.create(graph(step("a"), step("b", "a", tool="press"), step("c", "a", tool="press"), step("d", "a")))
    (first,) = engine.claim()
    _, claims = engine.report_and_claim([report_of(first)])
    assert sorted(claimed["name"] for claimed in claims) == ["b", "d"]
    assert engine.claim() == []
    assert overview(engine)["running"] == 1
    (second,) = (claimed for claimed in claims if claimed["name"] == "b")
    _, claims = engine.report_and_claim([report_of(second)])
    assert claims == [], "it stands in its queue, and waits for its turn like any other"
    assert [claimed["name"] for claimed in engine.claim()] == ["c"]
    engine.check()


def test_a_chain_under_a_limit_of_one_goes_from_hand_to_hand(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.create(graph(step("a", tool="press"), step("b", "a", tool="press")))
    _, claims = engine.report_and_claim([report_of(engine.claim()[0])])
    assert [claimed["name"] for claimed in claims] == ["b"]
    engine.check()


@pytest.mark.parametrize(
    "how", ["fails", "its lease ends", "its step is cancelled", "its task is cancelled", "it is resolved"]
)
def test_a_slot_is_given_back_whatever_ends_the_attempt(engine: Engine, how: str) -> None:
    limit(engine, p_concurrency=1)
    engine.worker(p_heartbeat_interval="1 hour")
    task = engine.create(graph(step("a", tool="press", max_attempts=1, on_failure="continue")))
    engine.create(graph(step("b", tool="press"), name="next"))
    (held,) = engine.claim()
    assert engine.claim() == []
    if how == "fails":
        engine.fail([held])
    elif how == "its lease ends":
        engine.shift_clock("31 s")
        engine.tick()
    elif how == "its step is cancelled":
        engine.call("cancel_step", p_step_uuid=held["workflow_step_uuid"], **BY)
    elif how == "its task is cancelled":
        engine.call("cancel_task", p_task_uuid=task, **BY)
    else:
        engine.call("resolve_step", p_step_uuid=held["workflow_step_uuid"], **BY)
    assert [claimed["name"] for claimed in engine.claim(lease="1 hour")] == ["b"]
    assert overview(engine)["running"] == 1
    engine.check()


def test_a_retry_takes_a_slot_again(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    task = engine.create(flow(3, max_attempts=3))
    seen: list[tuple[str, int]] = []

    def fail_once(claimed: Row) -> Row:
        seen.append((claimed["name"], claimed["attempt"]))
        return {"success": claimed["attempt"] > 1, "category": "transient"}

    engine.drain(fail_once)
    assert engine.state(task) == "complete"
    assert sorted(seen) == [(name, attempt) for name in ("s0", "s1", "s2") for attempt in (1, 2)]
    assert overview(engine)["running"] == 0
    engine.check()


@pytest.mark.parametrize("vocabulary", ["tasker", "orchestration", "pipeline", "execution", "supervision"])
def test_every_vocabulary(engine: Engine, vocabulary: str) -> None:
    limit(engine, p_concurrency=2)
    task = engine.create(graph(*(step(f"s{n}", tool="press") for n in range(7)), vocabulary=vocabulary))
    most: list[int] = []

    def look(claimed: Row) -> Row:
        most.append(engine.one("select count(*) from tasker.workflow_steps where claim_uuid is not null"))
        return {"result": 1}

    engine.drain(look)
    assert engine.task(task)["phase"] == "succeeded"
    assert max(most) == 2
    assert overview(engine)["running"] == 0
    engine.check()


def test_a_cancelled_step_leaves_the_line(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    task = engine.create(flow(4))
    first = engine.claim()
    engine.call("cancel_step", p_step_uuid=engine.steps(task)["s1"]["workflow_step_uuid"], **BY)
    assert overview(engine)["waiting"] == 2
    engine.complete(first)
    assert [claimed["name"] for claimed in engine.claim()] == ["s2"]


def test_what_is_reserved_for_a_step_that_nobody_claims_goes_to_another(engine: Engine) -> None:
    engine.worker(p_heartbeat_interval="1 hour")
    limit(engine, p_concurrency=1)
    engine.create(flow(1))
    engine.create(flow(1, name="north"), p_namespace="north")
    first = engine.claim(namespaces=["default"])
    assert len(first) == 1
    assert engine.claim(namespaces=["north"]) == []
    engine.create(flow(1, name="again"))
    assert engine.claim(namespaces=["default"]) == []
    engine.complete(first)
    engine.settle()
    assert overview(engine)["reserved"] == 1, "for the step in north, which came first"
    assert engine.claim(namespaces=["default"]) == []
    engine.shift_clock("31 s")
    engine.settle()
    assert len(engine.claim(namespaces=["default"], lease="1 hour")) == 1
    assert engine.claim(namespaces=["north"]) == [], "it has lost what it did not use, and keeps its place"
    assert overview(engine)["waiting"] == 1
    engine.check()


def test_a_paused_namespace_keeps_nobody_out(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.create(flow(1))
    engine.create(flow(1, name="north"), p_namespace="north")
    first = engine.claim(namespaces=["default"])
    assert engine.claim(namespaces=["north"]) == []
    engine.create(flow(1, name="again"))
    assert engine.claim(namespaces=["default"]) == []
    engine.call("pause_namespace", p_namespace="north", **BY)
    engine.complete(first)
    engine.settle()
    second = engine.claim(namespaces=["default"])
    assert len(second) == 1
    engine.call("resume_namespace", p_namespace="north", **BY)
    engine.complete(second)
    assert len(engine.claim(namespaces=["north"])) == 1


def test_priority_is_a_head_start(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    first_task = engine.create(flow(2))
    first = engine.claim()
    engine.create(flow(1, name="urgent"), p_priority=5)
    assert engine.claim() == []
    engine.complete(first)
    (claimed,) = engine.claim()
    assert claimed["task_uuid"] != first_task
    engine.complete([claimed])
    assert [c["name"] for c in engine.claim()] == ["s1"]


# -- changing a limit --------------------------------------------------------------------------------------------------


def test_what_runs_already_counts_when_a_limit_is_set(engine: Engine) -> None:
    engine.create(flow(6))
    running = engine.claim(3)
    limit(engine, p_concurrency=2)
    assert overview(engine)["running"] == 3
    assert engine.claim() == []
    engine.complete(running[:1])
    assert engine.claim() == []
    engine.complete(running[1:2])
    assert len(engine.claim()) == 1
    engine.check()


def test_what_is_being_reported_when_a_limit_is_set_keeps_no_slot(engine: Engine, open_engine: OpenEngine) -> None:
    engine.create(flow(2))
    one, other = engine.claim()
    reporter = open_engine()
    reporter.begin()
    reporter.report([report_of(one)])
    limit(engine, p_concurrency=1)
    reporter.commit()
    assert overview(engine)["running"] == 1, "the other one counts"
    engine.complete([other])
    assert overview(engine)["running"] == 0
    engine.check()


def test_a_limit_is_lowered_while_more_are_running(engine: Engine) -> None:
    uuid = limit(engine, p_concurrency=8)
    engine.create(flow(40))
    running = engine.claim()
    assert len(running) == 8
    assert limit(engine, p_concurrency=3) == uuid
    most = 8
    while running:
        engine.complete([running.pop()])
        most = max(3, most - 1)
        running += engine.claim()
        assert len(running) <= most
        assert overview(engine)["running"] == len(running)
    assert engine.drain() == 0
    assert engine.column("select number from tasker.limit_slots order by 1") == [1, 2, 3]
    assert engine.column("select distinct free_at::text from tasker.limit_slots") == ["-infinity"]
    engine.check()


def test_a_limit_is_raised_and_taken_away(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.create(flow(10))
    assert len(engine.claim()) == 1
    limit(engine, p_concurrency=4)
    assert len(engine.claim()) == 3
    engine.call("remove_limit", p_scope="tool", p_name="press")
    assert len(engine.claim()) == 6
    assert engine.rows("select * from tasker.limit_slots") == []
    engine.check()


def test_a_rate_is_lowered(engine: Engine) -> None:
    engine.worker(p_heartbeat_interval="1 hour")
    limit(engine, p_rate=4, p_per="1 minute")
    engine.create(flow(10))
    for seconds in (0, 10, 20, 30):
        engine.shift_clock(f"{seconds} s")
        assert len(engine.claim(1, lease="1 hour")) == 1
    limit(engine, p_rate=2, p_per="1 minute")
    engine.settle()
    for seconds, starts in ((61, 0), (79, 0), (81, 1), (89, 0), (91, 1), (92, 0)):
        engine.shift_clock(f"{seconds} s")
        engine.settle()
        assert len(engine.claim(lease="1 hour")) == starts, seconds


def test_a_clock_that_is_set_back_stops_no_rate(engine: Engine) -> None:
    engine.worker(p_heartbeat_interval="1 hour")
    limit(engine, p_rate=1, p_per="1 minute")
    engine.create(flow(3))
    engine.shift_clock("5 hours")
    assert len(engine.claim(lease="1 day")) == 1
    assert engine.claim() == []
    engine.shift_clock("0 s")
    engine.create(flow(1, name="next"))
    assert [claimed["name"] for claimed in engine.claim()] == ["s1"], "whoever comes hands on what has become free"


def test_a_limit_leaves_events(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    limit(engine, p_concurrency=2)
    engine.call("remove_limit", p_scope="tool", p_name="press")
    assert engine.column(
        "select event from tasker.audit_events where subject = 'tool/press' order by audit_event_uuid"
    ) == [
        "limit_added",
        "limit_changed",
        "limit_deleted",
    ]


# -- several limits ----------------------------------------------------------------------------------------------------


def test_all_slots_or_none(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.call("ensure_namespace", p_namespace="north")
    limit(engine, "north", "namespace", p_concurrency=2)
    engine.create(flow(1, name="default"))
    (first,) = engine.claim(namespaces=["default"])
    engine.create(flow(3, name="pressing"), p_namespace="north")
    engine.create(flow(2, tool="drill", name="drilling"), p_namespace="north")
    assert engine.claim(namespaces=["north"]) != [], "who waits for the press takes no place of the namespace"
    assert overview(engine, "north")["running"] == 2
    engine.complete([first])
    engine.drain()
    assert {t["state"] for t in engine.rows("select state from tasker.task_overview")} == {
        "complete"
    } or engine.claim() == []
    engine.check()


def test_nobody_starves_between_two_limits(engine: Engine) -> None:
    """Slots of the two never come free at the same time, and others are after each of them."""
    limit(engine, p_concurrency=1)
    engine.call("ensure_namespace", p_namespace="north")
    limit(engine, "north", "namespace", p_concurrency=1)
    engine.create(flow(40, name="pressing"))
    engine.create(flow(40, tool="drill", name="drilling"), p_namespace="north")
    held = {claimed["namespace"]: claimed for claimed in engine.claim(2)}
    assert set(held) == {"default", "north"}
    both = engine.create(flow(1, name="both"), p_namespace="north", p_priority=9)
    engine.claim()
    for _ in range(30):
        for namespace in ("default", "north"):
            engine.complete([held[namespace]])
            engine.settle()
            claims = engine.claim()
            if any(claimed["task_uuid"] == both for claimed in claims):
                return
            held |= {claimed["namespace"]: claimed for claimed in claims}
    pytest.fail("it never got both")


def test_it_says_why_a_step_waits(engine: Engine) -> None:
    limit(engine, p_concurrency=1, p_rate=5, p_per="1 minute")
    task = engine.create(flow(3))
    engine.claim()
    (why,) = (
        reason["why"] for reason in engine.call("explain_task", p_task_uuid=task)["reasons"] if reason["step"] == "s2"
    )
    assert why == "waits for tool press, of which 1 run at once and 5 start in 00:01:00: it is number 2 in line"


# -- what holds it together --------------------------------------------------------------------------------------------


def test_the_consistency_check_finds_lost_slots_and_lines(engine: Engine) -> None:
    uuid = limit(engine, p_concurrency=2)
    task = engine.create(flow(5))
    engine.claim()
    waiting = engine.steps(task)["s4"]["workflow_step_uuid"]
    engine.rows("delete from tasker.timers where limit_uuid = %s", uuid)
    engine.rows("insert into tasker.limit_slots values (%s, 'concurrency', 3, %s)", uuid, waiting)
    found = {row["finding"]: row for row in engine.table("check_consistency")}
    assert set(found) == {"line_without_timer", "slot_of_idle_step"}
    for row in found.values():
        engine.rows(row["proposed_call"])
    engine.check()


def test_steps_that_were_left_to_workers_with_their_handler_need_slots_too(engine: Engine) -> None:
    limit(engine, p_concurrency=1)
    engine.worker("able", p_handlers=["h"])
    engine.worker("unable", p_handlers=["x"])
    task = engine.create(flow(4, handler="h"))
    assert engine.claim(worker="unable") == []
    for _ in range(4):
        held = engine.claim(worker="able")
        assert len(held) == 1
        assert engine.claim(worker="unable") == []
        assert engine.claim(worker="able") == []
        engine.complete(held)
        assert engine.claim(worker="unable") == [], "the next one is left to others again"
        engine.settle()
    assert engine.state(task) == "complete"
    engine.check()
