"""Tasks, steps and counts as pages show them: found page by page along an index, however many there are."""

from __future__ import annotations

# ruff: noqa: F811 (a fixture is a parameter of that name)
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.kernel.conftest import engine, rules, shared_conn  # noqa: F401 (fixtures)
from tests.kernel.engine import DIAMOND, Engine, chain, refused

MANY = 1000


@pytest.fixture(scope="module")
def crowd(shared_conn: psycopg.Connection[Any]) -> Engine:
    """Thousands of finished tasks of two names in two namespaces, and a few that failed among the oldest."""
    engine = Engine(shared_conn)
    for namespace in ("left", "right"):
        for name in ("common", "rare"):
            engine.one(
                "select tasker.register_template(%s)",
                json.dumps({"name": name, "namespace": namespace, "steps": []}),
            )
    failed = [engine.task(chain("a"), namespace="left") for _ in range(3)]
    for task in failed:
        step = engine.steps(task)["a"]
        engine.move_step(step, "fail", error={"message": "no"})
        engine.command("give_up_task", task)
    engine.run("select tasker.create_task('rare', p_namespace => 'right')")
    for namespace in ("left", "right"):
        engine.run(
            "select tasker.create_tasks((select jsonb_agg(jsonb_build_object('name', 'common', 'namespace', %s::text))"
            " from generate_series(1, %s)))",
            namespace,
            MANY,
        )
    shared_conn.execute("vacuum analyze tasker.tasks, tasker.task_transitions")
    return engine


def pages(engine: Engine, limit: int, **where: Any) -> Iterator[list[UUID]]:
    """All pages of a search."""
    before = None
    while True:
        named = "".join(f", p_{name} => %({name})s" for name in where)
        page = engine.conn.execute(
            f"select * from tasker.find_tasks(p_before => %(before)s, p_limit => %(limit)s{named})".encode(),
            {"before": before, "limit": limit, **where},
        ).fetchone()
        assert page is not None
        yield page[0]
        before = page[1]
        if before is None:
            return


def expected(engine: Engine, where: str = "true") -> list[UUID]:
    return engine.values(f"select task_uuid from tasker.task_overview where {where} order by task_uuid desc")


@pytest.mark.parametrize(
    ("filters", "where"),
    [
        ({}, "true"),
        ({"namespace": "left"}, "namespace = 'left'"),
        ({"phase": "failed"}, "phase = 'failed'"),
        ({"state": "complete", "namespace": "right"}, "state = 'complete' and namespace = 'right'"),
        ({"state": "complete", "phase": "failed"}, "false"),
        ({"name": "rare"}, "name = 'rare'"),
        ({"name": "common", "namespace": "left"}, "name = 'common' and namespace = 'left'"),
        ({"name": "rare", "phase": "succeeded"}, "name = 'rare'"),
        ({"name": "common", "phase": "failed"}, "false"),
        ({"state": "nonsense"}, "false"),
        ({"namespace": "nonsense"}, "false"),
    ],
)
def test_the_pages_together_are_the_whole_in_order(crowd: Engine, filters: dict[str, Any], where: str) -> None:
    found = [task for page in pages(crowd, 700, **filters) for task in page]
    assert found == expected(crowd, where)


@pytest.mark.parametrize(
    "filters",
    [{}, {"namespace": "right"}, {"phase": "failed"}, {"state": "complete"}, {"name": "rare"}, {"name": "common", "namespace": "left"}],
)  # fmt: skip
def test_a_page_reads_along_an_index_what_it_shows_and_little_more(crowd: Engine, filters: dict[str, Any]) -> None:
    def read_so_far() -> tuple[int, int]:
        row = crowd.row(
            "select sum(seq_scan)::int as scans, sum(idx_tup_fetch)::int as rows from pg_stat_xact_user_tables"
            " where schemaname = 'tasker' and relname in ('tasks', 'task_transitions')"
        )
        return row["scans"], row["rows"]

    with crowd.conn.transaction():
        scans, rows = read_so_far()
        next(pages(crowd, 20, **filters))
        assert read_so_far()[0] == scans
        # a namespace and a state each has a place of its own to begin at
        assert read_so_far()[1] - rows <= 20 * 4


