"""The step result audit (seed 004): one row for every reported result, attributed by the engine, never by the caller."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, STEP_ROUTES, Engine, Row, chain, refused

FORGED = UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")
BY_HAND = {"reason": "test", "requested_by": "somebody"}


def audit(engine: Engine, task: UUID) -> list[Row]:
    """Oldest first."""
    return engine.rows("select * from tasker.get_task_audit_history(%s)", task)[::-1]


def correlation(engine: Engine, task: UUID) -> UUID:
    return engine.one("select correlation_id from tasker.tasks where task_uuid = %s", task)  # type: ignore[no-any-return]


def assert_exactly_one_row_a_result(engine: Engine) -> None:
    """From first principles: the transitions whose rule reports a result, and the rows of the audit, are the same."""
    reported = engine.values(
        "select t.workflow_step_transition_uuid from tasker.workflow_step_transitions t"
        " join tasker.lifecycle_transitions r on (r.lifecycle, r.from_state, r.event, r.to_state)"
        " = (t.lifecycle, t.from_state, t.event, t.to_state) where r.reports_result order by 1"
    )
    audited = engine.values(
        "select workflow_step_transition_uuid from tasker.workflow_step_result_audit where not is_backfilled order by 1"
    )
    assert audited == reported
    engine.assert_consistent()


# -- one row on every path


def test_success_and_failure_each_leave_one_row(tenant: Engine) -> None:
    task = tenant.task([{"name": "good"}, {"name": "bad"}])
    worker = tenant.worker()
    claimed = {step["name"]: step for step in tenant.claim(worker)}
    tenant.one(
        "select tasker.complete_step(%s, %s, '{\"rows\": 3}', 120)",
        claimed["good"]["workflow_step_uuid"], claimed["good"]["claim_uuid"],
    )  # fmt: skip
    tenant.fail(claimed["bad"], "permanent")
    good, bad = audit(tenant, task)
    assert (good["step_name"], good["success"], good["execution_time_ms"]) == ("good", True, 120)
    assert (bad["step_name"], bad["success"], bad["execution_time_ms"]) == ("bad", False, 7)
    for row in (good, bad):
        assert row["worker_uuid"] == worker
        assert row["correlation_id"] == correlation(tenant, task)
        assert row["is_backfilled"] is False
    # references, not copies: the result stands in the transition
    assert good["metadata"]["result"] == {"rows": 3}
    assert (good["from_state"], good["event"], good["to_state"]) == (
        "in_progress", "enqueue_for_orchestration", "enqueued_for_orchestration",
    )  # fmt: skip
    assert bad["metadata"]["error"] == {"message": "it broke"}
    tenant.orchestrate()
    assert len(audit(tenant, task)) == 2, "orchestration processes results, it reports none"
    assert_exactly_one_row_a_result(tenant)


def test_every_attempt_of_a_retried_step_is_audited(engine: Engine) -> None:
    task = engine.task(chain("only", max_attempts=3))
    workers = [engine.worker(f"w{number}") for number in range(3)]
    for worker in workers:
        (claimed,) = engine.claim(worker)
        engine.fail(claimed, "transient")
        engine.orchestrate()
        engine.shift_clock("5 minutes")
        engine.tick()
    rows = audit(engine, task)
    assert [row["worker_uuid"] for row in rows] == workers
    assert [row["metadata"]["attempt"] for row in rows] == [1, 2, 3]
    assert not any(row["success"] for row in rows)
    assert_exactly_one_row_a_result(engine)


def test_a_lease_that_ended_is_audited_under_the_worker_that_let_it_end(engine: Engine) -> None:
    task = engine.task([{"name": "a"}, {"name": "b"}])
    worker = engine.worker()
    claimed = engine.claim(worker, lease="10 seconds")
    engine.complete(claimed[0])
    engine.shift_clock("11 seconds")
    assert engine.tick()["leases_expired"] == 1
    assert engine.tick()["leases_expired"] == 0
    done, lost = audit(engine, task)
    assert done["success"] is True
    assert (lost["success"], lost["worker_uuid"], lost["execution_time_ms"]) == (False, worker, None)
    assert lost["metadata"]["lease_expired"] is True
    assert_exactly_one_row_a_result(engine)


def test_a_late_worker_leaves_no_row_and_a_refusal(engine: Engine) -> None:
    task = engine.task(chain("only"))
    (late,) = engine.claim(engine.worker(), lease="10 seconds")
    engine.shift_clock("11 seconds")
    engine.tick()
    report = {"step_uuid": late["workflow_step_uuid"], "claim_uuid": late["claim_uuid"]}
    for _ in range(2):  # before orchestration and after it
        assert [outcome["code"] for outcome in engine.report(report)] == ["TK412"]
        engine.orchestrate()
    engine.shift_clock("5 minutes")
    engine.tick()
    (current,) = engine.claim(engine.worker())
    assert [outcome["code"] for outcome in engine.report(report)] == ["TK412"], "another worker has it now"
    assert [row["success"] for row in audit(engine, task)] == [False]
    refusals = engine.rows(
        "select * from tasker.rejected_transitions where entity_uuid = %s", late["workflow_step_uuid"]
    )
    assert [(row["code"], row["task_uuid"]) for row in refusals] == [("TK412", task)] * 3
    assert refusals[0]["detail"]["claim_uuid"] == str(late["claim_uuid"])
    engine.complete(current)
    assert [row["success"] for row in audit(engine, task)] == [False, True]
    assert_exactly_one_row_a_result(engine)


def test_a_repeated_report_is_answered_and_audited_once(tenant: Engine) -> None:
    """The answer to the first one was lost on the way."""
    task = tenant.task(chain("only"))
    (claimed,) = tenant.claim(tenant.worker())
    report = {"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": claimed["claim_uuid"], "result": 1}
    first, repeated = tenant.report(report, report)
    again = tenant.report(report)[0]
    assert {outcome["code"] for outcome in (first, repeated, again)} == {None}
    tenant.orchestrate()
    assert tenant.report(report)[0]["state"] == "complete"
    assert len(audit(tenant, task)) == 1
    assert_exactly_one_row_a_result(tenant)


def test_a_batch_of_a_thousand_leaves_a_thousand_rows(tenant: Engine) -> None:
    task = tenant.task([{"name": f"s{number}"} for number in range(1000)])
    claimed = tenant.claim(tenant.worker(), limit=1000)
    outcomes = tenant.report(
        *(
            {"step_uuid": step["workflow_step_uuid"], "claim_uuid": step["claim_uuid"], "success": place % 10 != 0}
            for place, step in enumerate(claimed)
        ),
        {"step_uuid": claimed[0]["workflow_step_uuid"], "claim_uuid": uuid4()},
        {"step_uuid": "nonsense"},
        "not even an object",  # type: ignore[arg-type]
    )
    assert [outcome["code"] for outcome in outcomes[-3:]] == ["TK412", "TK400", "TK400"]
    assert {outcome["code"] for outcome in outcomes[:-3]} == {None}
    rows = audit(tenant, task)
    assert len(rows) == 1000
    assert sum(not row["success"] for row in rows) == 100
    assert_exactly_one_row_a_result(tenant)


@pytest.mark.parametrize(("event", "success"), [("complete", True), ("fail", False)])
def test_a_legacy_direct_edge_is_audited_too(tenant: Engine, event: str, success: bool) -> None:
    """In the seed's own project such a result leaves no row."""
    task = tenant.task(chain("only"))
    worker = tenant.worker()
    (claimed,) = tenant.claim(worker)
    tenant.move_step(claimed["workflow_step_uuid"], event, execution_time_ms=42, success=not success)
    (row,) = audit(tenant, task)
    assert (row["success"], row["execution_time_ms"], row["worker_uuid"]) == (success, 42, worker)
    assert row["correlation_id"] == correlation(tenant, task)
    assert [outcome["code"] for outcome in tenant.report(
        {"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": claimed["claim_uuid"]}
    )] == ["TK412"]  # fmt: skip
    assert_exactly_one_row_a_result(tenant)


