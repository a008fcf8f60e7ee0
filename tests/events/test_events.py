"""Steps that wait for events from outside: whoever commits last, nothing is missed and the first to tell it wins."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.vocabularies.lab import VOCABULARIES
from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine

WAIT = {"event": "approved", "key": "$.context.order"}


def create(engine: Engine, *steps: Row, vocabulary: str = "tasker", **arguments: Any) -> UUID:
    if vocabulary == "supervision":
        engine.call("register_worker", p_name="supervised", p_vocabulary="supervision")
    return engine.create(graph(*steps, vocabulary=vocabulary), **{"p_context": {"order": "order-7"}, **arguments})


def emit(engine: Engine, key: str = "order-7", payload: Any = None, event: str = "approved", **arguments: Any) -> Row:
    names = "".join(f", {name} => %s" for name in arguments)
    return engine.row(
        f"select * from tasker.emit_event(%s, %s, %s{names})",
        event, key, json.dumps({"by": "anna"} if payload is None else payload), *arguments.values(),
    )  # fmt: skip


def waits(engine: Engine) -> list[Row]:
    return engine.rows(
        "select s.name, w.event, w.key, w.ended_at is null as open, w.timed_out from tasker.event_waits w"
        " join tasker.workflow_steps s using (workflow_step_uuid) order by w.since, s.name"
    )


def run(engine: Engine) -> dict[str, Any]:
    """Work until there is nothing to do; the inputs that each step got."""
    seen: dict[str, Any] = {}

    def handler(claimed: Row) -> Row:
        seen[claimed["name"]] = claimed["inputs"]
        return {"result": claimed["name"]}

    engine.drain(handler)
    return seen


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("first", ["step", "event"])
def test_a_step_goes_on_with_the_payload_whichever_came_first(engine: Engine, vocabulary: str, first: str) -> None:
    if first == "event":
        engine.call("ensure_namespace", p_namespace="default")
        assert emit(engine)["outcome"] == "emitted"
    task = create(engine, step("ask"), step("ship", "ask", wait_for=WAIT), step("tell", "ship"), vocabulary=vocabulary)
    if first == "step":
        assert run(engine) == {"ask": {}}
        assert [(w["name"], w["key"], w["open"]) for w in waits(engine)] == [("ship", "order-7", True)]
        assert not engine.task(task)["is_terminal"]
        engine.check()
        assert emit(engine)["outcome"] == "emitted"
    seen = run(engine)
    assert seen["ship"] == {"ask": "ask", "approved": {"by": "anna"}}
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()
    engine.check_order()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_first_step_waits_too_and_one_without_handler_is_the_wait_itself(engine: Engine, vocabulary: str) -> None:
    task = create(
        engine, step("paid", wait_for=WAIT, handler=None), step("ship", "paid"), vocabulary=vocabulary
    )  # fmt: skip
    assert run(engine) == {}
    engine.check()
    emit(engine, payload=["any", "json"])
    assert run(engine) == {"ship": {"paid": ["any", "json"]}}
    assert engine.task(task)["phase"] == "succeeded"
    assert engine.steps(task)["paid"]["result"] == ["any", "json"]
    engine.check()


def test_the_first_to_tell_it_wins(engine: Engine) -> None:
    create(engine, step("a"))
    first = emit(engine, p_requested_by="anna")
    again = emit(engine)
    other = emit(engine, payload={"by": "eve"}, p_requested_by="eve")
    assert [t["outcome"] for t in (first, again, other)] == ["emitted", "repeated", "differs"]
    assert {json.dumps(t["payload"]) for t in (first, again, other)} == {'{"by": "anna"}'}
    assert other["message"] == (
        f"event approved of order-7 was emitted already, at {first['emitted_at']:%Y-%m-%d %H:%M:%S.%f}".rstrip("0")
        + f"{other['message'][other['message'].index('+') : other['message'].index(' by ')]} by anna, with another payload, which stays"
    )
    (stored,) = engine.rows("select * from tasker.get_event('approved', 'order-7')")
    assert (stored["payload"], stored["emitted_by"]) == ({"by": "anna"}, "anna")
    assert engine.rows("select * from tasker.get_event('approved', 'order-8')") == []
    (audited,) = engine.rows("select * from tasker.audit_events where event = 'event_emitted'")
    assert (audited["subject"], audited["requested_by"]) == ("approved/order-7", "anna")
    assert audited["detail"]["payload_hash"] and "by" not in audited["detail"]
    with pytest.raises(psycopg.Error, match="append-only"):
        engine.rows("update tasker.events set payload = '1'")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("select tasker.emit_event('', 'k')", "TK400"),
        ("select tasker.emit_event('e', null)", "TK400"),
        ("select tasker.emit_event('e', repeat('k', 501))", "TK400"),
        ("select tasker.emit_event('e', 'k', p_keep => '1 second')", "TK400"),
        ("select tasker.emit_event('e', 'k', p_namespace => 'nowhere')", "TK404"),
    ],
)
def test_what_is_no_event_is_refused(engine: Engine, statement: str, code: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.rows(statement)
    assert refused.value.sqlstate == code
    assert refused.value.diag.message_hint


# ------------------------------------------------------------------------------------------------------------- races


def test_two_emitters_at_once_one_wins_and_both_are_told(engine: Engine, open_engine: OpenEngine) -> None:
    task = create(engine, step("ship", wait_for=WAIT))
    other = open_engine()
    engine.begin()
    assert emit(engine)["outcome"] == "emitted"
    late = Background(lambda: emit(other, payload={"by": "eve"}))
    engine.wait_until_blocked(other)
    engine.commit()
    assert late.result()["outcome"] == "differs"
    assert run(engine)["ship"] == {"approved": {"by": "anna"}}
    assert engine.task(task)["phase"] == "succeeded"


def test_an_event_that_was_never_committed_was_not_told(engine: Engine, open_engine: OpenEngine) -> None:
    task = create(engine, step("ship", wait_for=WAIT))
    other = open_engine()
    engine.begin()
    emit(engine)
    engine.rollback()
    assert run(engine) == {}
    assert emit(other, payload={"by": "eve"})["outcome"] == "emitted"
    assert run(engine)["ship"] == {"approved": {"by": "eve"}}
    assert engine.task(task)["phase"] == "succeeded"


def test_a_step_that_begins_to_wait_while_the_event_is_being_told(engine: Engine, open_engine: OpenEngine) -> None:
    """A long transaction tells it, a step comes to wait and is looked for in vain, then the transaction commits."""
    other = open_engine()
    engine.call("ensure_namespace", p_namespace="default")
    other.begin()
    emit(other)
    task = create(engine, step("ship", wait_for=WAIT))  # waits for nobody
    assert run(engine) == {}
    engine.check()
    other.commit()
    assert run(engine)["ship"] == {"approved": {"by": "anna"}}
    assert engine.task(task)["phase"] == "succeeded"


def test_an_event_that_is_told_while_a_step_begins_to_wait(engine: Engine, open_engine: OpenEngine) -> None:
    """The other way round: the wait commits last."""
    other = open_engine()
    engine.call("ensure_namespace", p_namespace="default")
    engine.begin()
    task = create(engine, step("ship", wait_for=WAIT))
    emit(other)  # waits for nobody either
    other.settle()
    engine.commit()
    assert run(engine)["ship"] == {"approved": {"by": "anna"}}
    assert engine.task(task)["phase"] == "succeeded"


def test_an_emitter_that_holds_a_task_and_one_that_is_at_work_do_not_deadlock(
    engine: Engine, open_engine: OpenEngine
) -> None:
    """Telling takes no lock of a task, so it may be done by a transaction that holds one."""
    task = create(engine, step("a"), step("ship", wait_for=WAIT), step("bill", wait_for={**WAIT, "event": "paid"}))
    other = open_engine()
    engine.begin()
    engine.call("cancel_step", p_step_uuid=engine.steps(task)["a"]["workflow_step_uuid"], **BY)
    other.begin()
    emit(other)
    emit(engine, event="paid")
    other.commit()
    engine.commit()
    assert set(run(engine)) == {"ship", "bill"}
    engine.check()


def test_many_emitters_and_many_waiters_at_once(engine: Engine, open_engine: OpenEngine) -> None:
    engine.call("ensure_namespace", p_namespace="default")
    keys = [f"order-{n}" for n in range(40)]
    tellers, makers, drivers = open_engine(), open_engine(), [open_engine(), open_engine()]

    def tell() -> None:
        for key in keys:
            emit(tellers, key)

    def make() -> None:
        for key in keys:
            create(makers, step("ship", wait_for=WAIT), p_context={"order": key})

    in_parallel([tell, make, *(d.settle for d in drivers for _ in range(1))])
    run(engine)
    assert engine.column("select distinct phase from tasker.task_overview") == ["succeeded"]
    assert engine.one("select count(*) from tasker.task_overview") == len(keys)
    engine.check()


def test_a_thousand_steps_wait_for_one_event(engine: Engine) -> None:
    """So many as one call moves go on at once; the others are looked for again."""
    engine.call("register_template", p_template=graph(step("ship", wait_for={"event": "open", "value": "market"})))
    engine.rows(
        "select tasker.create_tasks((select jsonb_agg(jsonb_build_object('name', 'flow')) from generate_series(1, 1200)))"
    )
    emit(engine, "market", event="open")
    counts = [engine.orchestrate(100)["steps_enqueued"] for _ in range(3)]
    assert counts[0] == 1000 and sum(counts) == 1200
    engine.check()


def test_several_events_in_one_transaction(engine: Engine) -> None:
    task = create(
        engine, step("a", wait_for=WAIT), step("b", wait_for={**WAIT, "event": "paid"}),
        step("c", "a", "b", wait_for={**WAIT, "event": "sent"}),
    )  # fmt: skip
    engine.begin()
    for event in ("sent", "paid", "approved"):
        emit(engine, event=event, payload=event)
    engine.commit()
    seen = run(engine)
    assert seen == {"a": {"approved": "approved"}, "b": {"paid": "paid"}, "c": {"a": "a", "b": "b", "sent": "sent"}}
    assert engine.task(task)["phase"] == "succeeded"


def test_the_look_for_an_event_may_be_lost_and_seen_twice(engine: Engine, open_engine: OpenEngine) -> None:
    """Whoever takes the message dies before the commit: it is there again. Seen twice it does nothing twice."""
    task = create(engine, step("ship", wait_for=WAIT))
    emit(engine)
    engine.begin()
    engine.orchestrate()
    engine.rollback()
    engine.rows("""select tasker.look_for_events('default', '[["approved", "order-7"]]')""")
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    assert engine.task(task)["phase"] == "succeeded"
    engine.check_completed_once(1)
    engine.check()


def test_a_message_that_somebody_took_out_of_the_queue_is_sent_again(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for=WAIT))
    engine.settle()
    emit(engine)
    engine.check()
    engine.rows("select pgmq.purge_queue('orchestration_step_results')")
    found = "select finding from tasker.check_consistency()"
    assert engine.column(found) == ["waits_for_what_is_there"]
    assert [r["problem"] for r in engine.table("recover", p_dry_run=False, **BY)] == ["waits_for_what_is_there"]
    assert engine.column(found) == []
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    assert engine.task(task)["phase"] == "succeeded"


# ---------------------------------------------------------------------------------------------------------- timeouts


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("on_timeout", [None, "fail", "skip", "run"])
def test_what_does_not_come_in_time(engine: Engine, vocabulary: str, on_timeout: str | None) -> None:
    if on_timeout == "skip" and vocabulary == "pipeline":
        pytest.skip("it has no state for a step that is left out")
    wait = {**WAIT, "timeout_seconds": 3600, **({"on_timeout": on_timeout} if on_timeout else {})}
    task = create(engine, step("ship", wait_for=wait), step("tell", "ship"), vocabulary=vocabulary)
    assert run(engine) == {}
    engine.shift_clock("59 minutes")
    assert run(engine) == {}
    engine.shift_clock("61 minutes")
    seen = run(engine)
    steps = engine.steps(task)
    if on_timeout == "skip":
        assert seen == {"tell": {"ship": None}}
        assert engine.one("select left_out from tasker.workflow_steps where task_uuid = %s and name = 'ship'", task)
    elif on_timeout == "run":
        assert seen == {"ship": {"approved": None}, "tell": {"ship": "ship"}}
    else:
        assert seen == {}
        assert steps["ship"]["last_error"] == {
            "type": "event_timeout", "message": "event approved of order-7 did not come within 3600 s",
        }  # fmt: skip
    if on_timeout in ("skip", "run"):
        assert engine.task(task)["phase"] == "succeeded"
    engine.check()
    emit(engine)  # too late: nothing comes of it
    assert run(engine) == {}
    engine.check()


@pytest.mark.parametrize("handler", ["ship", None])
def test_a_trial_of_a_circuit_does_not_run_what_never_got_its_event(engine: Engine, handler: str | None) -> None:
    """Seed 002 tries a failed step once more when its cooldown is over."""
    wait = {**WAIT, "timeout_seconds": 60}
    task = create(engine, step("ship", wait_for=wait, handler=handler), vocabulary="execution")
    ship = engine.steps(task)["ship"]["workflow_step_uuid"]
    engine.shift_clock("2 minutes")
    engine.settle()
    assert engine.walk(ship)[-1] == "CIRCUIT_OPEN"
    for minutes in (4, 6):
        engine.shift_clock(f"{minutes} minutes")
        assert run(engine) == {}
    assert "HALF_OPEN" in engine.walk(ship)
    assert engine.steps(task)["ship"]["last_error"]["type"] == "event_timeout"
    engine.check()


def test_an_event_that_came_at_the_last_moment_has_come(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for={**WAIT, "timeout_seconds": 60}))
    emit(engine)
    engine.shift_clock("2 minutes")
    engine.tick()  # before anybody orchestrates
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_step_that_failed_for_want_of_its_event_waits_anew_when_it_is_retried(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for={**WAIT, "timeout_seconds": 60}))
    engine.shift_clock("2 minutes")
    engine.settle()
    assert engine.states(task) == {"ship": "error"}
    assert engine.state(task) == "blocked_by_failures"
    engine.call("retry_step", p_step_uuid=engine.steps(task)["ship"]["workflow_step_uuid"], **BY)
    assert run(engine) == {}
    assert [w["open"] for w in waits(engine)] == [True]
    engine.check()
    engine.shift_clock("150 seconds")  # the timer of the first wait is not that of the second
    assert run(engine) == {}
    emit(engine)
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    engine.check()


@pytest.mark.parametrize("run_when", ["any_satisfied", "all_finished"])
def test_a_step_with_a_rule_of_its_own_waits_all_the_same(engine: Engine, run_when: str) -> None:
    """Dependencies that end while it waits do not outweigh the event."""
    names = ["a", "b", "c"]
    task = create(engine, *map(step, names), step("ship", *names, run_when=run_when, wait_for=WAIT))
    for claimed in engine.claim():
        engine.complete([claimed], claimed["name"])
        engine.settle()
        engine.check()
    assert (len(waits(engine)), engine.states(task)["ship"]) == (1, "pending")
    emit(engine)
    assert set(run(engine)) == {"ship"}
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


def test_a_cleanup_does_not_start_while_another_step_waits(engine: Engine) -> None:
    task = create(
        engine, step("bad", max_attempts=1), step("ship", wait_for=WAIT), step("behind", "bad", "ship"),
        step("clean", "behind", run_when="all_finished"),
    )  # fmt: skip
    engine.fail(engine.claim(), "permanent")
    engine.settle()
    assert engine.states(task)["clean"] == "pending"
    engine.check()
    emit(engine)
    assert list(run(engine)) == ["ship", "clean"]
    engine.check()


# ------------------------------------------------------------------------------------------- failure, ends, retention


def test_every_attempt_gets_the_payload_and_waits_no_more(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for=WAIT, max_attempts=3))
    emit(engine)
    inputs: list[Any] = []

    def handler(claimed: Row) -> Row:
        inputs.append(claimed["inputs"])
        return {"success": False} if len(inputs) < 3 else {"result": 1}

    engine.drain(handler)
    assert inputs == [{"approved": {"by": "anna"}}] * 3
    assert engine.task(task)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("how", ["task", "step", "give_up", "timeout"])
def test_the_wait_of_what_ends_ends_with_it(engine: Engine, how: str) -> None:
    flow = graph(step("ship", wait_for={**WAIT, "timeout_seconds": 7200}), step("other", max_attempts=1))
    task = engine.create({**flow, "timeout_seconds": 3600}, p_context={"order": "order-7"})
    ship = engine.steps(task)["ship"]["workflow_step_uuid"]
    assert len(waits(engine)) == 1
    if how == "task":
        engine.call("cancel_task", p_task_uuid=task, **BY)
    elif how == "step":
        engine.call("resolve_step", p_step_uuid=ship, **BY)
    elif how == "timeout":
        engine.shift_clock("2 hours")
        engine.tick()
    else:
        engine.fail(engine.claim(), "permanent")
        engine.settle()
        assert engine.state(task) == "waiting_for_dependencies", "the event may still come: it is not blocked"
        engine.call("cancel_step", p_step_uuid=ship, **BY)
        assert engine.state(task) == "blocked_by_failures"
        engine.call("give_up_task", p_task_uuid=task, **BY)
    assert waits(engine) == []
    engine.check()
    emit(engine)
    engine.shift_clock("5 hours")
    engine.settle()
    assert engine.walk(ship)[-1] in ("cancelled", "resolved_manually", "pending")
    engine.check()


def test_a_task_that_is_reset_waits_anew(engine: Engine) -> None:
    task = engine.create(
        {**graph(step("ship", wait_for=WAIT)), "timeout_seconds": 3600}, p_context={"order": "order-7"}
    )
    engine.shift_clock("2 hours")
    engine.settle()
    assert (engine.state(task), waits(engine)) == ("error", [])
    emit(engine)
    engine.call("reset_task", p_task_uuid=task, **BY)
    assert run(engine)["ship"] == {"approved": {"by": "anna"}}
    engine.check()


def test_a_failure_beside_a_wait_blocks_the_task_only_when_the_wait_is_over(engine: Engine) -> None:
    task = create(engine, step("bad", max_attempts=1), step("ship", wait_for={**WAIT, "timeout_seconds": 60}))
    engine.fail(engine.claim(), "permanent")
    engine.settle()
    assert engine.state(task) == "waiting_for_dependencies"
    assert engine.rows("select * from tasker.find_stuck('0 s')") == []
    assert engine.table("recover", p_dry_run=True) == []
    engine.check()
    emit(engine)
    assert set(run(engine)) == {"ship"}
    assert engine.state(task) == "blocked_by_failures"
    engine.check()


def test_a_resumed_task_finds_the_event_that_the_first_one_had(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for=WAIT), step("tell", "ship", wait_for={**WAIT, "event": "sent"}))
    emit(engine)
    engine.settle()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    new = engine.call("resume_task", p_task_uuid=task, **BY)
    assert set(run(engine)) == {"ship"}
    emit(engine, event="sent", payload=1)
    assert run(engine) == {"tell": {"ship": "ship", "sent": 1}}
    assert engine.task(new)["phase"] == "succeeded"
    engine.check()


@pytest.mark.parametrize("context", [{}, {"order": None}, {"order": {"id": 7}}, {"order": ""}, {"order": "x" * 501}])
def test_a_key_that_is_not_there_fails_the_step_in_words(engine: Engine, context: Any) -> None:
    task = create(engine, step("ship", wait_for=WAIT), p_context=context)
    engine.settle()
    assert engine.steps(task)["ship"]["last_error"] == {
        "type": "no_event_key",
        "message": 'it is to wait for event approved, and strict $."context"."order" gives no text, number or boolean of 1 to 500 characters',
    }
    engine.check()


def test_keys_of_results_numbers_and_fixed_ones(engine: Engine) -> None:
    create(
        engine, step("ask"), step("a", "ask", wait_for={"event": "e", "key": "$.inputs.ask.id"}),
        step("b", wait_for={"event": "e", "value": 7}),
    )  # fmt: skip
    engine.drain(lambda c: {"result": {"id": 41.5}})
    assert sorted(w["key"] for w in waits(engine)) == ["41.5", "7"]


def test_events_are_forgotten_when_their_time_is_over_and_nobody_waited(engine: Engine) -> None:
    create(engine, step("ship", wait_for=WAIT))
    emit(engine)
    emit(engine, "order-8", p_keep="1 hour")
    emit(engine, "order-9", p_keep=None)
    engine.settle()
    engine.shift_clock("91 days")
    engine.tick()
    assert engine.column("select key from tasker.events order by key") == ["order-7", "order-9"]
    assert emit(engine, "order-8", payload=2)["outcome"] == "emitted", "it may be told again"
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    engine.rows("select tasker.set_retention_policy('all', '1 hour', '1 day', 'test')")
    engine.rows("delete from tasker.test_clock")
    engine.rows("alter table tasker.tasks disable trigger all")
    engine.rows("update tasker.tasks set created_at = created_at - interval '2 hours', started_at = started_at - interval '2 hours',"
                " completed_at = completed_at - interval '2 hours'")  # fmt: skip
    engine.rows("alter table tasker.tasks enable trigger all")
    assert engine.row("select * from tasker.archive_tasks('all', 'ada')")["tasks"] == 1
    (archived,) = engine.column("select content -> 'waits' -> 0 from tasker.archived_tasks")
    assert (archived["event"], archived["payload"]) == ("approved", {"by": "anna"})
    engine.shift_clock("91 days")
    engine.tick()
    assert engine.column("select key from tasker.events order by key") == ["order-8", "order-9"]


def test_an_event_about_to_be_forgotten_is_kept_by_the_step_that_gets_it(
    engine: Engine, open_engine: OpenEngine
) -> None:
    other = open_engine()
    engine.call("ensure_namespace", p_namespace="default")
    emit(engine, p_keep="1 hour")
    engine.shift_clock("2 hours")
    engine.begin()
    task = create(engine, step("ship", wait_for=WAIT))
    other.tick()
    engine.commit()
    other.tick()
    assert run(engine) == {"ship": {"approved": {"by": "anna"}}}
    assert engine.task(task)["phase"] == "succeeded"


# --------------------------------------------------------------------------------------------------- what people read


def test_why_a_task_waits(engine: Engine) -> None:
    task = create(engine, step("ship", wait_for={**WAIT, "timeout_seconds": 60, "on_timeout": "skip"}))
    told = engine.call("explain_task", p_task_uuid=task)
    assert told["summary"] == "1 step(s) wait for events."
    (reason,) = told["reasons"]
    wait = engine.row("select since, due_at from tasker.event_waits")
    assert reason["why"].startswith("waits for event approved of order-7 since ")
    assert "until" in reason["why"] and reason["why"].endswith("then it is left out")
    assert reason["call"] == "select * from tasker.emit_event('approved', 'order-7', '{...}', 'default')"
    assert wait["due_at"] > wait["since"]
    assert engine.steps(task)["ship"]["waits_for"] == "event approved of order-7"
    assert engine.rows("select * from tasker.find_stuck('0 s')") == []


@pytest.mark.parametrize(
    ("wait_for", "path", "message"),
    [
        (5, "", "wait_for must be an object"),
        ({"value": "k"}, ".event", "an event has a name of 1 to 200 characters"),
        ({"event": "", "value": "k"}, ".event", "an event has a name of 1 to 200 characters"),
        ({"event": "a", "value": "k"}, ".event", "the step also depends on 'a'"),
        ({"event": "e"}, "", "give key, an SQL/JSON path over context and inputs, or value, the key itself"),
        ({"event": "e", "value": "k", "key": "$.x"}, "", "give key, an SQL/JSON path over context and inputs, or value, the key itself"),
        ({"event": "e", "key": "$.x >"}, ".key", "a key is an SQL/JSON path"),
        ({"event": "e", "value": {}}, ".value", "a value is a string of 1 to 500 characters, or a number"),
        ({"event": "e", "value": "k", "timeout_seconds": 0}, ".timeout_seconds", "must be a number from 0.001 to 31536000"),
        ({"event": "e", "value": "k", "timeout_seconds": "soon"}, ".timeout_seconds", "must be a number from 0.001 to 31536000"),
        ({"event": "e", "value": "k", "on_timeout": "run"}, ".on_timeout", "on_timeout must be fail, skip or run, and belongs to timeout_seconds"),
        ({"event": "e", "value": "k", "timeout_seconds": 1, "on_timeout": "x"}, ".on_timeout", "on_timeout must be fail, skip or run, and belongs to timeout_seconds"),
        ({"event": "e", "value": "k", "until": 1}, ".until", "unknown field; known are event, key, value, timeout_seconds, on_timeout"),
    ],
)  # fmt: skip
def test_what_can_not_be_waited_for_is_refused(engine: Engine, wait_for: Any, path: str, message: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(step("a"), step("b", "a", wait_for=wait_for)))
    assert refused.value.sqlstate == "TK400"
    problems = json.loads(refused.value.diag.message_detail or "{}")["problems"]
    assert [p["path"] for p in problems if p["message"].startswith(message)] == [f"steps[1].wait_for{path}"], problems


def test_pipeline_leaves_nothing_out(engine: Engine) -> None:
    wait = {"event": "e", "value": "k", "timeout_seconds": 1, "on_timeout": "skip"}
    with pytest.raises(psycopg.Error) as refused:
        engine.create(graph(step("a", wait_for=wait), vocabulary="pipeline"))
    assert "vocabulary pipeline has no state for a step that is left out" in str(refused.value.diag.message_detail)
    engine.call("register_template", p_template=graph(step("a", wait_for=wait), name="skipping"))
    with pytest.raises(psycopg.Error, match="and step a has a wait_for") as refused:
        engine.call("create_task", p_name="skipping", p_vocabulary="pipeline")
    assert refused.value.sqlstate == "TK400"