@pytest.mark.parametrize("limit", [0, 1001, None])
def test_a_page_has_a_sensible_size(rules: Engine, limit: int | None) -> None:
    with refused("TK400"):
        rules.row("select * from tasker.find_tasks(p_limit => %s::int)", limit)


def test_a_rare_state_of_a_common_name_is_found_after_empty_pages(crowd: Engine) -> None:
    """The look is bounded; next_before leads on. (Bounded here by a function with a smaller window.)"""
    body = crowd.one("select pg_get_functiondef('tasker.find_tasks'::regproc)")
    with crowd.conn.transaction(force_rollback=True):
        crowd.conn.execute(body.replace("else 20000 end", "else 500 end"))
        crowd.run(
            "update tasker.tasks set name = 'common' where task_uuid in (select task_uuid from tasker.task_overview where phase = 'failed')"
        )
        found = list(pages(crowd, 10, name="common", phase="failed", namespace="left"))
        assert [page for page in found if page] == [expected(crowd, "phase = 'failed'")]
        assert len(found) > MANY / 500


def test_counts_by_state_stop_where_they_are_told(crowd: Engine) -> None:
    assert crowd.rows("select * from tasker.count_tasks()") == crowd.rows(
        "select namespace, state, phase, count(*)::int as tasks from tasker.task_overview group by 1, 2, 3 order by 1, 2"
    )
    counted = crowd.rows("select * from tasker.count_tasks('left', 100)")
    assert {row["state"]: row["tasks"] for row in counted} == {"complete": 100, "error": 3}
    with refused("TK400"):
        crowd.rows("select * from tasker.count_tasks(p_at_most => 0)")


def test_a_task_has_a_new_revision_after_every_transition(engine: Engine) -> None:
    task = engine.task(DIAMOND)
    seen = [engine.one("select tasker.task_revision(%s)", task)]

    def logged() -> int:
        count: int = engine.one("select count(*) from tasker.timeline where task_uuid = %s", task)
        return count

    assert seen[-1] == logged()
    worker = engine.worker()
    while claimed := engine.claim(worker):
        seen.append(engine.one("select tasker.task_revision(%s)", task))
        engine.complete(claimed[0])
        seen.append(engine.one("select tasker.task_revision(%s)", task))
        engine.orchestrate()
        assert engine.one("select tasker.task_revision(%s)", task) == logged()
    assert seen == sorted(set(seen))
    assert engine.one("select tasker.task_revision(%s)", uuid4()) is None


def test_spans_are_the_log_of_each_step(engine: Engine) -> None:
    task = engine.task(DIAMOND)
    (claimed,) = engine.claim(engine.worker())
    engine.complete(claimed)
    engine.orchestrate()
    spans = engine.rows("select * from tasker.step_spans(%s)", task)
    for name, step in engine.steps(task).items():
        own = [span for span in spans if span["workflow_step_uuid"] == step]
        assert [span["state"] for span in own] == [to_state for *_, to_state in engine.step_log(step)]
        assert [span["until_at"] for span in own[:-1]] == [span["from_at"] for span in own[1:]]
        # what has ended has no end of its last state; what has not, has now
        assert (own[-1]["until_at"] is None) == (name == "top")
    second = engine.rows("select distinct name from tasker.step_spans(%s, 1, 2)", task)
    assert {row["name"] for row in second} == {"left", "right"}
    with refused("TK400"):
        engine.rows("select * from tasker.step_spans(%s, 0, 0)", task)