def test_no_other_transition_leaves_a_row(tenant: Engine) -> None:
    """Every step is taken to every state; a row stands for those that report a result and for no other."""
    reporting = {"enqueued_for_orchestration", "enqueued_as_error_for_orchestration"}
    for state, route in STEP_ROUTES.items():
        step = tenant.parked_step(state)
        (task,) = tenant.values("select task_uuid from tasker.workflow_steps where workflow_step_uuid = %s", step)
        expected = any(event == "enqueue_for_orchestration" for event, _ in route)
        assert len(audit(tenant, task)) == expected, state
        assert expected or state not in reporting
        if state not in ("complete", "cancelled", "resolved_manually"):
            tenant.command("cancel_step", step)
            assert len(audit(tenant, task)) == expected, "a cancellation is no result"
    given = tenant.parked_step("pending")
    tenant.one("select tasker.resolve_step(%s, 'test', 'somebody', '{\"given\": true}')", given)
    assert (
        tenant.one("select count(*) from tasker.workflow_step_result_audit where workflow_step_uuid = %s", given) == 0
    )
    assert_exactly_one_row_a_result(tenant)


# -- attribution


def test_attribution_can_not_be_forged_by_a_worker(tenant: Engine) -> None:
    task = tenant.task([{"name": "good"}, {"name": "bad"}])
    worker = tenant.worker()
    claimed = {step["name"]: step for step in tenant.claim(worker)}
    claims = {
        "worker_uuid": str(FORGED), "correlation_id": str(FORGED), "attempt": 99, "lease_expired": True,
        "metadata": {"worker_uuid": str(FORGED)},
    }  # fmt: skip
    tenant.report(
        {
            "step_uuid": claimed["good"]["workflow_step_uuid"], "claim_uuid": claimed["good"]["claim_uuid"],
            "result": claims, **claims,
        },
        {
            "step_uuid": claimed["bad"]["workflow_step_uuid"], "claim_uuid": claimed["bad"]["claim_uuid"],
            "success": False, "error": claims, **claims,
        },
    )  # fmt: skip
    for row in audit(tenant, task):
        assert (row["worker_uuid"], row["correlation_id"]) == (worker, correlation(tenant, task))
        assert row["metadata"]["worker_uuid"] == str(worker)
        assert row["metadata"]["attempt"] == 1
        assert "lease_expired" not in row["metadata"]


