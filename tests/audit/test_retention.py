"""The archive and the purge: what goes, what stays, what is left of it, and that the seals still fit."""

from __future__ import annotations

import json
import threading
from uuid import UUID

import psycopg
import pytest

from tests.audit.evidence import live, seal, triggers_off, verify, work
from tests.conftest import Connect
from tests.kernel.engine import Engine, Row, chain, refused

NAME = "ada"


def policy(engine: Engine, archive: str = "30 days", purge: str = "1 year", namespace: str | None = None) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    engine.run(
        "select tasker.set_retention_policy('p', %s::interval, %s::interval, 'Records 4.2', %s)",
        archive,
        purge,
        namespace,
    )


def age(engine: Engine, by: str, *tasks: UUID) -> None:
    """As if these tasks (without any: all) had happened so much earlier."""
    engine.run(
        "update tasker.tasks set created_at = created_at - %s::interval, started_at = started_at - %s::interval,"
        " completed_at = completed_at - %s::interval where task_uuid = any (%s) or %s",
        by, by, by, list(tasks), not tasks,
    )  # fmt: skip


def archive(engine: Engine, limit: int = 1000) -> Row:
    return engine.row("select * from tasker.archive_tasks('p', %s, %s)", NAME, limit)


def purge(engine: Engine, limit: int = 1000) -> Row:
    return engine.row("select * from tasker.purge_archive('p', %s, %s)", NAME, limit)


def done(engine: Engine) -> UUID:
    task = engine.task(chain("first", "second"))
    engine.finish(engine.worker())
    assert engine.state(task) == "complete"
    return task


def open_families(engine: Engine) -> int:
    """Tasks that can't be archived, since they, or their kin, have not ended."""
    return engine.one("select count(*) from tasker.tasks where completed_at is null")  # type: ignore[no-any-return]


def months(engine: Engine) -> set[str]:
    return set(
        engine.values(
            "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
            " where i.inhparent = 'tasker.archived_rows'::regclass and c.relname <> 'archived_rows_other'"
        )
    )


def aged_archive(engine: Engine) -> None:
    """Something archived, and a partition of a month that is past, with a row in it."""
    policy(engine, purge="30 days")
    done(engine)
    age(engine, "1 year")
    archive(engine)
    engine.run("set role tasker_owner")
    engine.run("select tasker.ensure_archive_partition('2020-01-01')")
    engine.run("reset role")
    task = engine.one("select task_uuid from tasker.archived_tasks")
    with triggers_off(engine, "archived_rows_2020_01"):
        engine.run("insert into tasker.archived_rows (month, row_uuid, task_uuid, log, content) values ('2020-01-01', gen_random_uuid(), %s, 'task', '[]')", task)  # fmt: skip


def test_a_month_that_is_past_goes_when_its_last_row_is_purged(engine: Engine) -> None:
    aged_archive(engine)
    (this_month,) = months(engine) - {"archived_rows_2020_01"}
    assert purge(engine)["tasks"] == 1
    assert months(engine) == {this_month}, "this month may still get rows"
    (event,) = engine.rows("select * from tasker.audit_events where event = 'archive_partition_dropped'")
    assert (event["subject"], event["requested_by"], event["detail"]) == (
        "archived_rows_2020_01",
        "ada",
        {"month": "2020-01-01"},
    )
    assert engine.rows("select * from tasker.access_warnings") == []
    assert event["event"] in {
        row["event"] for row in engine.rows("select * from tasker.report_retention('-infinity', 'infinity')")
    }


def test_a_month_that_somebody_reads_or_that_holds_rows_stays(engine: Engine, connect: Connect) -> None:
    aged_archive(engine)
    keeper = engine.one("select task_uuid from tasker.archived_tasks")
    engine.run("select tasker.hold_task(%s, 'case 7', 'ada')", keeper)
    purge(engine)
    assert "archived_rows_2020_01" in months(engine), "it is not empty"
    engine.run("select tasker.release_task(%s, 'closed', 'ada')", keeper)
    reader = Engine(connect(autocommit=False))
    reader.rows("select count(*) from tasker.archived_rows")
    assert purge(engine)["tasks"] == 1, "a purge does not wait for readers"
    assert "archived_rows_2020_01" in months(engine)
    reader.conn.rollback()
    purge(engine)
    assert "archived_rows_2020_01" not in months(engine), "the next purge drops it"


