"""Workers that lack a handler: its steps are left to others, use up no attempt, and somebody is told."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from pgtasker import Client, StepContext, Worker
from tests.pyclient.conftest import client, eventually
from tests.pyclient.test_worker import running
from tests.workflow.engine import Engine, Row, graph, report_of, step
from tests.workflow.fixtures import OpenEngine, engine, open_engine

__all__ = ["client", "engine", "open_engine"]

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution"]


def mixed(*handlers: str, **fields: Any) -> Row:
    """Steps that do not depend on each other, called by number."""
    return graph(*(step(f"s{n}", handler=handler) for n, handler in enumerate(handlers)), **fields)


def register(engine: Engine, name: str, *handlers: str, **more: Any) -> UUID:
    return engine.worker(name, p_handlers=list(handlers), **more)


def handlers_of(claims: list[Row]) -> list[str]:
    return sorted(claimed["handler"] for claimed in claims)


def said(engine: Engine) -> list[tuple[str | None, str | None]]:
    notices: list[tuple[str | None, str | None]] = []
    engine.connection.add_notice_handler(lambda notice: notices.append((notice.severity, notice.message_primary)))
    return notices


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("limit", [1, 100])
def test_a_worker_is_given_steps_of_its_handlers_alone(engine: Engine, vocabulary: str, limit: int) -> None:
    task = engine.create(mixed("new", "old", "new", "old", "new", vocabulary=vocabulary))
    register(engine, "old", "old")
    register(engine, "new", "new")
    claims: dict[str, list[Row]] = {"old": [], "new": []}
    for name in ("old", "new"):
        while got := engine.claim(limit=limit, worker=name):
            claims[name] += got
    assert handlers_of(claims["old"]) == ["old"] * 2
    assert handlers_of(claims["new"]) == ["new"] * 3
    assert [claimed["name"] for claimed in claims["new"]] == ["s0", "s2", "s4"], "in their order"
    assert {claimed["attempt"] for claimed in claims["new"]} == {1}
    engine.complete(claims["old"] + claims["new"])
    engine.drain()
    attempts = engine.rows("select distinct attempts from tasker.workflow_steps where task_uuid = %s", task)
    assert attempts == [{"attempts": 1}]
    logs = engine.rows(
        "select array_agg(t.event order by t.sort_key) as events from tasker.workflow_step_transitions t"
        " join tasker.workflow_steps s using (workflow_step_uuid) where s.task_uuid = %s group by s.workflow_step_uuid",
        task,
    )
    assert len({tuple(log["events"]) for log in logs}) == 1, "the log of what was left is that of what was not"
    assert engine.rows("select * from tasker.handler_waits") == []
    engine.check()


def test_what_was_left_is_nowhere_lost_and_makes_nobody_busy(engine: Engine, database: str) -> None:
    engine.create(mixed(*["new"] * 200))
    register(engine, "old", "old")
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen tasker_work")
        rounds = 0
        while engine.one("select count(*) from tasker.handler_waits") < 200:
            assert engine.claim(limit=1, worker="old") == []
            rounds += 1
            assert rounds < 20
        list(listener.notifies(timeout=0.2))
        before = engine.rows("select xmin, created_at from tasker.handler_waits order by workflow_step_uuid")
        for _ in range(5):
            assert engine.claim(worker="old") == []
        assert list(listener.notifies(timeout=0.2)) == [], "who can't do it is not woken again"
    assert engine.rows("select xmin, created_at from tasker.handler_waits order by workflow_step_uuid") == before
    assert engine.rows("select * from tasker.recover(true)") == []
    engine.check()
    register(engine, "new", "new")
    assert len(engine.claim(limit=200, worker="new")) == 200
    engine.check()


def test_leaving_wakes_those_who_have_the_handler(engine: Engine, database: str) -> None:
    engine.create(mixed("new"))
    register(engine, "old", "old")
    engine.one("select pg_sleep(0.02)")  # signals of a namespace are 10 ms apart
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen tasker_work")
        engine.claim(worker="old")
        assert [notice.payload for notice in listener.notifies(timeout=5, stop_after=1)] == ["default"]


def test_workers_that_name_no_handler_are_given_everything(engine: Engine) -> None:
    engine.create(mixed("a", "b"))
    register(engine, "other", "c")
    assert engine.claim(worker="other") == []
    assert handlers_of(engine.claim(worker="any")) == ["a", "b"]


def test_a_worker_without_handlers_is_given_nothing(engine: Engine) -> None:
    engine.create(mixed("a"))
    register(engine, "driver")
    assert engine.claim(worker="driver") == []
    assert handlers_of(engine.claim(worker="any")) == ["a"]


def test_hand_overs_look_at_handlers_too(engine: Engine) -> None:
    task = engine.create(
        graph(
            step("first", handler="old"), step("mine", "first", handler="old"), step("theirs", "first", handler="new")
        )
    )
    register(engine, "old", "old")
    register(engine, "new", "new")
    claims = engine.claim(worker="old")
    outcomes, claims = engine.report_and_claim([report_of(c) for c in claims], worker="old")
    assert [outcome["code"] for outcome in outcomes] == [None]
    assert [claimed["name"] for claimed in claims] == ["mine"]
    assert engine.claim(worker="old") == []
    (theirs,) = engine.claim(worker="new")
    assert (theirs["name"], theirs["attempt"]) == ("theirs", 1)
    engine.complete([*claims, theirs])
    engine.drain()
    assert engine.state(task) == "complete"
    engine.check()


def test_what_was_left_keeps_to_namespaces_pauses_capabilities_and_priorities(engine: Engine) -> None:
    ways: dict[str, Row] = {"plain": {}, "urgent": {"p_priority": 5}, "paused": {"p_namespace": "paused"}, "able": {}}
    for name, fields in ways.items():
        engine.create(graph(step(name, handler="new", **({"requires": ["gpu"]} if name == "able" else {}))), **fields)
    register(engine, "old", "old", p_capabilities=["gpu"])
    assert engine.claim(worker="old") == []
    assert engine.one("select count(*) from tasker.handler_waits") == 4
    engine.rows("select tasker.pause_namespace('paused', 'r', 'ada')")
    register(engine, "new", "new")
    register(engine, "elsewhere", "new", p_namespaces=["elsewhere"])
    assert engine.claim(worker="elsewhere") == []
    assert [claimed["name"] for claimed in engine.claim(worker="new")] == ["urgent", "plain"]
    register(engine, "gpu", "new", p_capabilities=["gpu"])
    assert [claimed["name"] for claimed in engine.claim(worker="gpu")] == ["able"]
    engine.rows("select tasker.resume_namespace('paused', 'r', 'ada')")
    assert [claimed["name"] for claimed in engine.claim(worker="gpu")] == ["paused"]
    engine.check()


def test_what_is_cancelled_or_retried_meanwhile(engine: Engine) -> None:
    task = engine.create(mixed("new", "new", "old"))
    register(engine, "old", "old")
    register(engine, "new", "new")
    (old,) = engine.claim(worker="old")
    steps = {
        row["name"]: row["workflow_step_uuid"]
        for row in engine.rows("select name, workflow_step_uuid from tasker.workflow_steps")
    }
    engine.rows("select tasker.cancel_step(%s, 'r', 'ada')", steps["s0"])
    (got,) = engine.claim(worker="new", limit=1)
    assert got["name"] == "s1", "what was cancelled in front is no empty queue"
    engine.fail([got], retry_after=0)
    engine.orchestrate()
    engine.rows("select tasker.tick()")
    assert engine.claim(worker="old") == [], "it is left again"
    (again,) = engine.claim(worker="new")
    assert (again["name"], again["attempt"]) == ("s1", 2)
    engine.complete([old, again])
    engine.rows("select tasker.cancel_task(%s, 'r', 'ada')", task)
    engine.check()


def test_two_who_have_the_handler_take_each_step_once_and_one_who_dies_takes_none(
    engine: Engine, open_engine: OpenEngine
) -> None:
    engine.create(mixed(*["new"] * 40))
    register(engine, "old", "old")
    while engine.one("select count(*) from tasker.handler_waits") < 40:
        engine.claim(worker="old")
    workers = [register(engine, name, "new") for name in ("one", "two", "dying")]
    dying = open_engine(autocommit=False)
    assert len(dying.claim(limit=10, worker=workers[2])) == 10
    taken: list[UUID] = []

    def take(worker: UUID, session: Engine) -> None:
        while claims := session.claim(limit=3, worker=worker):
            taken.extend(claimed["workflow_step_uuid"] for claimed in claims)

    threads = [threading.Thread(target=take, args=(worker, open_engine())) for worker in workers[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 30, "what the other one has in its hands is skipped"
    dying.rollback()
    take(workers[0], engine)
    assert len(set(taken)) == 40
    engine.check()


def test_handlers_that_are_no_names(engine: Engine) -> None:
    for handlers in (["a", None], [""]):
        with pytest.raises(psycopg.Error) as refusal:
            engine.call("register_worker", p_name="w", p_handlers=handlers)
        assert refusal.value.sqlstate == "TK400"
    one = engine.call("register_worker", p_name="w", p_handlers=["a"], p_request_id="r")
    assert engine.call("register_worker", p_name="w", p_handlers=["a"], p_request_id="r") == one
    with pytest.raises(psycopg.Error) as refusal:
        engine.call("register_worker", p_name="w", p_handlers=["b"], p_request_id="r")
    assert refusal.value.sqlstate == "TK423"


# ------------------------------------------------------------------------------------------------------------ words


def why(engine: Engine, task: UUID) -> str:
    return engine.one("select tasker.explain_task(%s) -> 'reasons' -> 0 ->> 'why'", task)  # type: ignore[no-any-return]


def test_somebody_is_told_which_handler_is_missing_and_who_is_there(engine: Engine) -> None:
    task = engine.create(mixed("new", "new"))
    assert why(engine, task) == "stands in the queue of namespace default; no worker for it is registered and alive"
    register(engine, "alpha", "old", "older")
    words = "no living worker has handler new; there are alpha (old, older)"
    assert why(engine, task) == f"stands in the queue of namespace default; {words}"
    notices = said(engine)
    engine.claim(worker="alpha")
    ((severity, message),) = notices
    assert (severity, message) == ("WARNING", f"2 step(s) of namespace default were left to others: {words}")
    assert why(engine, task) == f"was left by a worker without handler new; {words}"

    findings = "select * from tasker.diagnose_work() where finding = 'handler_without_worker'"
    assert engine.rows(findings) == [], "a rollout takes a moment"
    engine.shift_clock("2 minutes")
    (found,) = engine.rows(findings)
    assert (found["subject"], found["severity"]) == ("handler new in namespace default", "error")
    assert found["actual"].startswith("2 step(s) wait, the first since 20")
    assert found["actual"].endswith(words)
    assert found["mend"] == "pgtasker worker run your_module:worker --namespace default"

    register(engine, "beta", "new")
    assert engine.rows(findings) == []
    assert why(engine, task) == "was left by a worker without handler new; one that has it should take it soon"
    notices.clear()
    engine.create(mixed("new"))
    engine.claim(worker="alpha")
    ((severity, message),) = notices
    assert (severity, message) == ("NOTICE", "1 step(s) of namespace default were left to workers with handler new")


# ---------------------------------------------------------------------------------------------------- the Python worker


def test_the_python_worker_says_so_in_its_log_once(
    database: str, client: Client, caplog: pytest.LogCaptureFixture, conn: psycopg.Connection[Any]
) -> None:
    worker = Worker(database, name="alpha", poll_interval=0.05)
    worker.step("old")(lambda ctx: ctx.name)
    task = client.create_task_from_graph(mixed("old", "new"))
    waits = "select count(*) from tasker.handler_waits"
    with caplog.at_level(logging.INFO, logger="pgtasker.worker"), running(worker):
        eventually(lambda: conn.execute(waits).fetchone() == (1,))
        client.create_task_from_graph(mixed("new", "new"))
        eventually(lambda: conn.execute(waits).fetchone() == (3,))
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "1 step(s) of namespace default were left to others: no living worker has handler new; there are alpha (old)"
    ]
    assert {step.name: (step.phase, step.attempts) for step in client.steps(task)} == {
        "s0": ("succeeded", 1), "s1": ("queued", 0),
    }  # fmt: skip
    (told,) = [reason for reason in client.explain_task(task).reasons if reason.step == "s1"]
    assert "no worker for it is registered and alive" in str(told.why)


def test_a_worker_for_all_other_names_is_given_everything(database: str, client: Client) -> None:
    worker = Worker(database)
    worker.step("*")(lambda ctx: ctx.handler)
    task = client.create_task_from_graph(mixed("whatever"))
    worker.run_until(task, timeout=30)
    (done,) = client.steps(task)
    assert done.result == "whatever"


ROLLOUT = """
import os
from pgtasker import Worker