@pytest.mark.parametrize("event", ["enqueue_for_orchestration", "complete", "fail"])
def test_attribution_can_not_be_forged_through_the_generic_door(tenant: Engine, event: str) -> None:
    forged = {
        "worker_uuid": str(FORGED), "correlation_id": str(FORGED), "claim_uuid": str(FORGED), "attempt": 99,
        "lease_expired": True, "next_retry_at": "2000-01-01", "delay_seconds": 0, "manual": False,
    }  # fmt: skip
    held = tenant.task(chain("only"))
    worker = tenant.worker()
    (claimed,) = tenant.claim(worker)
    tenant.move_step(claimed["workflow_step_uuid"], event, **forged)
    (row,) = audit(tenant, held)
    assert (row["worker_uuid"], row["correlation_id"]) == (worker, correlation(tenant, held))
    assert row["metadata"]["attempt"] == 1

    nobody = tenant.parked_step("in_progress")
    tenant.move_step(nobody, event, **forged)
    (row,) = tenant.rows("select * from tasker.audit_records where workflow_step_uuid = %s", nobody)
    assert row["worker_uuid"] is None, "nobody held it"
    assert row["correlation_id"] != FORGED


def test_a_result_given_by_hand_is_not_attributed_to_a_worker_that_had_the_step_before(engine: Engine) -> None:
    task = engine.task(chain("only"))
    (claimed,) = engine.claim(engine.worker())
    step = claimed["workflow_step_uuid"]
    engine.fail(claimed, "permanent")
    engine.orchestrate()
    engine.command("retry_step", step)
    engine.move_step(step, "start")  # out of the queue by hand
    engine.move_step(step, "complete")
    failed, completed = audit(engine, task)
    assert failed["worker_uuid"] is not None
    assert completed["worker_uuid"] is None
    assert engine.state(task) == "complete"
    assert engine.claim(engine.worker()) == [], "the message it left in the queue is for nobody"
    assert_exactly_one_row_a_result(engine)


def test_what_the_log_tells_besides_is_not_forged_either(tenant: Engine) -> None:
    step = tenant.parked_step("pending")
    tenant.move_step(step, "enqueue", worker_uuid="not even a uuid", claim_uuid="x", note="kept")
    (row,) = tenant.rows("select * from tasker.timeline where entity_uuid = %s and event = 'enqueue'", step)
    assert row["worker_uuid"] is None
    assert row["metadata"]["note"] == "kept"
    assert "claim_uuid" not in row["metadata"]


