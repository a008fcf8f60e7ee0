"""Completed steps of a task that failed are undone, backwards, once, by a task like any other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


def trip(*steps: Row, **fields: Any) -> Row:
    """Three bookings, one after another, and a payment that is going to fail."""
    return graph(
        *(
            steps
            or (
                step("flight", undo="cancel flight", arguments={"to": "OSL"}),
                step("hotel", "flight", undo={"handler": "cancel hotel", "arguments": {"fee": 5}, "max_attempts": 2}),
                step("visa", "hotel"),
                step("car", "visa", undo="cancel car"),
                step("pay", "car", max_attempts=1),
            )
        ),
        name="trip",
        **fields,
    )


def fails(*names: str) -> Any:
    """A handler that fails for good at these steps or handlers, and else answers its step."""

    def handle(claimed: Row) -> Row:
        if claimed["name"] in names or claimed["handler"] in names:
            return {"success": False, "error": {"message": "no"}, "category": "permanent"}
        return {"result": {"of": claimed["name"]}}

    return handle


def undo_of(engine: Engine, task: UUID) -> UUID:
    (found,) = engine.column("select task_uuid from tasker.tasks where compensates_task_uuid = %s", task)
    return found  # type: ignore[no-any-return]


def undos(engine: Engine) -> int:
    return engine.one("select count(*) from tasker.tasks where compensates_task_uuid is not null")  # type: ignore[no-any-return]


def end(engine: Engine, task: UUID) -> None:
    """Give up what is blocked; in some vocabularies a failure ends the task by itself, in others nothing but a person."""
    if not engine.task(task)["is_terminal"]:
        offered = engine.column("select command from tasker.allowed_commands('task', %s)", str(task))
        engine.call("give_up_task" if "give_up_task" in offered else "cancel_task", p_task_uuid=task, **BY)


def failed(engine: Engine, flow: Row, *names: str, **arguments: Any) -> UUID:
    """A task of which these steps failed, and which has ended."""
    task = engine.create(flow, **arguments)
    if flow.get("vocabulary") == "supervision":
        engine.worker("s", p_vocabulary="supervision")
    handle = fails(*(names or ("pay",)))
    engine.settle()
    while not engine.task(task)["is_terminal"] and (claims := engine.claim()):
        engine.report([report_of(claimed, **handle(claimed)) for claimed in claims])
        engine.settle()
    end(engine, task)
    return task


def order(engine: Engine, task: UUID) -> list[str]:
    """The steps of a task in the order in which they were started."""
    return engine.column(
        "select name from tasker.timeline where task_uuid = %s and kind = 'step' and event in ("
        "  select event from tasker.lifecycle_transitions where operation = 'claim') order by at, sort_key",
        task,
    )


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_what_was_done_is_undone_backwards_in_every_vocabulary(engine: Engine, vocabulary: str) -> None:
    correlation = UUID(int=7)
    flow = trip(vocabulary=vocabulary, compensate=["failed", "cancelled"])
    task = failed(engine, flow, p_priority=3, p_context={"who": "ada"}, p_correlation_id=correlation)
    undo = undo_of(engine, task)
    row = engine.row("select * from tasker.tasks where task_uuid = %s", undo)
    assert (row["name"], row["correlation_id"], row["priority"], row["vocabulary"]) == (
        "undo trip",
        correlation,
        3,
        vocabulary,
    )
    assert engine.task(task)["compensated_by"] == undo and engine.task(undo)["compensates_task_uuid"] == task
    assert str(undo) in engine.call("explain_task", p_task_uuid=task)["summary"]
    assert str(task) in engine.call("explain_task", p_task_uuid=undo)["summary"]
    assert engine.one(
        "select metadata ->> 'compensates' from tasker.timeline where entity_uuid = %s and sort_key = 1", undo
    ) == str(task)
    seen: dict[str, Row] = {}

    def handle(claimed: Row) -> Row:
        seen[claimed["handler"]] = claimed
        return {"result": "undone"}

    engine.drain(handle)
    assert engine.task(undo)["phase"] == "succeeded"
    assert list(seen) == ["cancel car", "cancel hotel", "cancel flight"]
    assert {claimed["name"] for claimed in seen.values()} == {"undo car", "undo hotel", "undo flight"}
    assert seen["cancel flight"]["arguments"] == {"to": "OSL"} and seen["cancel flight"]["context"] == {"who": "ada"}
    assert seen["cancel flight"]["inputs"] == {"flight": {"of": "flight"}, "undo hotel": "undone"}
    assert seen["cancel hotel"]["arguments"] == {"fee": 5} and seen["cancel hotel"]["max_attempts"] == 2
    assert seen["cancel hotel"]["inputs"] == {
        "hotel": {"of": "hotel"}, "flight": {"of": "flight"}, "undo car": "undone",
    }  # fmt: skip
    assert engine.states(task)["flight"] != engine.states(task)["pay"], "what was done stays in the log as it was"
    engine.check()
    engine.check_order()


def test_a_task_that_ends_well_is_not_undone(engine: Engine) -> None:
    for task in (engine.create(trip()), engine.create(trip())):
        engine.drain(fails("pay") if undos(engine) else None)
        if not engine.task(task)["is_terminal"]:
            engine.call("resolve_task", p_task_uuid=task, **BY)
    assert undos(engine) == 0


def test_only_what_was_completed_is_undone(engine: Engine) -> None:
    """Not what failed, was left out, or never ran; what a person resolved counts as done."""
    task = engine.create(
        trip(
            step("left", undo="u", condition="$.context.never == true"),
            step("optional", undo="u", on_failure="continue"),
            step("by hand", undo="u", max_attempts=1),
            step("done", undo="u"),
            step("pay", "left", "optional", "by hand", "done", max_attempts=1),
            step("after", "pay", undo="u"),
        )
    )
    engine.drain(fails("optional", "by hand"))
    by_hand = engine.steps(task)["by hand"]["workflow_step_uuid"]
    engine.call("resolve_step", p_step_uuid=by_hand, **BY)
    engine.drain(fails("pay"))
    end(engine, task)
    assert set(engine.states(undo_of(engine, task))) == {"undo by hand", "undo done"}
    engine.check()


def test_a_step_that_did_not_need_all_it_depends_on_is_undone_too(engine: Engine) -> None:
    flow = trip(
        step("never", delay_seconds=3600), step("lost", max_attempts=1), step("quick"),
        step("any", "never", "quick", run_when="any_satisfied", undo="u"),
        step("all", "lost", "any", run_when="all_finished", undo="u"),
        step("pay", "any", max_attempts=1, on_failure="stop"),
        compensate=["failed", "cancelled"],
    )  # fmt: skip
    task = failed(engine, flow, "pay", "lost")
    undo = undo_of(engine, task)
    done = []

    def handle(claimed: Row) -> Row:
        done.append((claimed["name"], claimed["inputs"]))
        return {"success": len(done) > 1, "result": None, "error": {"message": "once more"}}

    engine.drain(handle)
    engine.shift_clock("1 minute")
    engine.drain(handle)
    assert engine.state(undo) == "complete"
    assert {name: set(inputs) for name, inputs in done}["undo any"] >= {"any", "quick"}
    engine.check()


def test_a_task_of_which_nothing_was_done_or_has_an_undo_is_left_alone(engine: Engine) -> None:
    failed(engine, trip(step("pay", undo="u", max_attempts=1)))
    failed(engine, trip(step("a"), step("pay", "a", max_attempts=1)))
    assert undos(engine) == 0


def test_branches_are_undone_side_by_side_and_joins_before_their_branches(engine: Engine) -> None:
    flow = trip(
        step("a", undo="u"), step("x", "a"), step("b", "x", undo="u"), step("c", "a", undo="u"),
        step("y", "b", "c"), step("d", "y", undo="u"), step("pay", "d", max_attempts=1),
    )  # fmt: skip
    task = failed(engine, flow)
    undo = undo_of(engine, task)
    rounds = []
    while claims := engine.claim():
        rounds.append({claimed["name"] for claimed in claims})
        engine.complete(claims)
        engine.settle()
    assert rounds == [{"undo d"}, {"undo b", "undo c"}, {"undo a"}]
    assert engine.state(undo) == "complete"


@pytest.mark.parametrize(
    ("compensate", "undone"),
    [
        (None, {"failed"}),
        (["failed"], {"failed"}),
        (["cancelled"], {"cancelled"}),
        (["failed", "cancelled"], {"failed", "cancelled"}),
        ([], set()),
    ],
)
def test_the_workflow_says_after_which_ends(engine: Engine, compensate: list[str] | None, undone: set[str]) -> None:
    flow = trip(**({} if compensate is None else {"compensate": compensate}))
    lost, stopped = failed(engine, flow), engine.create(flow)
    engine.drain(fails("visa"))
    engine.call("cancel_task", p_task_uuid=stopped, **BY)
    ended = {"failed": lost, "cancelled": stopped}
    found = engine.column("select compensates_task_uuid from tasker.tasks where compensates_task_uuid is not null")
    assert set(found) == {ended[name] for name in undone}
    engine.drain()
    engine.check()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_what_was_reported_before_a_cancellation_was_done(engine: Engine, vocabulary: str) -> None:
    task = engine.create(trip(compensate=["cancelled"], vocabulary=vocabulary))
    engine.complete(engine.claim(), "seat 4")
    engine.call("cancel_task", p_task_uuid=task, **BY)
    engine.settle()
    (claimed,) = engine.claim()
    assert (claimed["name"], claimed["inputs"]) == ("undo flight", {"flight": "seat 4"})
    engine.check()


def test_what_runs_when_the_task_ends_is_fenced_off_and_not_undone(engine: Engine) -> None:
    task = engine.create(trip(compensate=["cancelled"]))
    claims = engine.claim()
    engine.call("cancel_task", p_task_uuid=task, **BY)
    assert [row["code"] for row in engine.complete(claims)] == ["TK412"]
    assert undos(engine) == 0


def test_sensitive_values_reach_the_undo_and_nobody_else(engine: Engine) -> None:
    task = failed(
        engine,
        trip(
            step("card", undo="refund", arguments={"pin": "1234"}, sensitive=["pin"], sensitive_result=True),
            step("pay", "card", max_attempts=1),
            sensitive=["token"],
        ),
        p_context={"token": "t-9"},
    )
    undo = undo_of(engine, task)
    assert engine.task(undo)["context"] == {"token": "[sensitive]"}
    assert engine.steps(undo)["undo card"]["arguments"] == {"pin": "[sensitive]"}
    (claimed,) = engine.claim()
    assert (claimed["arguments"], claimed["context"]) == ({"pin": "1234"}, {"token": "t-9"})
    assert claimed["inputs"] == {"card": {"of": "card"}}


def test_sensitive_arguments_of_a_template_reach_the_undo(engine: Engine) -> None:
    flow = trip(
        step("card", undo="refund", arguments={"pin": "1234"}, sensitive=["pin"]), step("pay", "card", max_attempts=1)
    )
    engine.call("register_template", p_template=flow)
    task = engine.call("create_task", p_name="trip")
    engine.drain(fails("pay"))
    end(engine, task)
    assert engine.steps(undo_of(engine, task))["undo card"]["arguments"] == {"pin": "[sensitive]"}
    (claimed,) = engine.claim()
    assert claimed["arguments"] == {"pin": "1234"}


def test_of_a_map_the_elements_that_were_done_are_undone(engine: Engine) -> None:
    """The map itself was not, since one of its elements failed."""
    flow = trip(
        step("find", undo="u"),
        step("book", "find", for_each="$.inputs.find.places[*]", arguments={"key": "k"}, undo="cancel", max_attempts=1),
    )
    task = engine.create(flow)
    engine.complete(engine.claim(), {"places": ["x", "y", "z"]})
    engine.settle()
    claims = {claimed["name"]: claimed for claimed in engine.claim()}
    engine.fail([claims.pop("book[1]")], "permanent")
    engine.complete(claims.values(), "booked")
    engine.settle()
    end(engine, task)
    undo = undo_of(engine, task)
    assert set(engine.states(undo)) == {"undo find", "undo book[0]", "undo book[2]"}
    first, second = sorted(engine.claim(), key=lambda claimed: str(claimed["name"]))
    assert (first["name"], first["arguments"]) == ("undo book[0]", {"key": "k", "item": "x", "index": 0})
    assert second["inputs"] == {"book[2]": "booked"}, "its result, without the list"
    engine.complete([first, second])
    engine.settle()
    (last,) = engine.claim()
    assert last["name"] == "undo find"
    engine.complete([last])
    engine.settle()
    assert engine.state(undo) == "complete"
    engine.check()


# -- once, whoever ends the task


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_task_that_took_too_long_is_undone(engine: Engine, vocabulary: str) -> None:
    """A timeout ends a task as failed or as cancelled, as the vocabulary has it."""
    flow = trip(step("a", undo="u"), step("b", "a"), vocabulary=vocabulary, timeout_seconds=60)
    task = engine.create({**flow, "compensate": ["failed", "cancelled"]})
    if vocabulary == "supervision":
        engine.worker("s", p_vocabulary="supervision")
    engine.complete(engine.claim())
    engine.settle()
    engine.shift_clock("61 s")
    engine.settle()
    assert engine.task(task)["is_terminal"]
    undo = undo_of(engine, task)
    engine.drain()
    assert engine.task(undo)["phase"] == "succeeded"
    engine.check()


@on_one_server
def test_of_many_who_end_a_task_at_once_one_begins_its_undo(engine: Engine, open_engine: OpenEngine) -> None:
    def give_up(session: Engine, task: UUID, command: str) -> bool:
        try:
            session.call(command, p_task_uuid=task, **BY)
        except psycopg.Error as refused:
            assert refused.sqlstate == "TK409"
            return False
        return True

    sessions = [open_engine() for _ in range(6)]
    for _ in range(5):
        task = engine.create(trip(compensate=["failed", "cancelled"]))
        engine.drain(fails("pay"))
        commands = ["give_up_task", "cancel_task"] * 3
        ended = in_parallel([partial(give_up, s, task, c) for s, c in zip(sessions, commands, strict=True)])
        assert sum(ended) == 1
        undo_of(engine, task)
        engine.drain()
    engine.check()


def test_whoever_ends_a_task_and_dies_has_not_ended_it(engine: Engine, open_engine: OpenEngine) -> None:
    task = engine.create(trip())
    engine.drain(fails("pay"))
    other = open_engine()
    other.begin()
    other.call("give_up_task", p_task_uuid=task, **BY)
    third = open_engine()
    waiting = Background(partial(third.call, "give_up_task", p_task_uuid=task, **BY))
    engine.wait_until_blocked(third)
    engine.one("select pg_terminate_backend(%s)", other.pid)
    assert waiting.result() == "error"
    assert undos(engine) == 1


# -- what goes wrong on the way back


def test_an_undo_is_retried_and_one_that_fails_blocks_until_somebody_decides(engine: Engine) -> None:
    task = failed(engine, trip())
    undo = undo_of(engine, task)
    engine.complete(engine.claim())  # car
    engine.settle()
    (hotel,) = engine.claim()
    engine.fail([hotel])
    engine.settle()
    engine.shift_clock("1 minute")
    engine.settle()
    (hotel,) = engine.claim()
    assert hotel["attempt"] == 2
    engine.fail([hotel])
    engine.settle()
    assert engine.state(undo) == "blocked_by_failures" and engine.claim() == [], "the flight waits for the hotel"
    engine.call("retry_step", p_step_uuid=hotel["workflow_step_uuid"], **BY)
    assert engine.drain() == 2
    assert engine.state(undo) == "complete" and undos(engine) == 1
    engine.check()


def test_an_undo_that_failed_can_be_reset_or_resumed_and_is_not_undone_itself(engine: Engine) -> None:
    undo = undo_of(engine, failed(engine, trip()))
    engine.drain(fails("undo hotel"))
    end(engine, undo)
    assert undos(engine) == 1
    engine.call("reset_task", p_task_uuid=undo, **BY)
    engine.call("cancel_task", p_task_uuid=undo, **BY)
    resumed = engine.call("resume_task", p_task_uuid=undo, **BY)
    seen = []

    def handle(claimed: Row) -> Row:
        seen.append((claimed["name"], claimed["inputs"].get("hotel") or claimed["inputs"].get("flight")))
        return {}

    engine.drain(handle)
    assert seen == [("undo hotel", {"of": "hotel"}), ("undo flight", {"of": "flight"})]
    assert engine.state(resumed) == "complete"
    engine.check()


def test_a_task_that_was_undone_does_not_go_on(engine: Engine) -> None:
    task = failed(engine, trip())
    for command in ("reset_task", "resume_task"):
        with pytest.raises(psycopg.Error) as caught:
            engine.call(command, p_task_uuid=task, **BY)
        assert caught.value.sqlstate == "TK409" and "undoes what it did" in (caught.value.diag.message_primary or "")
        assert json.loads(caught.value.diag.message_detail or "")["undone_by"] == str(undo_of(engine, task))
    with pytest.raises(psycopg.Error) as caught:
        engine.call(
            "transition_task", p_task_uuid=task, p_event="reset", p_metadata={"reason": "x", "requested_by": "ada"}
        )
    assert caught.value.sqlstate == "TK409"
    offered = engine.column("select command from tasker.allowed_commands('task', %s)", str(task))
    assert not {"reset_task", "resume_task"} & set(offered)
    with pytest.raises(psycopg.Error) as caught:
        engine.call("retry_step", p_step_uuid=engine.steps(task)["pay"]["workflow_step_uuid"], **BY)
    assert caught.value.sqlstate == "TK409"


def test_what_was_done_before_a_resumption_is_undone_too(engine: Engine) -> None:
    first = engine.create(trip())
    engine.drain(fails("visa"))
    engine.call("cancel_task", p_task_uuid=first, **BY)
    second = engine.call("resume_task", p_task_uuid=first, **BY)
    engine.drain(fails("pay"))
    end(engine, second)
    undo = undo_of(engine, second)
    engine.drain()
    assert order(engine, undo) == ["undo car", "undo hotel", "undo flight"]
    engine.check()


def test_a_parent_that_is_cancelled_lets_what_was_begun_be_undone(engine: Engine) -> None:
    parent = engine.create(graph(step("p")), p_start=False)
    child = failed(engine, trip(), p_parent_task_uuid=parent)
    running = engine.create(trip(compensate=["cancelled"]), p_parent_task_uuid=parent)
    claims = {claimed["task_uuid"]: claimed for claimed in engine.claim()}
    engine.complete([claims[running]])
    engine.settle()
    engine.call("cancel_task", p_task_uuid=parent, **BY)
    for task in (child, running):
        undo = engine.task(undo_of(engine, task))
        assert undo["parent_task_uuid"] == parent and not undo["is_terminal"]
    engine.check()


def test_a_task_and_its_undo_are_archived_together(engine: Engine) -> None:
    task = failed(engine, trip())
    undo = undo_of(engine, task)
    engine.rows("select tasker.set_retention_policy('day', '1 day', '7 years', 'a test')")

    def archived() -> int:
        engine.rows(
            "update tasker.tasks set created_at = created_at - interval '2 days', started_at = started_at - interval '2 days',"
            " completed_at = completed_at - interval '2 days'"
        )
        return engine.table("archive_tasks", p_policy="day", p_requested_by="ada")[0]["tasks"]  # type: ignore[no-any-return]

    assert archived() == 0
    engine.drain()
    assert engine.state(undo) == "complete"
    assert archived() == 2
    assert engine.one("select count(*) from tasker.workflow_step_edges") == 0


# -- refused


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"undo": 5}, "steps[0].undo"),
        ({"undo": ""}, "steps[0].undo"),
        ({"undo": {}}, "steps[0].undo"),
        ({"undo": {"handler": "u", "when": []}}, "steps[0].undo.when"),
        ({"undo": {"handler": "u", "arguments": []}}, "steps[0].undo.arguments"),
        ({"undo": {"handler": "u", "max_attempts": 0}}, "steps[0].undo.max_attempts"),
        ({"undo": {"handler": "u", "timeout_seconds": "x"}}, "steps[0].undo.timeout_seconds"),
        ({"undo": {"handler": "u", "retry": {"base_delay": -1}}}, "steps[0].undo.retry.base_delay"),
        ({"undo": {"handler": "u", "retry": {"base": 1}}}, "steps[0].undo.retry.base"),
        ({"undo": {"handler": "u", "arguments": {"pin": 1}}, "sensitive": ["pin"]}, "steps[0].undo.arguments"),
    ],
)
def test_an_undo_that_is_none_is_refused(engine: Engine, fields: Row, path: str) -> None:
    problems = engine.call("template_problems", p_template=graph(step("a", **fields)))
    assert [problem["path"] for problem in problems] == [path]


@pytest.mark.parametrize("compensate", ["failed", ["done"], {}])
def test_ends_that_are_none_are_refused(engine: Engine, compensate: Any) -> None:
    problems = engine.call("template_problems", p_template=graph(step("a"), compensate=compensate))
    assert [problem["path"] for problem in problems] == ["compensate"]


# -- with workers that die

WORKER = """
import os, sys
from pgtasker import Worker
worker = Worker(sys.argv[1], name="w", lease=1.0, heartbeat_interval=0.5, poll_interval=0.1)
for name in ("flight", "hotel", "visa", "car"):
    worker.step(name)(lambda ctx: ctx.name)