# -- the way of a task


def test_an_old_task_goes_to_the_archive_and_then_for_good(engine: Engine) -> None:
    policy(engine)
    task = done(engine)
    rows = engine.one(
        "select (select count(*) from tasker.task_transitions) + (select count(*) from tasker.workflow_step_transitions)"
    )
    assert archive(engine)["tasks"] == 0, "too young"
    age(engine, "31 days")
    assert archive(engine) == {"tasks": 1, "rows": rows, "more": False}
    for table in (
        "tasks",
        "workflow_steps",
        "workflow_step_edges",
        "task_transitions",
        "workflow_step_transitions",
        "workflow_step_result_audit",
    ):
        assert engine.one(f"select count(*) from tasker.{table}") == 0, table
    kept = engine.row("select * from tasker.archived_tasks")
    assert (kept["task_uuid"], kept["root_task_uuid"]) == (task, task)
    assert [step["name"] for step in kept["content"]["steps"]] == ["first", "second"]
    assert len(kept["content"]["edges"]) == 1
    assert engine.one("select count(*) from tasker.archived_rows where audit_content is not null") == 2
    assert verify(engine) == []
    engine.assert_consistent()

    assert purge(engine)["tasks"] == 0, "too young for that"
    policy(engine, purge="30 days")
    gone = purge(engine)
    assert (gone["tasks"], gone["rows"], gone["more"]) == (1, rows, False)
    assert (
        engine.one("select count(*) from tasker.archived_rows")
        == engine.one("select count(*) from tasker.archived_tasks")
        == 0
    )
    evidence = engine.row("select * from tasker.purged_tasks")
    assert (evidence["task_uuid"], evidence["policy"], len(evidence["row_uuids"])) == (task, "p", rows)
    event = engine.row("select * from tasker.audit_events where event = 'tasks_purged'")
    assert (event["requested_by"], event["reason"], event["subject"]) == (NAME, "Records 4.2", str(gone["purge_uuid"]))
    assert (event["detail"]["tasks"], event["detail"]["rows"], event["detail"]["policy"]) == (1, rows, "p")
    assert verify(engine) == []
    seal(engine)
    assert verify(engine) == []


def test_everything_that_ended_can_be_archived_and_purged(engine: Engine) -> None:
    """Under every vocabulary, with workers of jobs, optional steps, cancelled tasks, an archive of more than one month."""
    live(engine)
    engine.run("delete from tasker.timers where task_uuid is null")  # of the breaker
    task = engine.task(chain("only"))
    engine.command("cancel_task", task)
    resumed = engine.one("select tasker.resume_task(%s, 'why', 'ada')", task)
    engine.finish(engine.worker())
    assert engine.state(resumed) == "complete"
    policy(engine)
    age(engine, "2 years")
    ended = engine.one("select count(*) from tasker.tasks where completed_at is not null")
    moved = 0
    while True:
        batch = archive(engine, limit=3)
        moved += batch["tasks"]
        if not batch["more"]:
            break
    assert moved == ended
    assert engine.one("select count(*) from tasker.tasks") == open_families(engine)
    assert engine.one("select root_task_uuid from tasker.archived_tasks where task_uuid = %s", resumed) == task
    assert verify(engine) == []
    engine.assert_consistent()
    while purge(engine, limit=3)["more"]:
        pass
    assert engine.one("select count(*) from tasker.purged_tasks") == ended
    assert verify(engine) == []
    work(engine)
    seal(engine)
    assert verify(engine) == []
    engine.assert_consistent()