def test_the_time_is_the_real_one_and_moves_inside_a_transaction(engine: Engine) -> None:
    """Tests may shift the clock of leases; evidence never reads it, nor the start of the transaction."""
    engine.shift_clock("10 years")
    task = engine.task(chain("a", "b"))
    worker = engine.worker()
    with engine.conn.transaction():
        begun = engine.one("select now()")
        for _ in range(2):
            (claimed,) = engine.claim(worker)
            engine.complete(claimed)
            engine.orchestrate()
        ended = engine.one("select clock_timestamp()")
    first, second = audit(engine, task)
    assert begun < first["recorded_at"] < second["recorded_at"] < ended
    assert begun < first["transition_created_at"] <= first["recorded_at"]


# -- asking


@pytest.fixture
def history(tenant: Engine) -> tuple[Engine, list[UUID], list[UUID]]:
    """Three tasks, worked off by two workers in turns."""
    workers = [tenant.worker("one"), tenant.worker("two")]
    tasks = [tenant.task(chain("a", "b")) for _ in range(3)]
    turn = 0
    while claimed := tenant.claim(workers[turn % 2], limit=1):
        tenant.complete(claimed[0])
        tenant.orchestrate()
        turn += 1
    assert turn == 6
    return tenant, tasks, workers


def test_the_four_queries_answer_newest_first_with_the_transition(
    history: tuple[Engine, list[UUID], list[UUID]],
) -> None:
    engine, tasks, workers = history
    everything = engine.rows(
        "select * from tasker.audit_records where task_uuid = any(%s) order by recorded_at desc", tasks
    )
    assert len(everything) == 6

    def ask(call: str, *parameters: Any) -> list[Row]:
        rows = engine.rows(f"select * from tasker.{call}", *parameters)
        assert [row["recorded_at"] for row in rows] == sorted((row["recorded_at"] for row in rows), reverse=True)
        return rows

    for task in tasks:
        assert ask("get_task_audit_history(%s)", task) == [row for row in everything if row["task_uuid"] == task]
        for step in engine.steps(task).values():
            assert ask("get_step_audit_history(%s, %s)", task, step) == [
                row for row in everything if row["workflow_step_uuid"] == step
            ]
            assert ask("get_step_audit_history(%s, %s)", uuid4(), step) == [], "the step of another task"
        assert ask("get_audit_by_correlation_id(%s)", correlation(engine, task)) == [
            row for row in everything if row["task_uuid"] == task
        ]
    for worker in workers:
        mine = [row for row in everything if row["worker_uuid"] == worker]
        assert len(mine) == 3
        assert ask("get_audit_by_worker(%s)", worker) == mine
        assert ask("get_audit_by_worker(%s, 2)", worker) == mine[:2]
    for row in everything:
        assert row["transition_created_at"] <= row["recorded_at"]
        assert (row["from_state"], row["to_state"]) == ("in_progress", "enqueued_for_orchestration")
        assert row["metadata"]["success"] is True


def test_asking_for_what_is_not_there_answers_nothing(rules: Engine) -> None:
    for call in (
        "get_step_audit_history(%(u)s, %(u)s)", "get_task_audit_history(%(u)s)", "get_audit_by_worker(%(u)s)",
        "get_audit_by_correlation_id(%(u)s)",
    ):  # fmt: skip
        with rules.conn.cursor() as cursor:
            assert cursor.execute(f"select * from tasker.{call}".encode(), {"u": FORGED}).fetchall() == []


# -- the row is evidence


@pytest.mark.parametrize("role", [None, "tasker_owner"])
@pytest.mark.parametrize(
    "statement",
    [
        "update tasker.workflow_step_result_audit set success = not success",
        "update tasker.workflow_step_result_audit set updated_at = now()",
        "delete from tasker.workflow_step_result_audit",
        "delete from tasker.workflow_step_result_audit where false",
        "truncate tasker.workflow_step_result_audit",
        "truncate tasker.workflow_step_transitions cascade",
    ],
)
def test_an_audit_row_does_not_change_and_does_not_go(tenant: Engine, role: str | None, statement: str) -> None:
    task = tenant.task(chain("only"))
    tenant.finish(tenant.worker())
    before = audit(tenant, task)
    for setting in ("origin", "replica"):
        try:
            tenant.run(f"set session_replication_role = {setting}")
            if role:
                tenant.run(f"set role {role}")
            with refused("TK409") as refusal:
                tenant.run(statement)
            assert "append-only" in refusal.message
        finally:
            tenant.run("reset role")
            tenant.run("reset session_replication_role")
    assert audit(tenant, task) == before