@worker.step("pay")
def pay(ctx):
    raise ValueError("no money")

def undo(ctx):
    if ctx.name == "undo hotel" and not os.path.exists(sys.argv[2]):
        open(sys.argv[2], "w").close()
        os.kill(os.getpid(), 9)
    return "undone"

for name in ("cancel flight", "cancel hotel", "cancel car"):
    worker.step(name)(undo)
worker.run()
"""


@on_one_server
def test_a_worker_that_is_killed_in_an_undo_loses_nothing(engine: Engine, database: str, tmp_path: Any) -> None:
    mark = tmp_path / "killed"
    task = engine.create(trip(vocabulary="pipeline"))  # there a failure ends a task by itself
    processes = []
    try:
        for _ in range(2):
            processes.append(subprocess.Popen([sys.executable, "-c", WORKER, database, str(mark)]))
            wait_until(lambda: mark.exists(), "an undo")
        assert processes[0].wait(30) == -signal.SIGKILL or processes[1].poll() == -signal.SIGKILL
        wait_until(lambda: engine.task(undo_of(engine, task))["phase"] == "succeeded", "the undo to end")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    undo = undo_of(engine, task)
    assert {name: row["attempts"] for name, row in engine.steps(undo).items()} == {
        "undo car": 1, "undo hotel": 2, "undo flight": 1,
    }  # fmt: skip
    engine.check()