worker = Worker(namespaces=["shop"], poll_interval=0.2, lease=5.0)


def work(ctx):
    return {"by": os.environ["RELEASE"], "version": ctx.context["version"], "inputs": sorted(ctx.inputs)}


for name in os.environ["HANDLERS"].split(","):
    worker.step(name)(work)
"""

V1: Row = {
    "name": "order", "namespace": "shop", "version": "1",
    "steps": [{"name": "reserve"}, {"name": "charge", "depends_on": ["reserve"]}, {"name": "ship", "depends_on": ["charge"]}],
}  # fmt: skip
V2: Row = {
    **V1, "version": "2",
    "steps": [
        {"name": "reserve"},
        {"name": "check_fraud", "depends_on": ["reserve"]},
        {"name": "charge", "depends_on": ["check_fraud"]},
        {"name": "ship", "depends_on": ["charge"]},
    ],
}  # fmt: skip

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def release(tmp_path: Path, database: str) -> Iterator[Start]:
    """Start a worker process of a release: `release("1", "reserve", "charge")`."""
    (tmp_path / "shop.py").write_text(ROLLOUT)
    processes: list[subprocess.Popen[bytes]] = []

    def start(number: str, *handlers: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgtasker.worker", "shop:worker", "--name", f"release {number}"],
            cwd=tmp_path,
            env={**os.environ, "PGTASKER_WORKER_DSN": database, "RELEASE": number, "HANDLERS": ",".join(handlers)},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_a_release_is_rolled_out_under_load_and_nothing_fails(
    release: Start, client: Client, conn: psycopg.Connection[Any]
) -> None:
    """The template comes first, then the workers, old and new ones side by side; tasks of both versions end as they began."""
    first = ("reserve", "charge", "ship")
    client.register_template(V1)
    tasks: dict[str, list[UUID]] = {"1": [], "2": []}

    def create(version: str, count: int) -> None:
        # the newest version, as a service asks for it
        tasks[version] += client.create_tasks(
            [{"name": "order", "namespace": "shop", "context": {"version": version}}] * count
        )

    old = [release("1", *first) for _ in range(2)]
    create("1", 30)
    eventually(lambda: any(task.phase == "succeeded" for task in map(client.task, tasks["1"])))
    create("1", 20)  # some are under way when version 2 comes
    client.register_template(V2)
    create("2", 20)
    # only old workers so far: what they lack waits, and version 1 goes on
    eventually(lambda: all(client.task(task).phase == "succeeded" for task in tasks["1"]), 60)
    eventually(lambda: conn.execute("select count(*) from tasker.handler_waits").fetchone() == (20,), 60)
    explained = client.explain_task(tasks["2"][0])
    words = "no living worker has handler check_fraud; there are release 1 (charge, reserve, ship)"
    assert words in str(explained.reasons[0].why)
    new = [release("2", *first, "check_fraud")]
    create("2", 20)  # old and new side by side
    old[0].terminate()
    assert old[0].wait(30) == 0
    new.append(release("2", *first, "check_fraud"))
    old[1].terminate()
    assert old[1].wait(30) == 0
    create("2", 10)
    eventually(lambda: all(client.task(task).phase == "succeeded" for task in [*tasks["1"], *tasks["2"]]), 90)

    for version, steps in (("1", V1["steps"]), ("2", V2["steps"])):
        for task in tasks[version]:
            assert client.task(task).version == version
            done = {found.name: found for found in client.steps(task)}
            assert list(done) == [one["name"] for one in steps]
            assert {found.attempts for found in done.values()} == {1}, "nothing was tried twice"
            assert {found.result["version"] for found in done.values()} == {version}
            assert all(done[one["name"]].result["inputs"] == one.get("depends_on", []) for one in steps)
            if version == "2":
                assert done["check_fraud"].result["by"] == "2"
    reported = conn.execute("select bool_and(success), count(*) from tasker.workflow_step_result_audit").fetchone()
    assert reported == (True, 50 * 3 + 50 * 4)
    assert conn.execute("select count(*) from tasker.rejected_transitions").fetchone() == (0,)
    assert conn.execute("select count(*) from tasker.handler_waits").fetchone() == (0,)
    assert client.check_consistency() == []


def test_a_running_task_keeps_its_version(database: str, client: Client) -> None:
    """Registered meanwhile: a step more, other arguments, another handler; none of it is for the task that runs."""
    seen: list[tuple[str, str, Any]] = []

    def work(ctx: StepContext) -> None:
        seen.append((ctx.handler, ctx.name, ctx.arguments))
        if ctx.name == "a" and not ctx.arguments.get("new"):
            client.register_template({
                "name": "flow", "version": "2",
                "steps": [{"name": "a", "arguments": {"new": True}}, {"name": "between", "depends_on": ["a"]},
                          {"name": "b", "handler": "b2", "depends_on": ["between"], "arguments": {"new": True}}],
            })  # fmt: skip

    worker = Worker(database)
    for handler in ("a", "b", "b2", "between"):
        worker.step(handler)(work)
    client.register_template(
        {
            "name": "flow",
            "version": "1",
            "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"], "arguments": {"n": 1}}],
        }
    )
    task = client.create_task("flow")
    (done,) = worker.run_until(task, timeout=30)
    assert (done.version, done.phase, done.total_steps) == ("1", "succeeded", 2)
    assert seen == [("a", "a", {}), ("b", "b", {"n": 1})]
    seen.clear()
    (done,) = worker.run_until(client.create_task("flow"), timeout=30)
    assert done.version == "2"
    assert [(handler, name) for handler, name, _ in seen] == [("a", "a"), ("between", "between"), ("b2", "b")]
