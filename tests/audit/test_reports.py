"""Reports: what auditors ask, answered from the evidence here and in the archive, each action with its session."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest

from tests.audit.evidence import live, seal, triggers_off, verify, work
from tests.audit.test_retention import age, archive, done, policy, purge
from tests.kernel.engine import Engine, Row, chain, refused

ALWAYS = "'-infinity', 'infinity'"


def report(engine: Engine, name: str, arguments: str = ALWAYS, *parameters: object) -> list[Row]:
    return engine.rows(f"select * from tasker.report_{name}({arguments})", *parameters)


def summary(engine: Engine, arguments: str = "'2000-01-01', '2100-01-01'") -> dict[str, str]:
    return {row["item"]: row["value"] for row in report(engine, "summary", arguments)}


@pytest.fixture(scope="module")
def lived(shared_conn: psycopg.Connection[tuple[object, ...]]) -> Engine:
    """A database that lived; read only."""
    engine = Engine(shared_conn)
    live(engine)
    return engine


def test_who_changed_what(lived: Engine) -> None:
    rows = report(lived, "interventions")
    by_hand = {(row["log"], row["event"]) for row in rows}
    assert {
        ("task", "cancel"),
        ("event", "namespace_added"),
        ("binding", "bind"),
        ("attached", "pay"),
    } <= by_hand
    assert "circuit_breaker" in {log for log, _ in by_hand}
    commands = [row for row in rows if row["log"] == "task"]
    assert commands
    assert all(row["requested_by"] and row["reason"] and row["login"] == "postgres" for row in commands)
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


def test_a_period_takes_its_start_and_leaves_its_end(lived: Engine) -> None:
    rows = report(lived, "interventions")
    middle = rows[len(rows) // 2]["at"]
    before = report(lived, "interventions", "'-infinity', %s", middle)
    after = report(lived, "interventions", "%s, 'infinity'", middle)
    assert len(before) + len(after) == len(rows)
    assert after[0]["at"] == middle


def test_all_actions_of_a_person(engine: Engine, login: Callable[..., str]) -> None:
    """By the name that was given, and by the login whatever name was given."""
    mine, forged = engine.task(chain("only")), engine.task(chain("only"))
    engine.run("select tasker.cancel_task(%s, 'why', 'ada')", mine)
    with psycopg.connect(login("tasker_operator"), autocommit=True, application_name="desk") as conn:
        operator = Engine(conn)
        name = operator.one("select session_user")
        operator.run("select tasker.cancel_task(%s, 'why', 'ada')", forged)
    rows = report(engine, "actions_of", f"'ada', {ALWAYS}")
    assert [(row["subject"], row["login"]) for row in rows if row["log"] == "task"] == [
        (str(mine), "postgres"),
        (str(forged), name),
    ]
    rows = report(engine, "actions_of", f"%s, {ALWAYS}", name)
    assert {row["task_uuid"] for row in rows} == {forged}
    assert {row["application_name"] for row in rows} == {"desk"}
    assert {row["log"] for row in rows} == {"task", "step"}, "what followed from it is there too"


def test_all_actions_of_a_worker(engine: Engine) -> None:
    task = engine.task(chain("first", "second"))
    worker = engine.worker()
    engine.finish(worker)
    work(engine)
    rows = report(engine, "worker", f"%s, {ALWAYS}", worker)
    assert {row["task_uuid"] for row in rows if row["log"] == "step"} == {task}
    assert len([row for row in rows if row["log"] == "step"]) == 2
    assert {row["event"] for row in rows if row["log"] == "worker"} >= {"create"}
    assert {row["worker_uuid"] for row in rows} == {worker}


def test_everything_under_one_correlation_id(engine: Engine) -> None:
    task = done(engine)
    correlation = engine.one("select correlation_id from tasker.tasks")
    done(engine)
    logged = engine.one(
        "select (select count(*) from tasker.task_transitions where task_uuid = %s)"
        " + (select count(*) from tasker.workflow_step_transitions where task_uuid = %s)", task, task,
    )  # fmt: skip
    rows = report(engine, "correlation", "%s", correlation)
    assert len(rows) == logged
    assert {row["task_uuid"] for row in rows} == {task}
    assert all("result" not in row["detail"] for row in rows), "contents stay where they are"


def test_failed_and_refused(lived: Engine) -> None:
    rows = report(lived, "failures")
    failed = [row for row in rows if row["log"] == "step"]
    assert len(failed) == lived.one("select count(*) from tasker.workflow_step_result_audit where not success") > 5
    refusals = [row for row in rows if row["log"] == "rejection"]
    assert len(refusals) == lived.one("select count(*) from tasker.rejected_transitions") > 0
    assert {row["login"] for row in rows} == {"postgres"}


def test_reports_read_on_in_the_archive(engine: Engine) -> None:
    """What is reported of a task does not change when it is archived."""
    policy(engine)
    task = engine.task([{"name": "bad"}])
    worker = engine.worker()
    (claimed,) = engine.claim(worker)
    engine.fail(claimed, "permanent")
    engine.orchestrate()
    engine.run("select tasker.give_up_task(%s, 'why', 'ada')", task)
    correlation = engine.one("select correlation_id from tasker.tasks")

    def told() -> list[list[Row]]:
        answers = [
            report(engine, "correlation", "%s", correlation),
            [row for row in report(engine, "interventions") if row["log"] == "task"],
            [row for row in report(engine, "actions_of", f"'ada', {ALWAYS}") if row["log"] == "task"],
            [row for row in report(engine, "worker", f"%s, {ALWAYS}", worker) if row["log"] == "step"],
            report(engine, "failures"),
        ]
        for answer in answers:
            assert answer
            for row in answer:
                assert row.pop("is_archived") is moved
        return answers

    moved = False
    before = told()
    age(engine, "1 year")
    archive(engine)
    moved = True
    assert told() == before
    counts = summary(engine)
    assert (counts["results reported"], counts["results that report a failure"], counts["tasks archived"]) == (
        "1",
        "1",
        "1",
    )


def test_completeness_shows_what_is_not_sealed_and_not_audited(engine: Engine) -> None:
    work(engine)
    assert not any(row["is_complete"] for row in report(engine, "completeness"))
    seal(engine)
    rows = report(engine, "completeness")
    assert all(row["is_complete"] for row in rows)
    (steps,) = [row for row in rows if row["log"] == "step"]
    assert (steps["results"], steps["audited"]) == (2, 2)
    assert steps["rows"] == steps["sealed_rows"] == engine.one("select count(*) from tasker.workflow_step_transitions")
    work(engine)
    with triggers_off(engine, "workflow_step_result_audit"):
        engine.run(
            "delete from tasker.workflow_step_result_audit where success and ctid = (select max(ctid) from tasker.workflow_step_result_audit)"
        )
    seal(engine)
    (steps,) = [row for row in report(engine, "completeness") if not row["is_complete"]]
    assert (steps["log"], steps["results"], steps["audited"]) == ("step", 4, 3)
    with triggers_off(engine, "workflow_step_result_audit"):
        engine.run("delete from tasker.workflow_step_result_audit")
    (steps,) = [row for row in report(engine, "completeness") if row["log"] == "step"]
    assert steps["audited"] == 3, "what was sealed is told; that it still stands is for verify_audit"
    assert {row["finding"] for row in verify(engine)} == {"audit_row_missing"}


@pytest.mark.parametrize("kind", ["results", "tasks", "interventions", "refusals"])
def test_a_sample_is_drawn_again_by_its_seed(lived: Engine, kind: str) -> None:
    population = report(lived, "population", f"'{kind}', {ALWAYS}")
    size = min(len(population), 5)
    first, again, other = (
        report(lived, "sample", f"'{kind}', {ALWAYS}, {size}, '{seed}'") for seed in ("2026", "2026", "2027")
    )
    assert first == again
    assert len(first) == size
    assert {row["row_uuid"] for row in first} <= {row["row_uuid"] for row in population}
    assert len({row["row_uuid"] for row in population}) == len(population)
    if len(population) > 20:
        assert {row["row_uuid"] for row in first} != {row["row_uuid"] for row in other}


def test_a_sample_does_not_change_when_its_rows_are_archived(engine: Engine) -> None:
    policy(engine)
    for _ in range(4):
        done(engine)
    arguments = f"'results', {ALWAYS}, 3, 'seed'"
    before = [row["row_uuid"] for row in report(engine, "sample", arguments)]
    age(engine, "1 year")
    archive(engine)
    assert [row["row_uuid"] for row in report(engine, "sample", arguments)] == before


@pytest.mark.parametrize(
    "arguments",
    [f"'none', {ALWAYS}, 1, 's'", f"'tasks', {ALWAYS}, 0, 's'", f"'tasks', {ALWAYS}, 1, ''", f"null, {ALWAYS}, 1, 's'"],
)
def test_no_sample_without_population_size_and_seed(rules: Engine, arguments: str) -> None:
    with refused("TK400"):
        report(rules, "sample", arguments)


def test_retention_is_proven(engine: Engine) -> None:
    policy(engine, purge="30 days")
    done(engine)
    age(engine, "1 year")
    archive(engine)
    purge(engine)
    rows = report(engine, "retention")
    assert [row["event"] for row in rows] == ["retention_policy_added", "tasks_archived", "tasks_purged"]
    assert (rows[2]["requested_by"], rows[2]["reason"], rows[2]["tasks"], rows[2]["is_proven"]) == (
        "ada",
        "Records 4.2",
        1,
        True,
    )
    with triggers_off(engine, "purged_tasks"):
        engine.run("update tasker.purged_tasks set row_uuids = '{}'")
    assert report(engine, "retention")[2]["is_proven"] is False


def test_the_summary_counts_covers_and_tells_whence(engine: Engine) -> None:
    task = done(engine)
    engine.run("select tasker.reset_task(%s, 'again', 'ada')", engine.parked_task("error"))
    engine.row("select * from tasker.attempt_command('cancel_task', %s, 'why', 'ada')", str(task))
    items = summary(engine)
    assert items["tasks created"] == str(engine.one("select count(*) from tasker.tasks"))
    assert items["results reported"] == str(engine.one("select count(*) from tasker.workflow_step_result_audit"))
    assert (items["refused"], items["done by hand without a reason, set-up aside"]) == ("1", "0")
    assert items["of these under a seal"] == "0"
    assert items["results in the log"] == items["of these with their audit row"]
    assert (items["made by"], items["seals computed again"]) == ("postgres", "no")
    sealed = seal(engine)
    items = summary(engine, "'2000-01-01', '2100-01-01', true")
    assert (items["not sealed yet"], items["seals"], items["digest of the newest seal"]) == (
        "0",
        "1",
        sealed[0]["digest"],
    )
    assert items["seals computed again"] == "yes, nothing was found"
    with triggers_off(engine, "task_transitions"):
        engine.run("update tasker.task_transitions set metadata = '{\"x\": 1}' where sort_key = 1")
    assert "TAMPERING" in summary(engine, "'2000-01-01', '2100-01-01', true")["seals computed again"]
    assert summary(engine, "'2000-01-01', '2000-01-02'")["tasks created"] == "0"


def test_auditors_may_ask_for_all_of_it(lived: Engine) -> None:
    lived.run("set role tasker_auditor")
    try:
        for name in ("interventions", "failures", "completeness", "retention", "summary"):
            report(lived, name)
        report(lived, "actions_of", f"'ada', {ALWAYS}")
        report(lived, "worker", f"%s, {ALWAYS}", UUID(int=0))
        report(lived, "correlation", "%s", UUID(int=0))
        report(lived, "sample", f"'tasks', {ALWAYS}, 1, 's'")
    finally:
        lived.run("reset role")


def test_a_report_in_json_holds_what_a_report_in_rows_holds(lived: Engine) -> None:
    rows = lived.values(f"select to_jsonb(r) from tasker.report_interventions({ALWAYS}) r")
    assert len(json.dumps(rows)) > 100
    assert len(rows) == len(report(lived, "interventions"))
