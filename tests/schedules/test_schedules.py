"""Tasks created by the clock: once for each time, whoever ticks and whatever stopped."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine

HOURLY = "0 * * * *"


def scheduled(engine: Engine, name: str = "hourly", cron: str = HOURLY, **arguments: Any) -> dt.datetime:
    """A schedule whose template is there."""
    engine.call("register_template", p_template=graph(step("a"), name="report"))
    return engine.call("schedule_tasks", p_schedule=name, p_cron=cron, p_template="report", **arguments)  # type: ignore[no-any-return]


def made(engine: Engine) -> list[Any]:
    """The times for which there are tasks, in the order in which they were created."""
    return engine.column(
        "select (context ->> 'scheduled_for')::timestamptz from tasker.tasks order by created_at, task_uuid"
    )


def now(engine: Engine) -> dt.datetime:
    return engine.one("select tasker.clock()")  # type: ignore[no-any-return]


def to(engine: Engine, moment: dt.datetime, more: dt.timedelta = dt.timedelta(seconds=1)) -> None:
    """The clock stands a little behind this moment."""
    engine.shift_clock(f"{(moment + more - engine.one('select clock_timestamp()')).total_seconds()} s")


def refusal(engine: Engine, function: str, **arguments: Any) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as caught:
        engine.call(function, **arguments)
    assert json.loads(caught.value.diag.message_detail or "")
    return caught.value.sqlstate, caught.value.diag.message_primary or ""


def test_a_task_is_created_when_its_time_has_come_and_not_before(engine: Engine) -> None:
    due = scheduled(engine, p_context={"n": 1}, p_tags={"team": "a"}, p_priority=3, p_requested_by="ada")
    assert due == now(engine).replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=1)
    assert engine.tick()["next_due_at"] == due and made(engine) == []
    to(engine, due)
    assert engine.tick()["timers_fired"] == 1
    (task,) = engine.rows("select * from tasker.tasks")
    assert task["context"]["n"] == 1 and made(engine) == [due]
    assert task["tags"] == {"team": "a", "schedule": "hourly"}
    assert (task["priority"], task["requested_by"], task["namespace"]) == (3, "ada", "default")
    assert engine.tick()["timers_fired"] == 0
    row = engine.row("select * from tasker.schedules")
    assert (row["last_due_at"], row["last_task_uuid"]) == (due, task["task_uuid"])
    assert row["next_due_at"] == due + dt.timedelta(hours=1)
    engine.drain()
    assert engine.state(task["task_uuid"]) == "complete"
    engine.check()


@pytest.mark.parametrize(("catch_up", "expected"), [("latest", [5]), ("all", [1, 2, 3, 4, 5]), ("none", [])])
def test_times_that_passed_are_caught_up_with_as_told(engine: Engine, catch_up: str, expected: list[int]) -> None:
    due = scheduled(engine, p_catch_up=catch_up)
    to(engine, due + dt.timedelta(hours=4), dt.timedelta(minutes=20))
    engine.tick()
    assert made(engine) == [due + dt.timedelta(hours=hour - 1) for hour in expected]
    assert engine.tick()["next_due_at"] == due + dt.timedelta(hours=5)
    to(engine, due + dt.timedelta(hours=5))
    engine.tick()
    assert made(engine)[-1] == due + dt.timedelta(hours=5)


def test_many_missed_times_come_in_batches(engine: Engine) -> None:
    due = scheduled(engine, cron="* * * * *", p_catch_up="all")
    to(engine, due + dt.timedelta(minutes=249))
    fired = [engine.tick()["timers_fired"] for _ in range(4)]
    assert fired == [1, 1, 1, 0]
    assert made(engine) == [due + dt.timedelta(minutes=minute) for minute in range(250)]


def test_many_who_tick_at_once_create_each_task_once(engine: Engine, open_engine: OpenEngine) -> None:
    for number in range(20):
        due = scheduled(engine, f"s{number}")
    sessions = [open_engine() for _ in range(8)]
    for hour in range(3):
        to(engine, due + dt.timedelta(hours=hour))
        in_parallel([partial(session.tick) for session in sessions])
    assert sorted(made(engine)) == sorted([due + dt.timedelta(hours=hour) for hour in range(3)] * 20)


def test_one_who_is_killed_while_ticking_leaves_the_time_to_others(engine: Engine, open_engine: OpenEngine) -> None:
    due = scheduled(engine)
    to(engine, due)
    victim = open_engine()
    victim.begin()
    assert victim.tick()["timers_fired"] == 1
    assert engine.tick()["timers_fired"] == 0, "it is in other hands"
    engine.one("select pg_terminate_backend(%s, 5000)", victim.pid)
    assert engine.tick()["timers_fired"] == 1
    assert made(engine) == [due]


def test_a_clock_that_is_set_back_creates_nothing_twice(engine: Engine) -> None:
    due = scheduled(engine)
    for hour in (2, 0, 1, 2):
        to(engine, due + dt.timedelta(hours=hour))
        engine.tick()
    assert made(engine) == [due + dt.timedelta(hours=2)]


def test_with_overlap_skip_the_one_before_must_have_ended(engine: Engine) -> None:
    due = scheduled(engine, p_overlap="skip")
    for hour in range(3):
        to(engine, due + dt.timedelta(hours=hour))
        engine.tick()
    assert made(engine) == [due]
    engine.drain()
    to(engine, due + dt.timedelta(hours=3))
    engine.tick()
    assert made(engine) == [due, due + dt.timedelta(hours=3)]


def test_paused_resumed_and_removed(engine: Engine) -> None:
    due = scheduled(engine)
    for _ in range(2):
        engine.call("pause_schedule", p_schedule="hourly", **BY)
    to(engine, due + dt.timedelta(hours=2))
    assert engine.tick()["next_due_at"] is None
    assert made(engine) == []
    assert engine.call("schedule_tasks", p_schedule="hourly", p_cron="30 * * * *", p_template="report") is None, (
        "paused"
    )
    again = engine.call("resume_schedule", p_schedule="hourly", **BY)
    assert again.minute == 30 and again > now(engine)
    to(engine, again)
    engine.tick()
    assert made(engine) == [again]
    engine.call("remove_schedule", p_schedule="hourly", **BY)
    assert engine.tick()["next_due_at"] is None
    events = engine.rows(
        "select event, requested_by, reason from tasker.audit_events where event like 'schedule%%' order by created_at"
    )
    assert [event["event"] for event in events] == [
        "schedule_added", "schedule_paused", "schedule_paused", "schedule_changed", "schedule_resumed", "schedule_deleted",
        "schedule_removed",
    ]  # fmt: skip
    assert (events[-1]["requested_by"], events[-1]["reason"]) == ("ada", "a test")


def test_a_schedule_that_is_set_again_changes_and_keeps_a_time_that_is_due(engine: Engine) -> None:
    due = scheduled(engine)
    to(engine, due)
    assert scheduled(engine, p_context={"n": 2}) == due
    engine.tick()
    assert engine.one("select context ->> 'n' from tasker.tasks") == "2"
    assert scheduled(engine, cron="15 3 * * *", p_time_zone="Asia/Tokyo").astimezone(dt.UTC).hour == 18


def test_one_that_can_not_be_served_tells_so_and_stops_nobody(engine: Engine) -> None:
    """The vocabulary that is asked for has no state for what the template needs."""
    engine.call("register_template", p_template=graph(step("a", condition="1 == 1"), name="conditional"))
    engine.call("schedule_tasks", p_schedule="broken", p_cron=HOURLY, p_template="conditional", p_vocabulary="pipeline")
    due = scheduled(engine)
    to(engine, due)
    assert engine.tick()["timers_fired"] == 2
    assert made(engine) == [due]
    row = engine.row("select * from tasker.schedules where schedule = 'broken'")
    assert "pipeline" in row["last_refusal"] and row["next_due_at"] == due + dt.timedelta(hours=1)
    (rejected,) = engine.rejections()
    assert (rejected["entity_kind"], rejected["code"]) == ("schedule", "TK400") and "broken" in rejected["message"]


def test_backfill(engine: Engine) -> None:
    due = scheduled(engine, p_catch_up="latest")
    to(engine, due + dt.timedelta(hours=3))
    engine.tick()
    period = {"p_since": due, "p_until": due + dt.timedelta(hours=3)}
    found = engine.table("backfill_schedule", p_schedule="hourly", **period, **BY)
    assert [row["is_new"] for row in found] == [True, True, True, False]
    assert len(made(engine)) == 1, "a dry run"
    done = engine.table("backfill_schedule", p_schedule="hourly", p_dry_run=False, **period, **BY)
    assert sorted(made(engine)) == [row["due_at"] for row in found] == [due + dt.timedelta(hours=h) for h in range(4)]
    again = engine.table("backfill_schedule", p_schedule="hourly", p_dry_run=False, **period, **BY)
    assert [row["task_uuid"] for row in again] == [row["task_uuid"] for row in done]
    assert not any(row["is_new"] for row in again)
    code, message = refusal(
        engine, "backfill_schedule", p_schedule="hourly", p_since=due - dt.timedelta(days=800), p_until=due, **BY
    )
    assert code == "TK400" and "10000" in message
    late = {"p_since": due, "p_until": due + dt.timedelta(days=9)}
    assert refusal(engine, "backfill_schedule", p_schedule="hourly", **late, **BY)[0] == "TK400"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"p_cron": "61 * * * *"}, "TK400"), ({"p_cron": "0 0 30 2 *"}, "TK400"), ({"p_cron": None}, "TK400"),
        ({"p_time_zone": "Nowhere"}, "TK400"), ({"p_template": "missing"}, "TK404"), ({"p_version": "9"}, "TK404"),
        ({"p_namespace": "missing"}, "TK404"), ({"p_vocabulary": "missing"}, "TK400"), ({"p_schedule": ""}, "TK400"),
        ({"p_schedule": "x" * 201}, "TK400"), ({"p_catch_up": "some"}, "TK400"), ({"p_overlap": "x"}, "TK400"),
        ({"p_context": "[]"}, "TK400"), ({"p_tags": None}, "TK400"),
    ],
)  # fmt: skip
def test_what_makes_no_schedule_is_refused(engine: Engine, changes: dict[str, Any], code: str) -> None:
    scheduled(engine)
    arguments = {"p_schedule": "other", "p_cron": HOURLY, "p_template": "report", **changes}
    assert refusal(engine, "schedule_tasks", **arguments)[0] == code
    assert engine.one("select count(*) from tasker.schedules") == 1


def test_commands_need_a_schedule_a_reason_and_a_name(engine: Engine) -> None:
    scheduled(engine)
    for command in ("pause_schedule", "resume_schedule", "remove_schedule"):
        assert refusal(engine, command, p_schedule="none", **BY)[0] == "TK404"
        assert refusal(engine, command, p_schedule="hourly", p_reason="", p_requested_by="ada")[0] == "TK400"


def test_a_repeated_request_is_answered_from_the_first(engine: Engine) -> None:
    due = scheduled(engine, p_request_id="one")
    assert scheduled(engine, p_request_id="one") == due
    for command in ("pause_schedule", "resume_schedule", "remove_schedule"):
        answers = [engine.call(command, p_schedule="hourly", p_request_id=command, **BY) for _ in range(2)]
        assert answers[0] == answers[1]
    assert engine.one("select count(*) from tasker.audit_events where event like 'schedule_%%ed'") == 5


def test_what_is_due_is_found_by_the_index(engine: Engine) -> None:
    scheduled(engine)
    engine.rows(
        "insert into tasker.schedules (namespace, schedule, cron, time_zone, template, catch_up, overlap, next_due_at)"
        " select 'default', 's' || n, '0 0 1 1 *', 'UTC', 'report', 'latest', 'allow', clock_timestamp() + n * interval '1 day'"
        " from generate_series(1, 20000) n"
    )
    engine.rows("analyze tasker.schedules")
    plan = "\n".join(engine.column(
        "explain select s.* from tasker.schedules s where s.next_due_at <= tasker.clock() order by s.next_due_at limit 1000"
        " for no key update skip locked"
    ))  # fmt: skip
    assert "schedules_next_due_at_idx" in plan and "Seq Scan on schedules" not in plan
