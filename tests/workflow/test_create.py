"""Creating tasks: shapes of graphs, bulk, idempotency keys, and one transaction with the caller's own data."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.workflow.engine import Background, Engine, graph, in_parallel, step
from tests.workflow.fixtures import OpenEngine, on_one_server

TASK_STATES = ["pending", "initializing", "enqueuing_steps", "steps_in_process"]
STEP_STATES = ["pending", "enqueued", "in_progress", "enqueued_for_orchestration", "complete"]


def sqlstate(caught: pytest.ExceptionInfo[psycopg.Error]) -> str | None:
    return caught.value.sqlstate


# -- shapes ----------------------------------------------------------------------------------------------------------


def test_a_chain_runs_in_order(engine: Engine) -> None:
    """Every state of the seed is really visited and logged."""
    task = engine.create(graph(step("a"), step("b", "a"), step("c", "b")))
    assert engine.walk(task) == TASK_STATES
    for name in "abc":
        (claimed,) = engine.claim()
        assert claimed["name"] == name
        engine.complete([claimed], name)
        engine.orchestrate()
    assert engine.state(task) == "complete"
    for row in engine.steps(task).values():
        assert engine.walk(row["workflow_step_uuid"]) == STEP_STATES
    assert engine.walk(task) == [
        *TASK_STATES,
        *2 * ["evaluating_results", "enqueuing_steps", "steps_in_process"],
        "evaluating_results",
        "complete",
    ]
    engine.check()


def test_a_diamond_joins_after_both_sides(engine: Engine) -> None:
    task = engine.create(graph(step("top"), step("left", "top"), step("right", "top"), step("end", "left", "right")))
    engine.complete(engine.claim())
    engine.orchestrate()
    sides = engine.claim_by_name()
    assert sides.keys() == {"left", "right"}
    engine.complete([sides["left"]], "L")
    engine.orchestrate()
    assert engine.claim() == [], "one side is not enough"
    engine.complete([sides["right"]], "R")
    engine.orchestrate()
    (end,) = engine.claim()
    assert end["inputs"] == {"left": "L", "right": "R"}
    engine.complete([end])
    engine.orchestrate()
    assert engine.state(task) == "complete"
    engine.check()


def test_a_fan_of_200_opens_and_closes(engine: Engine) -> None:
    middle = [f"m{number}" for number in range(200)]
    task = engine.create(graph(step("first"), *(step(name, "first") for name in middle), step("last", *middle)))
    assert engine.drain(limit=64) == 202
    overview = engine.task(task)
    assert (overview["state"], overview["satisfied_steps"], overview["total_steps"]) == ("complete", 202, 202)
    engine.check_order()
    engine.check_completed_once(202)
    engine.check()


def test_a_task_without_steps_is_complete_at_once(engine: Engine) -> None:
    task = engine.create(graph())
    assert engine.walk(task) == ["pending", "initializing", "complete"]
    overview = engine.task(task)
    assert overview["completed_at"] is not None
    assert overview["total_steps"] == 0
    engine.check()


def test_a_task_may_wait_for_its_start(engine: Engine) -> None:
    """p_start false: nothing is handed out before somebody starts it, whatever is done meanwhile."""
    task = engine.create(graph(step("a"), step("b")), p_start=False)
    engine.settle()
    assert engine.state(task) == "pending"
    assert engine.claim() == []
    assert engine.task(task)["started_at"] is None
    assert engine.call("transition_task", p_task_uuid=task, p_event="start") == "initializing"
    engine.shift_clock("31 s")
    assert engine.drain() == 2, "whoever started it left it, so the engine went on"
    assert engine.state(task) == "complete"
    engine.check()


def test_everything_a_caller_gives_is_kept(engine: Engine) -> None:
    parent = engine.create(graph(name="parent"))
    correlation = uuid.uuid4()
    engine.call("register_template", p_template=graph(step("a"), version="7"))
    task = engine.call(
        "create_task",
        p_name="flow",
        p_context={"x": [1, None, "é"]},
        p_version="7",
        p_idempotency_key="k",
        p_correlation_id=correlation,
        p_priority=-3,
        p_parent_task_uuid=parent,
        p_tags={"team": "red"},
        p_requested_by="ada",
    )
    row = engine.task(task)
    assert row["context"] == {"x": [1, None, "é"]}
    assert row["tags"] == {"team": "red"}
    assert (row["version"], row["correlation_id"], row["priority"]) == ("7", correlation, -3)
    assert (row["parent_task_uuid"], row["requested_by"]) == (parent, "ada")
    (claimed,) = engine.claim()
    assert claimed["correlation_id"] == correlation
    assert claimed["context"] == {"x": [1, None, "é"]}


def test_a_request_that_can_not_be_met_leaves_nothing(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"p_name": "ghost"}, "TK404"),
        ({"p_name": None}, "TK400"),
        ({"p_name": "flow", "p_namespace": "elsewhere"}, "TK404"),
        ({"p_name": "flow", "p_parent_task_uuid": uuid.UUID(int=5)}, "TK404"),
        ({"p_name": "flow", "p_idempotency_key": ""}, "TK400"),
        ({"p_name": "flow", "p_idempotency_key": "x" * 256}, "TK400"),
        ({"p_name": "flow", "p_context": Jsonb([1])}, "TK400"),
        ({"p_name": "flow", "p_context": Jsonb("text")}, "TK400"),
        ({"p_name": "flow", "p_tags": Jsonb(5)}, "TK400"),
    ]
    for arguments, code in cases:
        with pytest.raises(psycopg.Error) as caught:
            engine.call("create_task", **arguments)
        assert sqlstate(caught) == code, arguments
    assert engine.one("select count(*) from tasker.tasks") == 0
    assert engine.queued() == []


def test_a_lost_queue_ends_the_task_where_it_can_be_started_again(engine: Engine) -> None:
    """Seed 004, EnqueueFailed: the task says so, nothing is half done, and reset_task finishes it."""
    engine.call("register_template", p_template=graph(step("a"), step("b", "a")))
    queue = engine.call("queue_name", p_namespace="default")
    engine.one("select pgmq.drop_queue(%s)", queue)
    task = engine.call("create_task", p_name="flow")
    assert engine.walk(task) == ["pending", "initializing", "enqueuing_steps", "error"]
    assert set(engine.states(task).values()) == {"pending"}
    assert engine.claim() == []
    engine.call("ensure_namespace", p_namespace="default")
    engine.call("reset_task", p_task_uuid=task, p_reason="the queue is back", p_requested_by="ada")
    assert engine.drain() == 2
    assert engine.state(task) == "complete"
    engine.check()


# -- bulk ------------------------------------------------------------------------------------------------------------


def test_a_thousand_tasks_in_one_call_come_back_in_order(engine: Engine) -> None:
    """Answers stand in the order of the requests, also where templates, keys and namespaces are mixed."""
    engine.call("register_template", p_template=graph(step("a"), name="one"))
    engine.call("register_template", p_template=graph(step("a"), step("b", "a"), name="two", namespace="other"))
    requests = [
        {
            "name": "two" if n % 3 == 0 else "one",
            "namespace": "other" if n % 3 == 0 else "default",
            "context": {"n": n},
            **({"idempotency_key": f"key {1000 - n}"} if n % 2 else {}),
        }
        for n in range(1000)
    ]
    tasks = engine.column("select * from tasker.create_tasks(%s)", Jsonb(requests))
    assert len(set(tasks)) == 1000
    contexts = {row["task_uuid"]: row["context"] for row in engine.rows("select task_uuid, context from tasker.tasks")}
    assert [contexts[task]["n"] for task in tasks] == list(range(1000))
    assert len(engine.queued()) + len(engine.queued("other")) == 1000
    engine.check()


def test_all_tasks_of_a_call_or_none(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    good = {"name": "flow"}
    for bad, code in [
        ({"name": "ghost"}, "TK404"),
        ({"nome": "flow"}, "TK400"),
        ("flow", "TK400"),
        ({"name": "flow", "priority": 1.5}, "TK400"),
        ({"name": "flow", "start": "yes"}, "TK400"),
        ({"name": "flow", "correlation_id": "x"}, "TK400"),
        ({"name": "flow", "parent_task_uuid": str(uuid.UUID(int=5))}, "TK404"),
    ]:
        with pytest.raises(psycopg.Error) as caught:
            engine.rows("select * from tasker.create_tasks(%s)", Jsonb([good, bad, good]))
        assert sqlstate(caught) == code, bad
    assert engine.one("select count(*) from tasker.tasks") == 0
    assert engine.queued() == []


def test_every_unreadable_request_is_named(engine: Engine) -> None:
    with pytest.raises(psycopg.Error) as caught:
        engine.rows("select * from tasker.create_tasks(%s)", Jsonb([5, {"name": "x"}, {"name": "x", "tags": []}]))
    assert '"path": "[0]"' in str(caught.value.diag.message_detail)
    assert '"path": "[2]"' in str(caught.value.diag.message_detail)


def test_a_request_with_a_field_that_nobody_knows_is_refused(engine: Engine) -> None:
    """A mistyped key would otherwise be a task without one."""
    engine.call("register_template", p_template=graph(step("a")))
    with pytest.raises(psycopg.Error, match="unknown field idempotencykey, tag; known are name, context") as refused:
        engine.rows(
            "select * from tasker.create_tasks(%s)", Jsonb([{"name": "flow", "tag": {}, "idempotencykey": "k"}])
        )
    assert refused.value.sqlstate == "TK400"
    assert engine.rows("select from tasker.tasks") == []


def test_a_graph_says_its_namespace_once(engine: Engine) -> None:
    flow = {**graph(step("a")), "namespace": "north"}
    task = engine.create(flow)
    assert engine.one("select namespace from tasker.tasks where task_uuid = %s", task) == "north"
    engine.create(flow, p_namespace="north")
    with pytest.raises(
        psycopg.Error, match="the graph is one of namespace north, and the task was asked for in south"
    ) as refused:
        engine.create(flow, p_namespace="south")
    assert refused.value.sqlstate == "TK400"


def test_no_request_is_no_task(engine: Engine) -> None:
    assert engine.rows("select * from tasker.create_tasks('[]')") == []


# -- idempotency -----------------------------------------------------------------------------------------------------


def test_the_same_request_with_the_same_key_is_the_same_task(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    request = {"p_name": "flow", "p_context": {"b": 1, "a": 2}, "p_idempotency_key": "k"}
    first = engine.call("create_task", **request)
    assert engine.call("create_task", **request) == first
    assert engine.call("create_task", **request, p_correlation_id=uuid.uuid4(), p_requested_by="bob") == first, (
        "who asks and under which trace does not make it another request"
    )
    engine.drain()
    assert engine.call("create_task", **request) == first, "also when the task is long done"
    assert engine.one("select count(*) from tasker.tasks") == 1


def test_the_same_request_through_another_door_is_the_same_task(engine: Engine) -> None:
    """create_task spells its defaults out, a bulk request leaves them away: that is no difference."""
    engine.call("register_template", p_template=graph(step("a")))
    first = engine.call("create_task", p_name="flow", p_idempotency_key="k")
    requests: list[dict[str, Any]] = [
        {},
        {"priority": 0, "start": True},
        {"context": {}, "tags": None, "namespace": "default"},
    ]
    for request in requests:
        assert engine.column(
            "select * from tasker.create_tasks(%s)", Jsonb([{"name": "flow", "idempotency_key": "k", **request}])
        ) == [first]


def test_another_request_with_the_same_key_is_refused(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    engine.call("register_template", p_template=graph(step("a"), name="other"))
    request = {"p_name": "flow", "p_context": {"x": 1}, "p_idempotency_key": "k"}
    first = engine.call("create_task", **request)
    changes: list[dict[str, Any]] = [
        {"p_context": {"x": 2}},
        {"p_priority": 1},
        {"p_tags": {"x": 1}},
        {"p_version": "1.0.0"},
        {"p_start": False},
        {"p_name": "other"},
    ]
    for change in changes:
        with pytest.raises(psycopg.Error) as caught:
            engine.call("create_task", **{**request, **change})
        assert sqlstate(caught) == "TK423", change
        assert str(first) in str(caught.value.diag.message_detail)


def test_a_key_counts_inside_its_namespace(engine: Engine) -> None:
    first = engine.create(graph(step("a")), p_idempotency_key="k")
    second = engine.create(graph(step("a")), p_idempotency_key="k", p_namespace="other")
    assert first != second


def test_an_ad_hoc_graph_has_keys_too(engine: Engine) -> None:
    first = engine.create(graph(step("a")), p_idempotency_key="k")
    assert engine.create(graph(step("a")), p_idempotency_key="k") == first
    with pytest.raises(psycopg.Error) as caught:
        engine.create(graph(step("b")), p_idempotency_key="k")
    assert sqlstate(caught) == "TK423"
    assert engine.one("select count(*) from tasker.workflow_steps") == 1


def test_a_key_twice_in_one_call(engine: Engine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    same = {"name": "flow", "idempotency_key": "k"}
    first, again, other = engine.column("select * from tasker.create_tasks(%s)", Jsonb([same, same, {"name": "flow"}]))
    assert first == again != other
    with pytest.raises(psycopg.Error) as caught:
        engine.rows(
            "select * from tasker.create_tasks(%s)",
            Jsonb([{**same, "idempotency_key": "n"}, {**same, "idempotency_key": "n", "priority": 1}]),
        )
    assert sqlstate(caught) == "TK423"
    assert engine.one("select count(*) from tasker.tasks") == 2


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_sessions_with_one_key_make_one_task(engine: Engine, open_engine: OpenEngine, ending: str) -> None:
    """The second waits for the first; if the first does not commit, the second makes the task."""
    other, watcher = open_engine(), open_engine()
    engine.call("register_template", p_template=graph(step("a")))
    engine.begin()
    first = engine.call("create_task", p_name="flow", p_idempotency_key="k")
    waiting = Background(lambda: other.call("create_task", p_name="flow", p_idempotency_key="k"))
    watcher.wait_until_blocked(other)
    engine.connection.execute(ending.encode())
    assert (waiting.result() == first) == (ending == "commit")
    assert engine.one("select count(*) from tasker.tasks") == 1
    assert len(engine.queued()) == 1
    engine.check()


def test_a_storm_with_one_key_makes_one_task(engine: Engine, open_engine: OpenEngine) -> None:
    engine.call("register_template", p_template=graph(step("a")))
    sessions = [open_engine() for _ in range(16)]
    tasks = in_parallel([partial(s.call, "create_task", p_name="flow", p_idempotency_key="k") for s in sessions])
    assert len(set(tasks)) == 1
    assert len(engine.queued()) == 1


def test_bulk_calls_with_the_same_keys_in_other_order_do_not_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    """Each waits for the other's keys; whoever comes second finds the tasks of the first."""
    engine.call("register_template", p_template=graph(step("a")))
    forth, back, watcher = open_engine(), open_engine(), open_engine()
    requests = [{"name": "flow", "idempotency_key": key} for key in ("a", "between", "z")]
    engine.begin()
    engine.call("create_task", p_name="flow", p_idempotency_key="between")
    calls = [
        Background(lambda: forth.column("select * from tasker.create_tasks(%s)", Jsonb(requests))),
        Background(lambda: back.column("select * from tasker.create_tasks(%s)", Jsonb(requests[::-1]))),
    ]
    watcher.wait_until_blocked(forth)
    watcher.wait_until_blocked(back)
    engine.rollback()
    assert calls[0].result() == calls[1].result()[::-1]
    assert engine.one("select count(*) from tasker.tasks") == 3