def test_rows_stand_in_the_partition_of_their_month(engine: Engine) -> None:
    policy(engine)
    done(engine)
    age(engine, "1 year")
    archive(engine)
    (partition,) = engine.values("select distinct tableoid::regclass::text from tasker.archived_rows")
    assert partition == "tasker.archived_rows_" + engine.one(
        "select to_char(clock_timestamp() at time zone 'UTC', 'YYYY_MM')"
    )
    with refused("TK409"):
        engine.run(f"truncate {partition}")
    with refused("TK409"):
        engine.run(f"update {partition} set content = 'forged'")
    with refused("TK409"):
        engine.run(f"delete from {partition}")


def test_what_was_in_queues_and_timers_disturbs_nobody(engine: Engine) -> None:
    policy(engine)
    task = engine.task(chain("waits in a queue"))
    engine.command("cancel_task", task)
    age(engine, "1 year")
    assert archive(engine)["tasks"] == 1
    policy(engine, purge="30 days")
    purge(engine)
    assert engine.claim(engine.worker()) == []
    assert engine.orchestrate()["messages"] == 0
    assert engine.tick()["timers_fired"] == 0
    assert engine.rows("select * from tasker.timers") == []
    assert engine.rows("select * from tasker.queued_messages()") == []


def test_the_feed_goes_on_past_what_was_archived(engine: Engine) -> None:
    policy(engine)
    done(engine)
    age(engine, "1 year")
    archive(engine)
    later = done(engine)
    changes = engine.rows("select * from tasker.changes_after(p_limit => 100000)")
    assert all(row["change"] for row in changes)
    assert any(row["change"].get("archived") for row in changes)
    assert str(later) in {row["change"].get("task_uuid") for row in changes}


def test_counters_of_metrics_keep_what_was_archived(engine: Engine) -> None:
    policy(engine)
    done(engine)
    age(engine, "1 year")
    archive(engine)
    counted = engine.one(
        "select sum(transitions) from tasker.metrics_transition_totals where lifecycle = 'tasker.task'"
    )
    assert counted == engine.one("select count(*) from tasker.archived_rows where log = 'task'")


# -- what stays


def test_running_work_stays(engine: Engine) -> None:
    policy(engine)
    worker = engine.worker()
    waiting = engine.task(chain("only"))
    (claimed,) = engine.claim(worker)
    blocked = engine.parked_task("blocked_by_failures")
    age(engine, "10 years")
    assert archive(engine)["tasks"] == 0
    engine.complete(claimed)
    engine.orchestrate()
    assert engine.state(waiting) == "complete"
    assert archive(engine)["tasks"] == 0, "it ended just now"
    assert engine.state(blocked) == "blocked_by_failures"


def test_a_task_sent_back_to_work_while_the_archivist_waits_stays(engine: Engine, connect: Connect) -> None:
    policy(engine)
    task = engine.parked_task("error")
    age(engine, "1 year")
    operator = Engine(connect(autocommit=False))
    operator.command("reset_task", task)
    outcome: list[Row] = []
    archivist = Engine(connect())
    thread = threading.Thread(
        target=lambda: outcome.append(archivist.row("select * from tasker.archive_tasks('p', 'ada')"))
    )
    thread.start()
    waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    while not engine.one(waits, archivist.conn.info.backend_pid):
        assert thread.is_alive()
    operator.conn.commit()
    thread.join()
    assert outcome[0]["tasks"] == 0
    assert engine.state(task) != "error"
    engine.assert_consistent()
    assert verify(engine) == []


def test_a_command_that_comes_too_late_finds_no_task(engine: Engine, connect: Connect) -> None:
    policy(engine)
    task = engine.parked_task("error")
    age(engine, "1 year")
    archivist = Engine(connect(autocommit=False))
    assert archive(archivist)["tasks"] == 1
    refusals: list[str | None] = []

    def late() -> None:
        try:
            Engine(connect()).command("reset_task", task)
        except psycopg.Error as error:
            refusals.append(error.sqlstate)

    thread = threading.Thread(target=late)
    thread.start()
    archivist.conn.commit()
    thread.join()
    assert refusals == ["TK404"]


