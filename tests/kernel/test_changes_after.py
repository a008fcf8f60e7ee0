"""The change feed: every log row once, none missed however late its transaction commits, resumable anywhere."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, Engine, Row, chain, refused

Connect = Callable[..., psycopg.Connection[Any]]


def changes(engine: Engine, cursor: str | None = None, limit: int = 1000) -> list[Row]:
    return engine.rows("select cursor, change from tasker.changes_after(%s, %s)", cursor, limit)


def uuids(rows: list[Row]) -> list[str]:
    return [row["change"]["transition_uuid"] for row in rows]


def logged(engine: Engine) -> set[str]:
    """Every row of the logs of tasks, steps and workers."""
    return set(
        engine.values(
            "select task_transition_uuid::text from tasker.task_transitions"
            " union all select workflow_step_transition_uuid::text from tasker.workflow_step_transitions"
            " union all select worker_transition_uuid::text from tasker.worker_transitions"
        )
    )


@pytest.fixture
def at_work(engine: Engine) -> Iterator[Engine]:
    """Two tasks, one finished and one in the middle."""
    engine.task(DIAMOND)
    engine.finish(engine.worker())
    engine.task(chain("a", "b"))
    yield engine


def test_the_feed_is_the_logs_row_by_row(at_work: Engine) -> None:
    feed = changes(at_work)
    assert len(set(uuids(feed))) == len(feed)
    assert set(uuids(feed)) == logged(at_work)
    for row in feed:
        change = row["change"]
        log, key, entity = {
            "task": ("task_transitions", "task_transition_uuid", "task_uuid"),
            "step": ("workflow_step_transitions", "workflow_step_transition_uuid", "workflow_step_uuid"),
            "worker": ("worker_transitions", "worker_transition_uuid", "worker_uuid"),
        }[change["log"]]
        stored = at_work.row(
            f"select to_jsonb(t) as stored from tasker.{log} t where {key} = %s", change["transition_uuid"]
        )["stored"]
        assert change["entity_uuid"] == stored[entity]
        for field in (
            "task_uuid", "namespace", "lifecycle", "from_state", "to_state", "event", "sort_key", "metadata", "created_at",
        ):  # fmt: skip
            assert change.get(field) == stored.get(field)  # a worker has no task and no namespace


def test_each_entity_is_told_in_its_order(at_work: Engine) -> None:
    seen: dict[str, int] = {}
    for row in changes(at_work):
        change = row["change"]
        assert change["sort_key"] == seen.get(change["entity_uuid"], 0) + 1
        seen[change["entity_uuid"]] = change["sort_key"]


def test_it_can_be_resumed_at_every_single_place(at_work: Engine) -> None:
    feed = changes(at_work)
    for place, row in enumerate(feed):
        assert changes(at_work, row["cursor"]) == feed[place + 1 :]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_of_any_size_give_the_same_feed(at_work: Engine, limit: int) -> None:
    paged: list[Row] = []
    while page := changes(at_work, paged[-1]["cursor"] if paged else None, limit):
        assert len(page) <= limit
        paged += page
    assert paged == changes(at_work)


def test_from_now_means_what_comes_later(at_work: Engine) -> None:
    cursor = at_work.one("select tasker.current_cursor()")
    assert changes(at_work, cursor) == []
    before = logged(at_work)
    at_work.task(chain("later"))
    assert set(uuids(changes(at_work, cursor))) == logged(at_work) - before


def test_what_commits_late_is_not_missed(engine: Engine, connect: Connect) -> None:
    """Ids are taken at insert, rows appear at commit: a reader by id would have gone past the first transaction."""
    engine.one("select tasker.ensure_namespace('default')")
    early, late = connect(autocommit=False), connect(autocommit=False)
    first = Engine(early).task(chain("first"))
    second = Engine(late).task(chain("second"))
    late.commit()
    assert engine.state(second) == "steps_in_process", "it is committed and everybody sees it"
    held_back = changes(engine)
    early.commit()
    feed = changes(engine)
    assert {row["change"]["task_uuid"] for row in feed} == {str(first), str(second)}
    assert set(uuids(feed)) == logged(engine)
    assert feed[: len(held_back)] == held_back, "what was told before stays before"


def test_of_two_open_transactions_either_may_commit_first(engine: Engine, connect: Connect) -> None:
    engine.one("select tasker.ensure_namespace('default')")
    for first_to_commit in (0, 1):
        cursor = engine.one("select tasker.current_cursor()")
        open_ones = [connect(autocommit=False), connect(autocommit=False)]
        tasks = [Engine(conn).task(chain("only")) for conn in open_ones]
        told: list[Row] = []

        def read_on(told: list[Row] = told, cursor: str = cursor) -> None:
            told += changes(engine, told[-1]["cursor"] if told else cursor)

        read_on()
        assert told == []
        open_ones[first_to_commit].commit()
        read_on()
        open_ones[1 - first_to_commit].commit()
        read_on()
        assert sorted({row["change"]["task_uuid"] for row in told}) == sorted(str(task) for task in tasks)
        assert len(set(uuids(told))) == len(told) == 2 * (4 + 2)


def test_a_rolled_back_transaction_leaves_nothing_and_holds_nothing_up(engine: Engine, connect: Connect) -> None:
    engine.one("select tasker.ensure_namespace('default')")
    lost = connect(autocommit=False)
    Engine(lost).task(chain("lost"))
    task = engine.task(chain("kept"))
    lost.rollback()
    assert {row["change"]["task_uuid"] for row in changes(engine)} == {str(task)}


def test_a_savepoint_that_was_rolled_back_leaves_nothing(engine: Engine) -> None:
    with engine.conn.transaction():
        kept = engine.task(chain("kept"))
        with engine.conn.transaction(force_rollback=True):
            engine.task(chain("lost"))
        with engine.conn.transaction():
            nested = engine.task(chain("nested"))
    feed = changes(engine)
    assert {row["change"]["task_uuid"] for row in feed} == {str(kept), str(nested)}
    assert set(uuids(feed)) == logged(engine)


def test_a_reader_beside_many_writers_gets_every_row_once(engine: Engine, connect: Connect) -> None:
    """Four writers that hold their transactions open for a random while, one reader that never waits for them."""
    writers = [Engine(connect(autocommit=False)) for _ in range(4)]
    engine.one("select tasker.ensure_namespace('default')")
    barrier = threading.Barrier(len(writers))
    failures: list[BaseException] = []

    def write(place: int) -> None:
        dice = random.Random(place)
        try:
            for _ in range(12):
                barrier.wait(30)
                for _ in range(dice.randrange(1, 4)):
                    writers[place].task(chain("a", "b"))
                if dice.random() < 0.2:
                    writers[place].conn.rollback()
                else:
                    writers[place].conn.commit()
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=write, args=(place,)) for place in range(len(writers))]
    for thread in threads:
        thread.start()
    told: list[Row] = []
    dice = random.Random(7)
    while any(thread.is_alive() for thread in threads):
        told += changes(engine, told[-1]["cursor"] if told else None, dice.randrange(1, 50))
    for thread in threads:
        thread.join(60)
    assert failures == []
    while page := changes(engine, told[-1]["cursor"] if told else None, 50):
        told += page
    assert len(told) == len(set(uuids(told)))
    assert set(uuids(told)) == logged(engine)


def test_a_task_moved_by_an_older_transaction_is_put_in_order_by_its_sort_keys(
    engine: Engine, connect: Connect
) -> None:
    """Transactions are told in the order in which they began to write. Where that is not the order of an entity's
    log, sort_key is: a consumer that keeps the highest one it saw is never misled."""
    task = engine.task(chain("only"), start=False)
    cursor = engine.one("select tasker.current_cursor()")
    older = Engine(connect(autocommit=False))
    older.task(chain("something else"))
    engine.move_task(task, "start")
    older.move_task(task, "ready_steps_found")
    older.conn.commit()
    told = [row["change"]["sort_key"] for row in changes(engine, cursor) if row["change"]["entity_uuid"] == str(task)]
    assert sorted(told) == [2, 3]


@pytest.mark.parametrize("cursor", ["", "x", "1:1", "1:1:1:1", "-1:0:0", "99999999999999999999:0:0", "1:0:0 "])
def test_what_is_not_a_cursor_is_refused(rules: Engine, cursor: str) -> None:
    with refused("TK400"):
        changes(rules, cursor)


def test_a_cursor_far_ahead_gives_nothing(at_work: Engine) -> None:
    assert changes(at_work, "9999999999999999999:0:0") == []


def test_the_feed_reads_by_its_key(engine: Engine) -> None:
    """A page costs the same at the end of a long feed as at its beginning."""
    engine.run(
        "insert into tasker.changes (recorded_xid, log, transition_uuids)"
        " select (n / 10 + 3)::text::xid8, 'task', array[gen_random_uuid()] from generate_series(1, 50000) n"
    )
    engine.run("analyze tasker.changes")
    plan = str(
        engine.one(
            "explain (format json) select * from tasker.changes c where (c.recorded_xid, c.change_id) >= ('4500', 1)"
            " and c.recorded_xid < pg_snapshot_xmin(pg_current_snapshot()) order by c.recorded_xid, c.change_id limit 100"
        )
    )
    assert "changes_pkey" in plan
    assert "Seq Scan" not in plan


def test_only_those_who_read_work_read_its_changes(engine: Engine, as_role: Callable[[str], Any]) -> None:
    engine.task(DIAMOND)
    expected = changes(engine)
    for role in ("tasker_client", "tasker_operator", "tasker_auditor"):
        assert changes(Engine(as_role(role))) == expected
    for role in ("tasker_worker", "tasker_monitor"):
        with refused("42501"):
            changes(Engine(as_role(role)))


def test_every_transition_of_a_task_can_be_rebuilt_from_the_feed(at_work: Engine) -> None:
    states: dict[UUID, str] = {}
    for row in changes(at_work):
        change = row["change"]
        assert change["from_state"] == states.get(UUID(change["entity_uuid"]))
        states[UUID(change["entity_uuid"])] = change["to_state"]
    for entity, state in states.items():
        current = at_work.one(
            "select coalesce(tasker.task_state(%s), tasker.step_state(%s), tasker.worker_state(%s))",
            entity,
            entity,
            entity,
        )
        assert current == state