def test_a_superuser_who_gets_around_the_trigger_is_found_out(engine: Engine) -> None:
    """The writing trigger steps aside for a replication origin; what is then missing or too much is a finding."""
    step = engine.parked_step("in_progress")
    engine.run("set session_replication_role = replica")
    engine.run(
        "with ended as (update tasker.workflow_step_transitions set most_recent = false"
        " where workflow_step_uuid = %s and most_recent returning *)"
        " insert into tasker.workflow_step_transitions (workflow_step_uuid, task_uuid, namespace, lifecycle, from_state,"
        "  event, to_state, sort_key, most_recent) select workflow_step_uuid, task_uuid, namespace, lifecycle, to_state,"
        "  'enqueue_for_orchestration', 'enqueued_for_orchestration', sort_key + 1, true from ended",
        step,
    )
    engine.run("set session_replication_role = origin")
    assert "result_without_audit" in [finding["finding"] for finding in engine.findings()]
    engine.run(
        "insert into tasker.workflow_step_result_audit"
        " (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, success)"
        " select workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, true"
        " from tasker.workflow_step_transitions where workflow_step_uuid = %s and sort_key in (2, 4)",
        step,
    )
    findings = [finding["finding"] for finding in engine.findings()]
    assert "audit_without_result" in findings
    assert "result_without_audit" not in findings


def test_the_same_result_can_not_be_audited_twice(engine: Engine) -> None:
    task = engine.task(chain("only"))
    engine.finish(engine.worker())
    with refused("23505"):
        engine.run(
            "insert into tasker.workflow_step_result_audit"
            " (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, success)"
            " select workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, false"
            " from tasker.workflow_step_result_audit"
        )
    assert len(audit(engine, task)) == 1


def test_when_the_audit_fails_the_result_is_not_stored(engine: Engine, connect: Callable[..., Any]) -> None:
    """An unaudited result does not exist: the report fails as a whole and can be repeated."""
    task = engine.task(chain("only"))
    (claimed,) = engine.claim(engine.worker())
    engine.run(
        "alter table tasker.workflow_step_result_audit add constraint full_disk check (execution_time_ms <> 7) not valid"
    )
    with refused("23514"):
        engine.complete(claimed)
    assert engine.states(task) == {"only": "in_progress"}
    engine.run("alter table tasker.workflow_step_result_audit drop constraint full_disk")
    engine.complete(claimed)
    engine.orchestrate()
    assert engine.state(task) == "complete"
    assert_exactly_one_row_a_result(engine)


# -- nothing in a temporary schema diverts it


def test_temporary_twins_of_every_table_stay_empty(engine: Engine, login: Callable[..., str]) -> None:
    """A temp table named like the audit table diverted the trigger of the seed's own project."""
    engine.one("select tasker.ensure_namespace('default')")
    tables = engine.values(
        "select relname from pg_class where relnamespace = 'tasker'::regnamespace and relkind in ('r', 'v', 'p')"
    )
    assert "workflow_step_result_audit" in tables
    columns = {
        table: engine.values(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            f"tasker.{table}",
        )
        for table in tables
    }
    with psycopg.connect(login("tasker_client", "tasker_worker", "tasker_operator"), autocommit=True) as conn:
        attacker = Engine(conn)
        for table, names in columns.items():
            attacker.run(f"create temp table {table} ({', '.join(f'{name} text' for name in names)})")
        for function in (
            "now() returns timestamptz language sql as $$select '2000-01-01'::timestamptz$$",
            "clock_timestamp() returns timestamptz language sql as $$select '2000-01-01'::timestamptz$$",
            "sha256(bytea) returns bytea language sql as $$select ''::bytea$$",
            "pg_notify(text, text) returns void language sql as $$select$$",
            "uuid_generate_v7() returns uuid language sql as $$select null::uuid$$",
            "step_guard_holds(text, tasker.step_facts) returns boolean language sql as $$select true$$",
            "raise_error(text, text, jsonb, text) returns void language sql as $$select$$",
            "jsonb_build_object(variadic \"any\") returns jsonb language internal as 'jsonb_build_object'",
        ):
            try:
                attacker.run(f"create function pg_temp.{function}")
            except psycopg.errors.InsufficientPrivilege:
                assert "tasker." in function or "internal" in function  # types and languages of others are closed
        attacker.run("create temp view pg_stat_activity as select 1 as pid")
        attacker.run("set search_path = pg_temp, pg_catalog, public")

        before = engine.one("select clock_timestamp()")
        task = attacker.task([{"name": "a", "max_attempts": 1}, {"name": "b"}, {"name": "c", "depends_on": ["b"]}])
        worker = attacker.worker()
        claimed = {step["name"]: step for step in attacker.claim(worker)}
        attacker.complete(claimed["b"])
        attacker.fail(claimed["a"], "permanent")
        attacker.orchestrate()
        attacker.tick()
        with refused("TK422"):
            attacker.move_task(task, "all_steps_completed") if attacker.state(task) == "steps_in_process" else (
                attacker.move_task(task, "dependencies_ready")
            )
        attacker.command("retry_step", claimed["a"]["workflow_step_uuid"])
        attacker.finish(worker)
        assert attacker.rows("select * from tasker.get_task_audit_history(%s)", task)
        attacker.rows("select * from tasker.changes_after()")
        attacker.one("select tasker.explain_task(%s)", task)
        assert attacker.findings() == []
        filled = {table: attacker.one(f"select count(*) from pg_temp.{table}") for table in tables}
        assert filled == dict.fromkeys(tables, 0)

    assert engine.state(task) == "complete"
    rows = audit(engine, task)
    assert [row["success"] for row in rows].count(False) == 1 and len(rows) == 4
    assert all(row["recorded_at"] > before and row["worker_uuid"] == worker for row in rows)
    assert_exactly_one_row_a_result(engine)


