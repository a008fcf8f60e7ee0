"""Tasks of which there is to be one at a time, and starts that are pushed back."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


@pytest.fixture(autouse=True)
def flow(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))


def submit(engine: Engine, *requests: Row, **more: Any) -> list[tuple[UUID, str]]:
    rows = engine.table(
        "submit_tasks", p_requests=json.dumps([{"name": "flow", **request} for request in requests]), **more
    )
    return [(row["task_uuid"], row["outcome"]) for row in rows]


def one(engine: Engine, **request: Any) -> tuple[UUID, str]:
    ((task, outcome),) = submit(engine, {"unique_key": "k", **request})
    return task, outcome


def refusal(engine: Engine, **request: Any) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as caught:
        submit(engine, request)
    assert json.loads(caught.value.diag.message_detail or "")
    return caught.value.sqlstate, caught.value.diag.message_primary or ""


def now(engine: Engine) -> dt.datetime:
    return engine.one("select tasker.clock()")  # type: ignore[no-any-return]


def start_at(engine: Engine, task: UUID) -> dt.datetime:
    return engine.one("select start_at from tasker.tasks where task_uuid = %s", task)  # type: ignore[no-any-return]


def pushes(engine: Engine, task: UUID) -> list[Row]:
    return engine.rows(
        "select requested_by, detail from tasker.audit_events where event = 'task_pushed_back' and subject = %s order by audit_event_uuid",
        str(task),
    )


def count(engine: Engine) -> int:
    return engine.one("select count(*) from tasker.tasks")  # type: ignore[no-any-return]


def keep_a_day(engine: Engine) -> None:
    engine.rows("select tasker.set_retention_policy('day', '1 day', '7 years', 'a test')")


def archive(engine: Engine) -> int:
    """As if what has ended had done so two days ago."""
    engine.rows(
        "with ended as (select task_uuid from tasker.tasks where completed_at is not null order by task_uuid for update skip locked)"
        " update tasker.tasks t set created_at = t.created_at - interval '2 days', started_at = started_at - interval '2 days', completed_at = completed_at - interval '2 days'"
        " from ended where t.task_uuid = ended.task_uuid"
    )
    return engine.table("archive_tasks", p_policy="day", p_requested_by="ada")[0]["tasks"]  # type: ignore[no-any-return]


# -- while it runs


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_there_is_one_task_while_it_runs_and_then_another(engine: Engine, vocabulary: str) -> None:
    asked = {"unique_key": "k", "vocabulary": vocabulary}
    ((first, outcome),) = submit(engine, asked)
    assert outcome == "created"
    assert submit(engine, asked, {**asked, "context": {"n": 2}}) == [(first, "duplicate")] * 2
    assert engine.call("create_task", p_name="flow", p_unique_key="k", p_vocabulary=vocabulary) == first
    claims = engine.claim()
    assert submit(engine, asked) == [(first, "duplicate")]
    engine.complete(claims)
    engine.settle()
    ((second, outcome),) = submit(engine, asked)
    assert (second != first, outcome) == (True, "created")
    assert (
        engine.one(
            "select metadata ->> 'unique_key' from tasker.task_transitions where task_uuid = %s and sort_key = 1", first
        )
        == "k"
    )
    engine.check()


def test_other_keys_and_other_namespaces_are_other_tasks(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a"), namespace="other"))
    made = submit(
        engine, *({"unique_key": key, "namespace": place} for key in "kl" for place in ("default", "other")), {}
    )
    assert Counter(outcome for _, outcome in made) == {"created": 5}
    assert len({task for task, _ in made}) == 5


def test_a_task_that_was_cancelled_or_failed_stands_in_nobodys_way(engine: Engine) -> None:
    first, _ = one(engine)
    engine.call("cancel_task", p_task_uuid=first, **BY)
    second, outcome = one(engine)
    assert outcome == "created"
    engine.fail(engine.claim(), "permanent")
    engine.settle()
    assert one(engine) == (second, "duplicate"), "it is blocked, not over"
    engine.call("give_up_task", p_task_uuid=second, **BY)
    assert one(engine)[1] == "created"


def test_what_a_person_starts_again_does_not_ask_for_its_key(engine: Engine) -> None:
    first, _ = one(engine)
    engine.call("cancel_task", p_task_uuid=first, **BY)
    second, _ = one(engine)
    resumed = engine.call("resume_task", p_task_uuid=first, **BY)
    assert one(engine) == (second, "duplicate")
    assert engine.one("select unique_key from tasker.tasks where task_uuid = %s", resumed) is None


# -- within a window


def test_within_a_window_there_is_one_whatever_became_of_it(engine: Engine) -> None:
    first, _ = one(engine, unique_seconds=60)
    engine.drain()
    assert engine.state(first) == "complete"
    assert one(engine, unique_seconds=60) == (first, "duplicate")
    engine.shift_clock("59 s")
    assert one(engine, unique_seconds=60) == (first, "duplicate"), "the window is not pushed on by who asks"
    engine.shift_clock("61 s")
    second, outcome = one(engine, unique_seconds=60)
    assert outcome == "created"
    engine.shift_clock("122 s")
    assert one(engine) == (second, "duplicate"), "whoever asks says how: it still runs"
    assert one(engine, unique_seconds=60)[1] == "created"


# -- debounce


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_requests_push_the_start_back_and_the_newest_context_wins(engine: Engine, vocabulary: str) -> None:
    asked = {"debounce_seconds": 10, "vocabulary": vocabulary}
    first, outcome = one(engine, context={"n": 1}, requested_by="ada", **asked)
    assert outcome == "created" and engine.claim() == []
    assert start_at(engine, first) <= now(engine) + dt.timedelta(seconds=10)
    engine.shift_clock("8 s")
    assert one(engine, context={"n": 2}, requested_by="bob", **asked) == (first, "pushed_back")
    engine.shift_clock("12 s")
    engine.settle()
    assert engine.claim() == [], "its first timer came too early"
    at = start_at(engine, first)
    assert engine.tick()["next_due_at"] == at and engine.table("recover") == []
    (push,) = pushes(engine, first)
    assert push["requested_by"] == "bob" and dt.datetime.fromisoformat(push["detail"]["start_at"]) == at
    engine.shift_clock("19 s")
    engine.settle()
    (claimed,) = engine.claim()
    assert (claimed["task_uuid"], claimed["context"]) == (first, {"n": 2})
    second, outcome = one(engine, context={"n": 3}, **asked)
    assert (second != first, outcome) == (True, "created"), "what has started is left alone"
    assert len(pushes(engine, first)) == 1
    engine.check()


def test_it_starts_after_the_longest_wait_whoever_goes_on_asking(engine: Engine) -> None:
    asked = {"debounce_seconds": 10, "debounce_max_seconds": 25}
    first, _ = one(engine, **asked)
    began = start_at(engine, first) - dt.timedelta(seconds=10)
    for seconds in (9, 18, 24):
        engine.shift_clock(f"{seconds} s")
        engine.settle()
        assert one(engine, context={"at": seconds}, **asked) == (first, "pushed_back")
    assert start_at(engine, first) - began < dt.timedelta(seconds=25.5)
    engine.shift_clock("27 s")
    engine.settle()
    (claimed,) = engine.claim()
    assert claimed["context"] == {"at": 24}
    assert len(pushes(engine, first)) == 3


def test_a_shorter_debounce_does_not_bring_a_start_forward(engine: Engine) -> None:
    first, _ = one(engine, debounce_seconds=60)
    at = start_at(engine, first)
    assert one(engine, debounce_seconds=1) == (first, "pushed_back")
    assert start_at(engine, first) == at


def test_the_timeout_of_a_task_counts_from_the_start_that_was_pushed_back(engine: Engine) -> None:
    for vocabulary in ("tasker", "execution"):
        engine.call(
            "register_template", p_template=graph(step("a"), name=vocabulary, timeout_seconds=30, vocabulary=vocabulary)
        )
        engine.shift_clock("0 s")
        task, _ = one(engine, name=vocabulary, unique_key=vocabulary, debounce_seconds=20)
        for seconds in (18, 36):
            engine.shift_clock(f"{seconds} s")
            assert one(engine, name=vocabulary, unique_key=vocabulary, debounce_seconds=20) == (task, "pushed_back")
        engine.shift_clock("52 s")
        engine.settle()
        assert engine.task(task)["phase"] == "pending"
        engine.shift_clock("80 s")
        engine.settle()
        assert not engine.task(task)["is_terminal"]
        engine.shift_clock("90 s")
        engine.settle()
        assert engine.task(task)["is_terminal"]
    engine.check()


def test_another_workflow_does_not_push_back_a_task(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a"), name="other"))
    one(engine, debounce_seconds=60, context={"n": 1})
    code, message = refusal(engine, name="other", unique_key="k", debounce_seconds=60)
    assert code == "TK423" and "another workflow" in message
    engine.call("register_template", p_template=graph(step("a"), step("b"), version="2"))
    assert one(engine, debounce_seconds=60)[1] == "pushed_back", "a newer version does not stop it"


def test_what_waits_for_a_person_is_not_pushed(engine: Engine) -> None:
    first, _ = one(engine, start=False)
    assert one(engine, debounce_seconds=5) == (first, "duplicate")
    assert start_at(engine, first) is None


def test_a_start_that_was_planned_is_pushed_back_too(engine: Engine) -> None:
    at = now(engine) + dt.timedelta(seconds=5)
    first, _ = one(engine, start_at=at.isoformat())
    assert one(engine, debounce_seconds=60) == (first, "pushed_back")
    assert start_at(engine, first) > at + dt.timedelta(seconds=50)


def test_a_sensitive_context_is_replaced_where_nobody_reads_it(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a"), name="secret", sensitive=["card"]))
    asked = {"name": "secret", "debounce_seconds": 5}
    first, _ = one(engine, context={"card": "1111", "n": 1}, **asked)
    assert one(engine, context={"card": "2222", "n": 2}, **asked) == (first, "pushed_back")
    assert engine.task(first)["context"] == {"card": "[sensitive]", "n": 2}
    engine.shift_clock("6 s")
    engine.settle()
    (claimed,) = engine.claim()
    assert claimed["context"] == {"card": "2222", "n": 2}


def test_a_context_that_is_too_big_pushes_nothing_back(engine: Engine) -> None:
    engine.rows("update tasker.task_namespaces set payload_limit = 65536")
    first, _ = one(engine, debounce_seconds=5, context={"n": 1})
    assert refusal(engine, unique_key="k", debounce_seconds=5, context={"x": "y" * 70000})[0] == "TK413"
    assert engine.task(first)["context"] == {"n": 1} and pushes(engine, first) == []


# -- many in one call


def test_in_one_call_the_first_of_equal_keys_is_created(engine: Engine) -> None:
    made = submit(engine, *({"unique_key": f"k{n % 3}", "context": {"n": n}} for n in range(9)), {"context": {}})
    assert [outcome for _, outcome in made] == ["created"] * 3 + ["duplicate"] * 6 + ["created"]
    assert [task for task, _ in made[3:9]] == [task for task, _ in made[:3]] * 2
    assert engine.task(made[0][0])["context"] == {"n": 0}
    again = submit(engine, *({"unique_key": f"k{n % 4}"} for n in range(4)))
    assert [outcome for _, outcome in again] == ["duplicate"] * 3 + ["created"]
    assert count(engine) == 5
    engine.check()


def test_in_one_call_the_last_context_of_equal_debounced_keys_wins(engine: Engine) -> None:
    made = submit(engine, *({"unique_key": "k", "debounce_seconds": 5, "context": {"n": n}} for n in range(3)))
    assert Counter(outcome for _, outcome in made) == {"created": 1, "duplicate": 2}
    (task,) = {task for task, _ in made}
    assert engine.task(task)["context"] == {"n": 2}
    made = submit(engine, *({"unique_key": "k", "debounce_seconds": 5, "context": {"n": n}} for n in (3, 4)))
    assert made == [(task, "pushed_back")] * 2
    assert engine.task(task)["context"] == {"n": 4} and len(pushes(engine, task)) == 1


def test_in_one_call_a_key_is_asked_for_in_one_way(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as caught:
        submit(engine, {"unique_key": "k"}, {"unique_key": "k", "unique_seconds": 5})
    assert caught.value.sqlstate == "TK400" and count(engine) == 0


# -- beside idempotency keys and request ids


def test_an_idempotency_key_means_what_it_meant(engine: Engine) -> None:
    asked = {"idempotency_key": "i", "debounce_seconds": 5, "context": {"n": 1}}
    first, _ = one(engine, **asked)
    assert one(engine, **asked) == (first, "found"), "a repeated request pushes nothing back"
    assert pushes(engine, first) == []
    engine.shift_clock("6 s")
    engine.drain()
    assert one(engine, **asked) == (first, "found"), "though it is over"
    code, _ = refusal(engine, **{**asked, "context": {"n": 2}, "unique_key": "k"})
    assert code == "TK423"
    assert refusal(engine, idempotency_key="i", context={"n": 1})[0] == "TK423", "without the key: another request"
    # and it did not take the key from anybody
    assert one(engine, debounce_seconds=5)[1] == "created"
    assert one(engine, **asked) == (first, "found")


def test_a_request_that_created_nothing_uses_up_no_idempotency_key(engine: Engine) -> None:
    first, _ = one(engine)
    assert one(engine, idempotency_key="i") == (first, "duplicate")
    engine.drain()
    second, outcome = one(engine, idempotency_key="i")
    assert outcome == "created"
    engine.drain()
    assert one(engine, idempotency_key="i") == (second, "found")


def test_a_request_id_keeps_the_answer_whatever_it_was(engine: Engine) -> None:
    first, _ = one(engine, debounce_seconds=5)
    asked: list[Row] = [{"unique_key": "k", "debounce_seconds": 5, "tags": {"traceparent": "x"}}, {"unique_key": "l"}]
    answer = submit(engine, *asked, p_request_id="r")
    assert [outcome for _, outcome in answer] == ["pushed_back", "created"]
    asked[0]["tags"] = {"traceparent": "y"}
    assert submit(engine, *asked, p_request_id="r") == answer
    assert len(pushes(engine, first)) == 1
    with pytest.raises(psycopg.Error) as caught:
        submit(engine, asked[0], p_request_id="r")
    assert caught.value.sqlstate == "TK423"


# -- refused


@pytest.mark.parametrize(
    "request_",
    [
        {"unique_seconds": 5},
        {"debounce_seconds": 5},
        {"unique_key": ""},
        {"unique_key": 5},
        {"unique_key": "x" * 256},
        {"unique_key": "k", "unique_seconds": 0},
        {"unique_key": "k", "unique_seconds": "5"},
        {"unique_key": "k", "debounce_seconds": 1e9},
        {"unique_key": "k", "unique_seconds": 5, "debounce_seconds": 5},
        {"unique_key": "k", "debounce_max_seconds": 5},
        {"unique_key": "k", "debounce_seconds": 5, "debounce_max_seconds": 4},
        {"unique_key": "k", "debounce_seconds": 5, "start": False},
        {"unique_key": "k", "debounce_seconds": 5, "start_at": "2026-03-01T06:30:00Z"},
    ],
)
def test_what_can_not_be_asked_for_is_refused_in_words(engine: Engine, request_: Row) -> None:
    code, message = refusal(engine, **request_)
    assert code == "TK400" and ("unique" in message or "debounce" in message)
    assert count(engine) == 0 and engine.one("select count(*) from tasker.unique_keys") == 0


def test_null_is_as_good_as_nothing(engine: Engine) -> None:
    nothing = dict.fromkeys(["unique_key", "unique_seconds", "debounce_seconds", "debounce_max_seconds"])
    assert [outcome for _, outcome in submit(engine, nothing, nothing)] == ["created"] * 2


# -- races


@on_one_server
@pytest.mark.parametrize(
    "how", [{}, {"unique_seconds": 3600}, {"debounce_seconds": 60}], ids=["runs", "window", "debounce"]
)
def test_of_eight_callers_at_once_one_creates_the_task(engine: Engine, open_engine: OpenEngine, how: Row) -> None:
    sessions = [open_engine() for _ in range(8)]
    for n in range(10):
        answers = in_parallel([partial(one, session, unique_key=f"k{n}", **how) for session in sessions])
        assert len({task for task, _ in answers}) == 1
        assert Counter(outcome for _, outcome in answers)["created"] == 1
    assert count(engine) == 10
    engine.check()


@on_one_server
def test_bulks_with_equal_keys_in_any_order_do_not_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    """Debounced, unique and idempotent, shuffled, while others start, cancel and archive what they meet."""
    keep_a_day(engine)
    sessions = [open_engine() for _ in range(6)]

    def bulk(session: Engine, seed: int) -> Counter[str]:
        chance = random.Random(seed)
        outcomes: Counter[str] = Counter()
        for _ in range(12):
            requests = [
                {
                    "unique_key": f"k{key}",
                    **({"debounce_seconds": 0.001} if key % 2 else {}),
                    **({"idempotency_key": f"{seed}-{chance.randrange(10**9)}"} if chance.random() < 0.3 else {}),
                }
                for key in chance.choices(range(12), k=20)
            ]
            outcomes.update(outcome for _, outcome in submit(session, *requests))
        return outcomes

    def disturb(session: Engine, seed: int) -> Counter[str]:
        for _ in range(12):
            session.tick()
            session.table(
                "command_all", p_command="cancel_task", p_filter={"name": "flow"}, p_dry_run=False, p_limit=5, **BY
            )
            archive(session)
        return Counter()

    played = in_parallel([partial(bulk if n < 4 else disturb, session, n) for n, session in enumerate(sessions)])
    outcomes: Counter[str] = sum(played, Counter())
    assert outcomes["created"] > 12 and outcomes["duplicate"] and outcomes["pushed_back"], outcomes
    running = engine.column(
        "select count(*) from tasker.task_overview o join tasker.tasks t using (task_uuid)"
        " where not o.is_terminal and t.unique_key ~ '[02468]$' group by t.unique_key having count(*) > 1"
    )
    assert running == []
    engine.check()


def test_whoever_waits_for_a_caller_that_rolls_back_or_dies_creates_the_task(
    engine: Engine, open_engine: OpenEngine
) -> None:
    for how in ("rollback", "kill"):
        first = open_engine()
        first.begin()
        ((lost, _),) = submit(first, {"unique_key": how})
        second = open_engine()
        waiting = Background(partial(one, second, unique_key=how))
        engine.wait_until_blocked(second)
        if how == "rollback":
            first.rollback()
        else:
            engine.one("select pg_terminate_backend(%s)", first.pid)
        task, outcome = waiting.result()
        assert (task != lost, outcome) == (True, "created")
    assert count(engine) == 2


def test_a_start_and_a_push_at_once_come_one_after_the_other(engine: Engine, open_engine: OpenEngine) -> None:
    """A tick that holds the timer finds the later start; a push that finds the task started leaves it alone."""
    first, _ = one(engine, debounce_seconds=10)
    engine.shift_clock("11 s")
    pusher, ticker = open_engine(), open_engine()
    pusher.begin()
    assert one(pusher, debounce_seconds=10, context={"n": 2}) == (first, "pushed_back")
    ticking = Background(ticker.tick)
    engine.wait_until_blocked(ticker)
    pusher.commit()
    ticking.result()
    assert engine.task(first)["phase"] == "pending"
    engine.shift_clock("25 s")
    ticker.begin()
    ticker.tick()
    pushing = Background(partial(one, pusher, debounce_seconds=10, context={"n": 3}))
    engine.wait_until_blocked(pusher)
    ticker.commit()
    assert pushing.result()[1] == "created"
    assert engine.task(first)["context"] == {"n": 2} and engine.task(first)["started_at"] is not None


# -- what stays


def test_a_key_goes_with_its_task_to_the_archive(engine: Engine) -> None:
    one(engine)
    engine.drain()
    keep_a_day(engine)
    assert archive(engine) == 1
    assert engine.one("select count(*) from tasker.unique_keys") == 0
    assert one(engine, unique_seconds=3600)[1] == "created"


@on_one_server
def test_ten_thousand_in_one_call(engine: Engine) -> None:
    requests = [{"unique_key": f"k{n // 2}", "context": {"n": n}} for n in range(10_000)]
    made = submit(engine, *requests)
    assert Counter(outcome for _, outcome in made) == {"created": 5000, "duplicate": 5000}
    assert [made[n][0] for n in range(0, 10_000, 2)] == [made[n][0] for n in range(1, 10_000, 2)]
    assert submit(engine, *requests) == [(task, "duplicate") for task, _ in made]