# -- the caller's transaction ----------------------------------------------------------------------------------------


def test_a_task_is_created_with_the_callers_own_data_or_not_at_all(engine: Engine, open_engine: OpenEngine) -> None:
    """Nothing is left of a transaction that is rolled back: no row, no message; nothing is seen before it commits."""
    other = open_engine()
    engine.rows("create table orders (id int)")
    before = engine.one("select count(*) from tasker.changes where log <> 'worker'")
    engine.begin()
    engine.rows("insert into orders values (1)")
    engine.create(graph(step("a")), p_namespace="fresh")
    assert other.claim() == []
    engine.rollback()
    for table in ("orders", "tasker.tasks", "tasker.workflow_steps", "tasker.task_transitions", "tasker.timers"):
        assert engine.one(f"select count(*) from {table}") == 0, table
    assert engine.one("select count(*) from tasker.changes where log <> 'worker'") == before
    assert engine.column("select namespace from tasker.task_namespaces where namespace = 'fresh'") == []

    engine.begin()
    engine.rows("insert into orders values (1)")
    engine.create(graph(step("a")))
    assert other.claim() == []
    engine.commit()
    assert len(other.claim()) == 1


def test_a_savepoint_takes_back_only_its_own(engine: Engine) -> None:
    engine.begin()
    engine.create(graph(step("kept")))
    engine.rows("savepoint s")
    engine.create(graph(step("dropped")))
    engine.rows("rollback to savepoint s")
    engine.commit()
    assert [c["name"] for c in engine.claim()] == ["kept"]
    engine.check()


@on_one_server
def test_twenty_thousand_in_one_call_and_all_of_them_once_more(engine: Engine) -> None:
    """`python -m bench.bulk` measures a hundred thousand."""
    engine.call("register_template", p_template=graph(step("a"), step("b", "a")))
    requests = [{"name": "flow", "context": {"n": n}, "idempotency_key": f"k{n}"} for n in range(20_000)]
    made = engine.column("select tasker.create_tasks(%s)", Jsonb(requests))
    assert len(set(made)) == 20_000
    assert engine.column("select tasker.create_tasks(%s)", Jsonb(requests)) == made, "found, each in its place"
    counted = engine.row(
        "select count(*) as tasks, sum(total_steps) as steps, sum(in_flight_steps) as queued from tasker.tasks"
    )
    assert tuple(counted.values()) == (20_000, 40_000, 20_000)
    assert len(engine.queued()) == 20_000
    for task in made[:: len(made) // 5]:
        engine.check(task)