def test_a_family_goes_together_or_stays(engine: Engine) -> None:
    policy(engine)
    parent = done(engine)
    child = engine.one(
        "select tasker.create_task_from_graph(p_graph => %s, p_parent_task_uuid => %s)",
        json.dumps({"name": "child", "steps": chain("only")}), parent,
    )  # fmt: skip
    age(engine, "1 year")
    assert archive(engine)["tasks"] == 0
    engine.finish(engine.worker())
    age(engine, "1 year", child)
    assert archive(engine)["tasks"] == 2
    assert set(engine.values("select root_task_uuid from tasker.archived_tasks")) == {parent}


def test_nothing_is_archived_under_the_policy_of_another_namespace(engine: Engine) -> None:
    done(engine)
    engine.run("select tasker.ensure_namespace('other')")
    age(engine, "1 year")
    policy(engine, namespace="other")
    assert archive(engine)["tasks"] == 0
    policy(engine, namespace="default")
    assert archive(engine)["tasks"] == 1


def test_a_legal_hold_keeps_a_task_and_its_family(engine: Engine) -> None:
    policy(engine, purge="30 days")
    held, free = done(engine), done(engine)
    child = engine.one(
        "select tasker.create_task_from_graph(p_graph => %s, p_parent_task_uuid => %s)",
        '{"name": "child", "steps": []}',
        held,
    )
    age(engine, "1 year")
    engine.run("select tasker.hold_task(%s, 'case 7', 'counsel')", child)
    assert archive(engine)["tasks"] == 1
    assert engine.values("select task_uuid from tasker.archived_tasks") == [free]
    engine.run("select tasker.hold_task(%s, 'case 8', 'counsel')", free)
    assert purge(engine)["tasks"] == 0
    assert engine.one("select tasker.release_task(%s, 'closed', 'counsel')", child)
    assert not engine.one("select tasker.release_task(%s, 'closed', 'counsel')", child)
    assert archive(engine)["tasks"] == 2
    assert purge(engine)["tasks"] == 2
    assert engine.one("select tasker.release_task(%s, 'closed', 'counsel')", free)
    assert purge(engine)["tasks"] == 1
    told = engine.rows("select event, subject, reason, requested_by, namespace from tasker.audit_events where event in ('task_held', 'task_released') order by created_at")  # fmt: skip
    assert [(row["event"], row["subject"], row["reason"]) for row in told] == [
        ("task_held", str(child), "case 7"),
        ("task_held", str(free), "case 8"),
        ("task_released", str(child), "closed"),
        ("task_released", str(free), "closed"),
    ]
    assert {(row["requested_by"], row["namespace"]) for row in told} == {("counsel", "default")}


# -- nobody removes anything otherwise


def test_who_opens_the_door_gets_nothing_out_but_what_is_archived(engine: Engine) -> None:
    """An owner who writes into the archive by hand may remove the exact rows that stand there, and no other."""
    task = done(engine)
    with refused("TK409"), engine.conn.transaction():
        engine.run(
            "insert into tasker.archived_tasks (task_uuid, root_task_uuid, namespace, name, correlation_id, created_at, completed_at, content)"
            " select task_uuid, task_uuid, namespace, name, correlation_id, created_at, completed_at, '{}' from tasker.tasks"
        )
        engine.run("delete from tasker.workflow_step_result_audit")
    with refused("TK409"):
        engine.run("delete from tasker.task_transitions where task_uuid = %s", task)


def test_an_archived_row_that_was_tampered_with_is_named(engine: Engine) -> None:
    policy(engine)
    done(engine)
    age(engine, "1 year")
    archive(engine)
    row = engine.row("select row_uuid, log from tasker.archived_rows order by row_uuid offset 3 limit 1")
    partition = engine.one("select distinct tableoid::regclass::text from tasker.archived_rows").removeprefix("tasker.")
    with triggers_off(engine, partition):
        engine.run(
            "update tasker.archived_rows set content = replace(content, 'v1', 'v2') where row_uuid = %s",
            row["row_uuid"],
        )
    (finding,) = verify(engine)
    assert (finding["finding"], finding["log"], finding["row_uuid"]) == ("row_changed", row["log"], row["row_uuid"])
    with triggers_off(engine, partition):
        engine.run("delete from tasker.archived_rows where row_uuid = %s", row["row_uuid"])
    (finding,) = verify(engine)
    assert (finding["finding"], finding["row_uuid"]) == ("row_missing", row["row_uuid"])


