"""Circuit breakers of seeds 001 and 002: per tool, three states, one trial, nothing burnt while they are open."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, graph, in_parallel, report_of, step
from tests.workflow.fixtures import OpenEngine, on_one_server

TOOL = "anvil"


def configure(engine: Engine, threshold: int = 3, cooldown: str = "60 s", **fields: Any) -> None:
    engine.worker(p_heartbeat_interval="1 hour")  # the clock is moved a lot here
    engine.call("configure_breaker", p_tool=TOOL, p_failure_threshold=threshold, p_cooldown=cooldown, **fields)


def state(engine: Engine) -> str:
    answer: str = engine.one("select tasker.breaker_state(%s)", TOOL)
    return answer


def walk(engine: Engine) -> list[str]:
    return engine.column("select to_state from tasker.circuit_breaker_transitions order by sort_key")


def record(engine: Engine, success: bool, message: str = "x", **fields: Any) -> str:
    answer: str = engine.call(
        "record_breaker_result",
        p_tool=TOOL,
        p_success=success,
        p_error=None if success else {"message": message},
        **fields,
    )
    return answer


def permit(engine: Engine, lease: str = "60 s") -> Row:
    return engine.row("select * from tasker.breaker_permit(%s, %s::interval)", TOOL, lease)


def open_by_steps(engine: Engine, failures: int = 3) -> None:
    """One task whose steps fail until the breaker opens."""
    engine.create(graph(*(step(f"f{n}", tool=TOOL, max_attempts=1) for n in range(failures)), name="breaks"))
    engine.fail(engine.claim(failures))
    engine.settle()
    assert state(engine) == "OPEN"


def test_so_many_failures_in_a_row_open_it(engine: Engine) -> None:
    configure(engine, threshold=5)
    assert [record(engine, success=False) for _ in range(4)] == ["CLOSED"] * 4
    assert record(engine, success=True) == "CLOSED", "a success counts from the beginning again"
    assert [record(engine, success=False) for _ in range(5)] == ["CLOSED"] * 4 + ["OPEN"]
    assert walk(engine) == ["CLOSED", "OPEN"]


def test_the_failures_of_steps_count(engine: Engine) -> None:
    configure(engine)
    open_by_steps(engine)
    engine.check()


def test_what_the_engine_ends_says_nothing_of_the_tool(engine: Engine) -> None:
    """A step that fails by its condition never called its tool."""
    configure(engine, threshold=1)
    task = engine.create(graph(step("a", tool=TOOL, condition="$.inputs.a == 1", when_unmet="fail")))
    engine.settle()
    assert engine.states(task) == {"a": "error"}
    assert state(engine) == "CLOSED"
    engine.check()


def test_an_open_breaker_holds_steps_back_and_burns_no_attempt(engine: Engine) -> None:
    configure(engine)
    open_by_steps(engine)
    task = engine.create(graph(step("a", tool=TOOL), step("b", tool=TOOL), step("free")))
    assert [claimed["name"] for claimed in engine.claim(1, lease="1 hour")] == ["free"], (
        "what has another tool is not held up"
    )
    assert engine.claim() == []
    assert {s["attempts"] for name, s in engine.steps(task).items() if name != "free"} == {0}
    engine.check()
    assert engine.table("recover") == [], "what is held back is not lost"
    engine.shift_clock("30 s")
    engine.settle()
    assert engine.claim() == [], "the cooldown is not over"
    engine.shift_clock("61 s")
    engine.settle()
    assert state(engine) == "HALF_OPEN"
    trial = engine.claim()
    assert len(trial) == 1
    engine.complete(trial)
    engine.settle()
    assert state(engine) == "CLOSED"
    assert len(engine.claim()) == 1, "the other one is let go at once"
    assert {s["attempts"] for s in engine.steps(task).values()} == {1}
    assert walk(engine) == ["CLOSED", "OPEN", "HALF_OPEN", "CLOSED"]
    engine.check()


def test_a_queue_full_of_held_back_steps_does_not_look_empty(engine: Engine) -> None:
    configure(engine)
    open_by_steps(engine)
    engine.create(graph(*(step(f"s{n}", tool=TOOL) for n in range(20)), step("free")))
    assert [claimed["name"] for claimed in engine.claim(1)] == ["free"]


@on_one_server
def test_fifty_workers_get_exactly_one_trial(engine: Engine, open_engine: OpenEngine) -> None:
    configure(engine)
    open_by_steps(engine)
    engine.create(graph(*(step(f"s{n}", tool=TOOL) for n in range(60))))
    assert engine.claim() == []
    engine.shift_clock("61 s")
    engine.settle()
    sessions = [open_engine() for _ in range(50)]
    for n, session in enumerate(sessions):
        session.worker(f"w{n}", p_heartbeat_interval="1 hour")
    claims = in_parallel([lambda s=s, n=n: s.claim(1, f"w{n}") for n, s in enumerate(sessions)])  # type: ignore[misc]
    assert sum(len(claimed) for claimed in claims) == 1
    engine.settle()
    assert engine.claim() == [], "nobody else while the trial runs"
    (trial,) = [claimed for batch in claims for claimed in batch]
    engine.complete([trial])
    engine.settle()
    assert state(engine) == "CLOSED"
    assert len(engine.claim(100)) == 59
    engine.check()


def test_a_trial_that_fails_opens_it_again(engine: Engine) -> None:
    configure(engine)
    open_by_steps(engine)
    engine.create(graph(step("a", tool=TOOL)))
    engine.shift_clock("61 s")
    engine.settle()
    engine.fail(engine.claim())
    engine.settle()
    assert walk(engine) == ["CLOSED", "OPEN", "HALF_OPEN", "OPEN"]


def test_a_trial_whose_worker_died_is_given_to_another(engine: Engine) -> None:
    """B65: half open for ever, since the probe never reported."""
    configure(engine)
    open_by_steps(engine)
    task = engine.create(graph(step("a", tool=TOOL), step("b", tool=TOOL)))
    engine.shift_clock("61 s")
    engine.settle()
    (lost,) = engine.claim(lease="10 s")
    engine.shift_clock("72 s")
    engine.settle()
    assert state(engine) == "OPEN", "a trial that was lost failed"
    engine.shift_clock("140 s")
    engine.settle()
    (trial,) = engine.claim()
    engine.complete([trial])
    engine.settle()
    assert state(engine) == "CLOSED"
    (refused,) = engine.complete([lost])
    assert refused["code"] == "TK412"
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_a_lost_permit_is_given_out_again(engine: Engine) -> None:
    configure(engine, threshold=1)
    record(engine, success=False)
    engine.shift_clock("61 s")
    first = permit(engine, "20 s")
    assert (first["allowed"], first["state"]) == (True, "HALF_OPEN")
    second = permit(engine)
    assert (second["allowed"], second["permit_uuid"]) == (False, None)
    assert second["retry_at"] is not None
    engine.shift_clock("82 s")
    third = permit(engine)
    assert third["allowed"]
    assert record(engine, success=True, p_permit_uuid=first["permit_uuid"]) == "HALF_OPEN", (
        "the lost one decides nothing"
    )
    assert record(engine, success=True, p_permit_uuid=third["permit_uuid"]) == "CLOSED"


@pytest.mark.parametrize("late", [True, False])
def test_late_results_of_older_calls_do_not_move_it(engine: Engine, late: bool) -> None:
    """B65: a call that was let in while it was closed reports while the trial runs."""
    configure(engine)
    engine.create(graph(step("old", tool=TOOL), name="old"))
    (old,) = engine.claim(lease="1 hour")
    open_by_steps(engine)
    engine.create(graph(step("a", tool=TOOL)))
    engine.shift_clock("61 s")
    engine.settle()
    (trial,) = engine.claim()
    engine.report([report_of(old, success=late)])
    engine.settle()
    assert state(engine) == "HALF_OPEN"
    assert record(engine, success=late) == "HALF_OPEN"
    engine.complete([trial])
    engine.settle()
    assert state(engine) == "CLOSED"


def test_the_same_error_again_and_again_opens_it_early(engine: Engine) -> None:
    """Seed 002, same error repeated > max_error_repeats 2: the third repetition is too often; other errors are not."""
    configure(engine, threshold=100, p_max_error_repeats=2)
    assert [record(engine, success=False, message=message) for message in "abcabab"] == ["CLOSED"] * 7
    assert [record(engine, success=False, message="z") for _ in range(4)] == ["CLOSED", "CLOSED", "CLOSED", "OPEN"]


def test_two_successes_close_it_where_two_are_asked_for(engine: Engine) -> None:
    configure(engine, threshold=1, p_success_threshold=2)
    record(engine, success=False)
    engine.create(graph(step("a", tool=TOOL), step("b", tool=TOOL), step("c", tool=TOOL)))
    assert engine.claim() == []
    engine.shift_clock("61 s")
    engine.settle()
    for expected in ("HALF_OPEN", "CLOSED"):
        trial = engine.claim()
        assert len(trial) == 1
        engine.complete(trial)
        engine.settle()
        assert state(engine) == expected
    assert len(engine.claim()) == 1


def test_a_reset_by_hand_lets_go_and_is_audited(engine: Engine) -> None:
    """Seed 001, Recovery 3."""
    configure(engine)
    open_by_steps(engine)
    engine.create(graph(step("a", tool=TOOL)))
    assert engine.claim() == []
    assert engine.call("reset_breaker", p_tool=TOOL, **BY) == "CLOSED"
    engine.settle()
    assert len(engine.claim()) == 1
    row = engine.row("select event, metadata from tasker.circuit_breaker_transitions where most_recent")
    assert row["event"] == "reset_circuit"
    assert row["metadata"]["reason"] == BY["p_reason"]
    assert row["metadata"]["requested_by"] == BY["p_requested_by"]
    assert row["metadata"]["manual"] is True
    with pytest.raises(psycopg.Error) as refused:
        engine.call("reset_breaker", p_tool=TOOL, **BY)
    assert refused.value.sqlstate == "TK409", "it is closed"
    with pytest.raises(psycopg.Error) as nameless:
        engine.call("reset_breaker", p_tool=TOOL, p_reason=None, p_requested_by=None)
    assert nameless.value.sqlstate == "TK400"


def test_outsiders_ask_for_a_permit_or_get_an_error(engine: Engine) -> None:
    configure(engine, threshold=1)
    assert engine.one("select tasker.breaker_allows(%s)", TOOL) is True
    record(engine, success=False)
    with pytest.raises(psycopg.Error) as refused:
        engine.one("select tasker.breaker_allows(%s)", TOOL)
    assert refused.value.sqlstate == "TK503"
    with pytest.raises(psycopg.Error) as unknown:
        engine.one("select tasker.breaker_allows('nothing')")
    assert unknown.value.sqlstate == "TK404"


@pytest.mark.parametrize(
    "fields",
    [
        {"p_failure_threshold": 0},
        {"p_success_threshold": 0},
        {"p_cooldown": "-1 s"},
        {"p_max_error_repeats": 0},
        {"p_tool": ""},
        {"p_failure_threshold": None},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(engine: Engine, fields: Row) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.call("configure_breaker", **{"p_tool": TOOL, **fields})
    assert refused.value.sqlstate == "TK400"


def test_settings_change_and_the_state_stays(engine: Engine) -> None:
    configure(engine, threshold=2)
    record(engine, success=False)
    record(engine, success=False)
    configure(engine, threshold=9, cooldown="5 s")
    assert state(engine) == "OPEN"
    assert engine.one("select failure_threshold from tasker.circuit_breakers") == 9


@pytest.mark.parametrize(
    "change",
    [
        "update tasker.circuit_breaker_transitions set to_state = 'CLOSED'",
        "delete from tasker.circuit_breaker_transitions",
        "truncate tasker.circuit_breaker_transitions",
        """insert into tasker.circuit_breaker_transitions (circuit_breaker_uuid, lifecycle, from_state, event, to_state, sort_key, most_recent)
           select circuit_breaker_uuid, lifecycle, 'CLOSED', 'success', 'HALF_OPEN', 2, false from tasker.circuit_breakers""",
    ],
    ids=["update", "delete", "truncate", "illegal"],
)
def test_the_log_takes_no_other_change(engine: Engine, change: str) -> None:
    configure(engine)
    with pytest.raises(psycopg.Error) as refused:
        engine.rows(change)
    assert (refused.value.sqlstate or "").startswith("TK")
    assert walk(engine) == ["CLOSED"]


@on_one_server
def test_two_outages_seen_from_two_namespaces_do_not_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    """A claim goes through the namespaces in any order; it must not wait for one breaker while it holds another."""
    for tool in ("first", "second"):
        engine.rows("select tasker.configure_breaker(%s, 1, '0 s')", tool)
    for n in range(40):
        for namespace, tool in (("north", "first"), ("south", "second")):
            engine.create(graph(step("a", tool=tool), name=f"{namespace}{n}"), p_namespace=namespace)
    for tool in ("first", "second"):
        engine.rows("select tasker.record_breaker_result(%s, false)", tool)
    sessions = [open_engine() for _ in range(8)]
    for n, session in enumerate(sessions):
        session.worker(f"w{n}", p_heartbeat_interval="1 hour")

    def play(session: Engine, name: str) -> None:
        for _ in range(40):
            session.fail(session.claim(5, name), retry_after=0)
            session.orchestrate()
            session.tick()

    in_parallel([lambda s=s, n=n: play(s, f"w{n}") for n, s in enumerate(sessions)])  # type: ignore[misc]
    engine.check()