def test_throughput_counts_the_results_of_each_minute(engine: Engine) -> None:
    engine.task(chain("a"), namespace="left")
    engine.task(chain("b", max_attempts=1), namespace="right")
    worker = engine.worker()
    engine.complete(engine.claim(worker, namespace="left")[0])
    engine.fail(engine.claim(worker, namespace="right")[0], "permanent")
    minutes = engine.rows("select * from tasker.recent_throughput(5)")
    assert len(minutes) == 5
    assert [minute["minute"] for minute in minutes] == sorted(minute["minute"] for minute in minutes)
    assert (sum(m["succeeded"] for m in minutes), sum(m["failed"] for m in minutes)) == (1, 1)
    one = engine.rows("select * from tasker.recent_throughput(5, 'left')")
    assert (sum(m["succeeded"] for m in one), sum(m["failed"] for m in one)) == (1, 0)
    with refused("TK400"):
        engine.rows("select * from tasker.recent_throughput(0)")


def test_throughput_reads_what_is_recent_and_no_more(engine: Engine) -> None:
    engine.task(chain("a"))
    engine.complete(engine.claim(engine.worker())[0])
    with engine.conn.transaction(force_rollback=True):
        engine.run("set local session_replication_role = replica")  # rows of long ago, without what they refer to
        engine.run(
            "insert into tasker.workflow_step_result_audit (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace,"
            " recorded_at, success) select workflow_step_uuid, gen_random_uuid(), task_uuid, namespace, recorded_at - interval '1 year', success"
            " from tasker.workflow_step_result_audit, generate_series(1, 1000)"
        )

        def read_so_far() -> int:
            return engine.one(  # type: ignore[no-any-return]
                "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'workflow_step_result_audit'"
            )

        before = read_so_far()
        minutes = engine.rows("select * from tasker.recent_throughput(5)")
        assert sum(minute["succeeded"] for minute in minutes) == 1
        assert read_so_far() - before < 10


def test_overviews_show_workers_and_breakers(engine: Engine) -> None:
    worker = engine.worker("w")
    engine.task(chain("a"))
    engine.claim(worker)
    row = engine.row("select * from tasker.worker_overview")
    assert (row["worker_uuid"], row["name"], row["held_steps"]) == (worker, "w", 1)
    engine.one("select tasker.configure_breaker('curl', 1, p_vocabulary => 'pipeline')")
    engine.one("select tasker.record_breaker_result('curl', false)")
    row = engine.row("select * from tasker.breaker_overview")
    assert (row["tool"], row["state"], row["failures"], row["held_back_steps"]) == ("curl", "OPEN", 1, 0)


def test_allowed_commands_are_those_that_are_not_refused(engine: Engine) -> None:
    """Each command is tried from each state in which a task or step can be parked."""
    for kind, states, park in (
        ("task", ("pending", "steps_in_process", "blocked_by_failures", "error", "cancelled", "complete"), engine.parked_task),
        ("step", ("pending", "in_progress", "waiting_for_retry", "error", "cancelled", "complete"), engine.parked_step),
    ):  # fmt: skip
        for state in states:
            uuid = park(state)
            offered = engine.values("select command from tasker.allowed_commands(%s, %s)", kind, str(uuid))
            tried = [c for c in COMMANDS[kind] if _is_accepted(engine, c, uuid)]
            assert sorted(offered) == sorted(tried), (kind, state)
    with refused("TK400"):
        engine.rows("select * from tasker.allowed_commands('namespace', 'x')")


COMMANDS = {
    "task": ("cancel_task", "give_up_task", "resolve_task", "reset_task", "resume_task"),
    "step": ("cancel_step", "skip_step", "retry_step", "reset_step", "resolve_step"),
}


def _is_accepted(engine: Engine, command: str, uuid: UUID) -> bool:
    with engine.conn.transaction(force_rollback=True):
        code = engine.row("select code from tasker.attempt_command(%s, %s, 'why', 'ada')", command, str(uuid))["code"]
    assert code in (None, "TK409"), code
    return code is None