def test_evidence_of_a_purge_that_was_tampered_with_is_named(engine: Engine) -> None:
    policy(engine, purge="30 days")
    done(engine)
    age(engine, "1 year")
    archive(engine)
    purge(engine)
    with refused("TK409"):
        engine.run("delete from tasker.purged_tasks")
    with triggers_off(engine, "purged_tasks"):
        engine.run("update tasker.purged_tasks set completed_at = completed_at - interval '10 years'")
    assert [finding["finding"] for finding in verify(engine)] == ["purge_changed"]
    with triggers_off(engine, "purged_tasks"):
        engine.run("delete from tasker.purged_tasks")
    assert {finding["finding"] for finding in verify(engine)} == {"purge_changed", "row_missing"}


def test_a_removal_that_somebody_lists_by_hand_is_named(engine: Engine) -> None:
    """Rows removed with the triggers off, and evidence made up for it: no sealed event speaks of it."""
    task = done(engine)
    seal(engine)
    rows = engine.values("select task_transition_uuid from tasker.task_transitions where task_uuid = %s", task)
    with triggers_off(engine, "task_transitions"):
        engine.run("delete from tasker.task_transitions where task_uuid = %s", task)
    engine.run(
        "insert into tasker.purged_tasks (task_uuid, namespace, name, completed_at, policy, row_uuids, purge_uuid)"
        " values (%s, 'default', 'x', '2000-01-01', 'p', %s, gen_random_uuid())",
        task, rows,
    )  # fmt: skip
    assert [(finding["finding"], finding["row_uuid"]) for finding in verify(engine)] == [("purge_changed", task)]


# -- who is refused


@pytest.mark.parametrize("function", ["archive_tasks", "purge_archive"])
def test_no_removal_without_policy_name_and_limit(engine: Engine, function: str) -> None:
    policy(engine)
    for arguments, code in (
        ("'none', 'ada'", "TK404"),
        ("'p', ''", "TK400"),
        ("'p', null", "TK400"),
        ("'p', 'ada', 0", "TK400"),
        ("null, 'ada'", "TK404"),
    ):
        with refused(code):
            engine.row(f"select * from tasker.{function}({arguments})")


@pytest.mark.parametrize(
    "arguments",
    ["'p', '1 minute', '1 year', 'x'", "'p', '2 years', '1 year', 'x'", "'P!', '1 day', '1 year', 'x'", "'p', '1 day', '1 year', ' '",
     "null, '1 day', '1 year', 'x'", "'p', null, '1 year', 'x'", "'p', '1 day', null, 'x'"],
)  # fmt: skip
def test_a_policy_that_can_not_be_meant_is_refused(engine: Engine, arguments: str) -> None:
    with refused("TK400"):
        engine.run(f"select tasker.set_retention_policy({arguments})")


def test_a_policy_leaves_an_event_when_it_changes(engine: Engine) -> None:
    policy(engine)
    policy(engine)
    policy(engine, purge="2 years")
    assert engine.values(
        "select event from tasker.audit_events where event like 'retention%%' order by created_at"
    ) == [
        "retention_policy_added",
        "retention_policy_changed",
    ]


def test_an_unknown_task_is_not_held(engine: Engine) -> None:
    for function in ("hold_task", "release_task"):
        with refused("TK404"):
            engine.run(f"select tasker.{function}(gen_random_uuid(), 'why', 'ada')")
        with refused("TK400"):
            engine.run(f"select tasker.{function}(gen_random_uuid(), '', 'ada')")


def test_an_archivist_that_dies_leaves_everything_where_it_was(engine: Engine, connect: Connect) -> None:
    policy(engine)
    task = done(engine)
    age(engine, "1 year")
    archivist = Engine(connect(autocommit=False))
    assert archive(archivist)["tasks"] == 1
    assert engine.one("select pg_terminate_backend(%s, 5000)", archivist.conn.info.backend_pid)
    assert engine.state(task) == "complete"
    assert verify(engine) == []
    assert archive(engine)["tasks"] == 1