# -- the indexes are used


QUESTIONS = {
    "idx_audit_step_uuid": "workflow_step_uuid = (select workflow_step_uuid from sample)",
    "idx_audit_task_uuid": "task_uuid = (select task_uuid from sample)",
    "idx_audit_recorded_at": "recorded_at between '2020-01-02' and '2020-01-03'",
    "idx_audit_worker_uuid": "worker_uuid = (select worker_uuid from sample)",
    "idx_audit_correlation_id": "correlation_id = (select correlation_id from sample)",
    "idx_audit_success": "success = false",
}


def test_each_of_the_six_indexes_answers_its_question_on_50000_rows(engine: Engine) -> None:
    engine.run("set session_replication_role = replica")  # rows without steps: only the plans matter here
    engine.run(
        "insert into tasker.workflow_step_result_audit"
        " (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, recorded_at, worker_uuid,"
        "  correlation_id, success)"
        " select md5('s' || n / 2)::uuid, gen_random_uuid(), md5('t' || n / 20)::uuid, 'default',"
        "  '2020-01-01'::timestamptz + n * interval '1 minute',"
        "  case when n %% 3 > 0 then md5('w' || n %% 500)::uuid end, case when n %% 3 > 0 then md5('t' || n / 20)::uuid end,"
        "  n %% 200 > 0 from generate_series(1, 50000) n".replace("%%", "%")
    )
    engine.run("analyze tasker.workflow_step_result_audit")
    engine.run(
        "create temp table sample as select * from tasker.workflow_step_result_audit where worker_uuid is not null limit 1"
    )
    for index, question in QUESTIONS.items():
        (plan,) = engine.one(f"explain (format json) select * from tasker.workflow_step_result_audit where {question}")
        assert index in json.dumps(plan), (index, plan)
        assert "Seq Scan on workflow_step_result_audit" not in json.dumps(plan)
        (joined,) = engine.one(f"explain (format json) select * from tasker.audit_records where {question}")
        assert index in json.dumps(joined), (index, joined)


def test_a_task_of_many_attempts_keeps_its_history_apart(engine: Engine) -> None:
    """The rows of a diamond are as many as its attempts, whichever way they ended."""
    task = engine.task([{**step, "max_attempts": 3} for step in DIAMOND])
    worker = engine.worker()
    seen: dict[str, int] = {}
    for _ in range(40):
        for claimed in engine.claim(worker):
            seen[claimed["name"]] = seen.get(claimed["name"], 0) + 1
            if claimed["name"] == "left" and claimed["attempt"] < 3:
                engine.fail(claimed, "transient")
            else:
                engine.complete(claimed)
        engine.orchestrate()
        if engine.state(task) == "complete":
            break
        engine.shift_clock("5 minutes")
        engine.tick()
    assert engine.state(task) == "complete"
    counted = engine.rows(
        "select step_name, count(*), count(*) filter (where success) as good"
        " from tasker.get_task_audit_history(%s) group by 1", task,
    )  # fmt: skip
    assert {row["step_name"]: row["count"] for row in counted} == seen == {"top": 1, "left": 3, "right": 1, "bottom": 1}
    assert all(row["good"] == 1 for row in counted)
    assert_exactly_one_row_a_result(engine)
