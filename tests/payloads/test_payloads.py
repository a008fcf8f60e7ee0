"""Big results: kept once and apart from the log, loaded when they are wanted; and what is too big is refused."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.access.test_secrets import whole
from tests.audit.evidence import seal, triggers_off, verify
from tests.audit.test_retention import age, archive, policy, purge
from tests.kernel.engine import Engine, Row, chain, refused

THRESHOLD, LIMIT = 65_536, 16_777_216
BIG: Row = {"rows": [{"n": n, "text": f"row {n}"} for n in range(4000)]}
VOCABULARIES = ["tasker", "orchestration", "execution", "pipeline"]


def text_of(engine: Engine, document: Any) -> str:
    return engine.one("select %s::jsonb::text", json.dumps(document))  # type: ignore[no-any-return]


def sized(size: int) -> Row:
    """A document whose text, as PostgreSQL writes it, has so many bytes."""
    return {"x": "y" * (size - len('{"x": ""}'))}


def told(engine: Engine, step: UUID) -> Row:
    """What the log says of the latest result of a step."""
    return engine.one(  # type: ignore[no-any-return]
        "select metadata from tasker.workflow_step_transitions t join tasker.workflow_steps s"
        " on s.result_transition_uuid = t.workflow_step_transition_uuid where s.workflow_step_uuid = %s",
        step,
    )


def go(engine: Engine, worker: UUID, result: Any) -> Row:
    """Claim one step, complete it with this result, and orchestrate."""
    (claimed,) = engine.claim(worker)
    engine.complete(claimed, result)
    engine.orchestrate()
    return claimed


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("going_on", [False, True])
def test_a_big_result_is_stored_once_and_loaded_by_whoever_wants_it(
    engine: Engine, vocabulary: str, going_on: bool
) -> None:
    task = engine.task(chain("make", "use", "after"), vocabulary=vocabulary)
    worker = engine.worker()
    (made,) = engine.claim(worker)
    if going_on:
        report = {"step_uuid": made["workflow_step_uuid"], "claim_uuid": made["claim_uuid"], "result": BIG}
        rows = engine.rows("select to_jsonb(r.claim) as claim from tasker.report_and_claim(%s, %s, null, 5) r", worker,
                           json.dumps([report], default=str))  # fmt: skip
        claims = [row["claim"] for row in rows if row["claim"]]
    else:
        engine.complete(made, BIG)
        claims = []
    if not claims:  # in some vocabularies it has to be driven first
        engine.orchestrate()
        claims = engine.claim(worker)
    (use,) = claims

    text = text_of(engine, BIG)
    step = made["workflow_step_uuid"]
    reference = told(engine, step)["result_payload"]
    assert reference == {
        "payload_uuid": engine.one("select payload_uuid::text from tasker.step_payloads"),
        "size": len(text.encode()),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    assert "result" not in told(engine, step)
    assert (use["inputs"], use["payloads"]) == ({"make": reference}, ["make"])
    assert engine.one("select tasker.load_result(%s)", step) == BIG
    assert engine.one("select tasker.load_result(%s, %s)", reference["payload_uuid"], use["claim_uuid"]) == BIG

    engine.complete(use, "small")
    engine.orchestrate()
    (after,) = engine.claim(worker)
    assert (after["inputs"], after["payloads"]) == ({"use": "small"}, None)
    assert engine.one("select tasker.load_result(%s)", use["workflow_step_uuid"]) == "small"
    assert engine.one("select tasker.load_result(%s)", after["workflow_step_uuid"]) is None
    engine.complete(after)
    engine.orchestrate()
    for statement in (
        "select * from tasker.changes_after()",
        "select * from tasker.export_transitions()",
        f"select * from tasker.get_task_audit_history('{task}')",
        f"select tasker.explain_task('{task}')",
        "select * from tasker.timeline",
        "select * from tasker.step_overview",
    ):
        assert all(len(str(row)) < 4096 for row in engine.rows(statement)), statement
    assert engine.one("select result from tasker.step_overview where workflow_step_uuid = %s", step) == reference
    assert engine.one("select count(*) from tasker.step_payloads") == 1
    assert engine.one(
        "select output_size_bytes from tasker.metrics_step_durations('-infinity') where name = 'make'"
    ) == len(text)
    engine.assert_consistent()


def test_the_threshold_is_of_the_namespace_and_of_the_text(engine: Engine) -> None:
    worker = engine.worker()
    for threshold in (THRESHOLD, 5000):
        engine.run("select tasker.set_payload_limits('default', %s)" if threshold != THRESHOLD else "select tasker.ensure_namespace('default')",
                   *([threshold] if threshold != THRESHOLD else []))  # fmt: skip
        for over in (0, 1):
            task = engine.task(chain("only"))
            claimed = go(engine, worker, sized(threshold + over))
            log = told(engine, engine.steps(task)["only"])
            assert ("result" in log, "result_payload" in log) == (not over, bool(over))
            assert engine.one("select tasker.load_result(%s)", claimed["workflow_step_uuid"]) == sized(threshold + over)
    assert engine.one("select count(*) from tasker.step_payloads") == 2
    events = engine.rows("select detail from tasker.audit_events where detail::text like '%payload_threshold%5000%'")
    assert events, "who changed it is on record"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("default", 4095, None), "TK400"),
        (("default", None, 134_217_729), "TK400"),
        (("default", 70_000, 69_999), "TK400"),
        (("default", None, 65_535), "TK400"),
        (("nowhere", 5000, None), "TK404"),
        ((None, 5000, None), "TK404"),
    ],
)
def test_limits_that_are_none(engine: Engine, arguments: tuple[Any, ...], code: str) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    with refused(code):
        engine.run("select tasker.set_payload_limits(%s, %s, %s)", *arguments)


def test_conditions_see_big_results_whole(engine: Engine) -> None:
    task = engine.task([
        {"name": "make"},
        {"name": "much", "depends_on": ["make"], "condition": "$.inputs.make.rows[3999].n == 3999"},
        {"name": "little", "depends_on": ["make"], "condition": "$.inputs.make.size < 10"},
    ])  # fmt: skip
    worker = engine.worker()
    go(engine, worker, BIG)
    (claimed,) = engine.claim(worker)
    assert claimed["name"] == "much"
    assert engine.states(task)["little"] == "cancelled"


# ------------------------------------------------------------------------------------------------------------- limits


def refused_as_too_large(engine: Engine, statement: str, *parameters: Any, limit: int = 5000) -> str:
    before = whole(engine.conn)
    with refused("TK413") as refusal:
        engine.run(statement, *parameters)
    assert refusal.detail["limit"] == limit
    assert refusal.detail["size"] > limit
    assert f"has {refusal.detail['size']} bytes, and namespace default takes at most {limit}" in refusal.message
    assert "set_payload_limits" in refusal.hint
    assert whole(engine.conn) == before, "nothing is stored"
    return refusal.message


def test_what_is_too_big_is_refused_with_size_and_limit(engine: Engine) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    engine.run("select tasker.set_payload_limits('default', 5000, 5000)")
    engine.run("select tasker.register_template(%s)", json.dumps({"name": "one", "steps": chain("only", "next")}))
    big = json.dumps(sized(5001))
    fits = json.dumps(sized(4500))

    create = "select tasker.create_task('one', %s, p_tags => %s)"
    assert refused_as_too_large(engine, create, big, "{}").startswith("the context has")
    assert refused_as_too_large(engine, create, "{}", big).startswith("the tags has")
    requests = json.dumps([{"name": "one"}, {"name": "one", "context": sized(5001)}])
    refused_as_too_large(engine, "select tasker.create_tasks(%s)", requests)
    graph = {"name": "g", "steps": [{"name": "a"}, {"name": "b", "arguments": sized(5001)}]}
    assert refused_as_too_large(engine, "select tasker.create_task_from_graph(%s)", json.dumps(graph)).startswith(
        "steps[1].arguments has"
    )
    refused_as_too_large(engine, "select tasker.register_template(%s)", json.dumps(graph))
    refused_as_too_large(
        engine, "select tasker.create_task_from_graph(%s, %s)", json.dumps({"name": "g", "steps": []}), big
    )
    refused_as_too_large(engine, "select tasker.schedule_tasks('s', '0 0 * * *', 'one', %s)", big)

    refused_as_too_large(engine, "select tasker.emit_event('e', 'k', %s)", big)

    task = engine.one("select tasker.create_task('one', %s, p_tags => %s)", fits, fits)
    (held,) = engine.claim(engine.worker())
    key = (held["workflow_step_uuid"], held["claim_uuid"])
    assert refused_as_too_large(engine, "select tasker.save_checkpoint(%s, %s, %s)", *key, big).startswith(
        "the checkpoint has"
    )
    refused_as_too_large(engine, "select tasker.resolve_step(%s, 'r', 'ada', %s)", engine.steps(task)["next"], big)
    refused_as_too_large(engine, "select tasker.transition_step(%s, 'cancel', %s)", engine.steps(task)["next"],
                         json.dumps({"reason": "r", "requested_by": "ada", "result": sized(5001)}))  # fmt: skip

    before = whole(engine.conn)
    for statement in ("select tasker.complete_step(%s, %s, %s)", "select tasker.fail_step(%s, %s, %s)"):
        with refused("TK413") as refusal:
            engine.run(statement, *key, big)
        assert "namespace default takes at most 5000" in refusal.message
    assert whole(engine.conn) == before
    # in a batch it does not disturb the others, and is recorded
    report = {"step_uuid": key[0], "claim_uuid": key[1]}
    for call in (
        "complete_steps(%s) o",
        f"report_and_claim('{held_by(engine, key[0])}', %s) r, lateral (select (r.outcome).*) o",
    ):
        (outcome,) = engine.rows(
            f"select o.code, o.message from tasker.{call}", json.dumps([{**report, "result": sized(5001)}], default=str)
        )
        assert outcome["code"] == "TK413"
        assert "5000" in outcome["message"]
    assert engine.values("select distinct code from tasker.rejected_transitions") == ["TK413"]
    # nothing is lost: it is still held, and the worker may say something else
    engine.fail(held, "transient", retry_after="1 hour")
    engine.orchestrate()
    assert engine.states(task)["only"] == "waiting_for_retry"
    engine.assert_consistent()


def held_by(engine: Engine, step: UUID) -> UUID:
    return engine.one("select worker_uuid from tasker.workflow_steps where workflow_step_uuid = %s", step)  # type: ignore[no-any-return]


def test_numbers_that_are_short_inside_and_long_outside_are_measured_as_text(engine: Engine) -> None:
    task = engine.task(chain("only"))
    (held,) = engine.claim(engine.worker())
    numbers = f"[{','.join(['1e131071'] * 400)}]"  # 8 kB in the database, 52 MB as text
    with refused("TK413") as refusal:
        engine.run("select tasker.complete_step(%s, %s, %s)", held["workflow_step_uuid"], held["claim_uuid"], numbers)
    assert str(LIMIT) in refusal.message
    engine.complete(held)
    engine.orchestrate()
    assert engine.state(task) == "complete"


def test_who_reports_by_hand_can_t_make_a_reference_up(engine: Engine) -> None:
    step = engine.parked_step("in_progress")
    engine.move_step(step, "enqueue_for_orchestration", success=True, result=1,
                     result_payload={"payload_uuid": str(step), "size": 1, "sha256": "x"})  # fmt: skip
    assert told(engine, step)["result"] == 1
    assert "result_payload" not in told(engine, step)


def test_a_big_result_by_hand_is_kept_apart_too(engine: Engine) -> None:
    task = engine.task(chain("a", "b", "c"))
    steps = engine.steps(task)
    engine.run("select tasker.resolve_step(%s, 'r', 'ada', %s)", steps["a"], json.dumps(BIG))
    (claimed,) = engine.claim(engine.worker())
    assert claimed["payloads"] == ["a"]
    engine.move_step(steps["b"], "enqueue_for_orchestration", success=True, result=BIG)
    engine.orchestrate()
    assert [engine.one("select tasker.load_result(%s)", steps[name]) for name in "ab"] == [BIG, BIG]
    assert engine.one("select count(*) from tasker.step_payloads") == 2
    engine.assert_consistent()


def test_a_big_checkpoint_does_not_stand_in_the_log_when_a_lease_ends(engine: Engine) -> None:
    task = engine.task(chain("only"))
    worker = engine.worker()
    (held,) = engine.claim(worker)
    engine.run(
        "select tasker.save_checkpoint(%s, %s, %s)", held["workflow_step_uuid"], held["claim_uuid"], json.dumps(BIG)
    )
    engine.run(
        "select tasker.set_payload_limits('default', 4096, 4096)"
    )  # lowered since: what the engine says is never refused
    engine.shift_clock("1 minute")
    engine.tick()
    text = text_of(engine, BIG)
    assert told(engine, engine.steps(task)["only"])["checkpoint"] == {
        "size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()
    }  # fmt: skip
    engine.orchestrate()
    engine.shift_clock("1 hour")
    engine.tick()
    (again,) = engine.claim(worker)
    assert again["checkpoint"] == BIG


# --------------------------------------------------------------------------------------------------------- sensitive


def test_big_and_sensitive_is_for_the_worker_that_needs_it_alone(
    engine: Engine, as_role: Callable[[str], psycopg.Connection[Any]]
) -> None:
    secret = {"key": "s3cr3t" * 20_000}
    task = engine.task([
        {"name": "make", "sensitive_result": True},
        {"name": "use", "depends_on": ["make"], "condition": '$.inputs.make.key like_regex "^s3c"'},
        {"name": "other"},
    ])  # fmt: skip
    worker = engine.worker()
    claims = {claimed["name"]: claimed for claimed in engine.claim(worker)}
    engine.complete(claims["make"], secret)
    engine.orchestrate()
    step = claims["make"]["workflow_step_uuid"]
    (use,) = engine.claim(worker)
    payload = told(engine, step)["result_payload"]["payload_uuid"]
    assert told(engine, step)["result"] == "[sensitive]"
    assert use["inputs"]["make"] == {"payload_uuid": payload, "size": 120_011}, "no digest: it could be guessed from"
    assert "s3cr3t" not in whole(engine.conn)
    load = "select tasker.load_result(%s, %s)"
    for key in (step, payload):
        assert engine.one(load, key, use["claim_uuid"]) == secret
        assert engine.one(load, key, None) == "[sensitive]"
        with refused("TK412"):  # a claim, but of a step that has nothing to do with it
            engine.one(load, key, claims["other"]["claim_uuid"])
    for role in ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor"):
        assert as_role(role).execute(load, (step, None)).fetchall() == [("[sensitive]",)]
    with refused("42501"):
        as_role("tasker_monitor").execute(load, (step, None))
    with refused("42501"):
        as_role("tasker_client").execute("select * from tasker.step_payloads")
    engine.complete(use)
    engine.orchestrate()
    with refused("TK412"):  # it is not held any more
        engine.one(load, step, use["claim_uuid"])
    assert engine.states(task)["use"] == "complete"
    engine.assert_consistent()


# ---------------------------------------------------------------------------------------------- evidence and retention


def test_archived_with_their_task_and_gone_with_its_purge(engine: Engine) -> None:
    policy(engine)
    task = engine.task(chain("only"))
    go(engine, engine.worker(), BIG)
    payload = engine.one("select payload_uuid from tasker.step_payloads")
    for statement in (
        "delete from tasker.step_payloads",
        "truncate tasker.step_payloads",
        "update tasker.step_payloads set size = 1",
    ):
        with refused("TK409"):
            engine.run(statement)
    age(engine, "2 years", task)
    assert archive(engine)["tasks"] == 1
    assert engine.one("select tasker.load_result(%s)", payload) == BIG
    with refused("TK404") as refusal:
        engine.one("select tasker.load_result(%s)", task)
    assert "payload_uuid" in refusal.hint
    assert verify(engine) == []
    engine.run("select tasker.hold_task(%s, 'case 7', 'ada')", task)
    assert purge(engine)["tasks"] == 0
    assert engine.one("select tasker.load_result(%s)", payload) == BIG, "a legal hold holds it too"
    engine.run("select tasker.release_task(%s, 'closed', 'ada')", task)
    assert purge(engine)["tasks"] == 1
    assert engine.one("select count(*) from tasker.step_payloads") == 0
    with refused("TK404"):
        engine.one("select tasker.load_result(%s)", payload)
    assert verify(engine) == []


@pytest.mark.parametrize("archived", [False, True])
def test_a_changed_payload_is_found(engine: Engine, archived: bool) -> None:
    policy(engine)
    task = engine.task(chain("only"))
    go(engine, engine.worker(), BIG)
    seal(engine)
    assert verify(engine) == []
    if archived:
        age(engine, "2 years", task)
        archive(engine)
    with triggers_off(engine, "step_payloads"):
        engine.run("update tasker.step_payloads set payload = '{}', sha256 = encode(sha256('{}'), 'hex')")
    assert [row["finding"] for row in verify(engine)] == ["payload_changed"]
    if not archived:
        assert [row["finding"] for row in engine.findings()] == ["result_payload_differs"]
        with triggers_off(engine, "step_payloads"):
            engine.run("delete from tasker.step_payloads")
        assert [row["finding"] for row in engine.findings()] == ["result_payload_differs"]


def test_a_resumed_task_reads_what_the_old_one_made(engine: Engine) -> None:
    task = engine.task(chain("make", "use"))
    worker = engine.worker()
    go(engine, worker, BIG)
    engine.command("cancel_task", task)
    engine.run("select tasker.set_payload_limits('default', 4096, 4096)")
    new = engine.one("select tasker.resume_task(%s, 'r', 'ada')", task)
    (use,) = engine.claim(worker)
    assert (use["task_uuid"], use["payloads"]) == (new, ["make"])
    assert (
        engine.one("select tasker.load_result(%s, %s)", use["inputs"]["make"]["payload_uuid"], use["claim_uuid"]) == BIG
    )
    engine.complete(use)
    engine.orchestrate()
    assert engine.state(new) == "complete"
    engine.assert_consistent()


def test_a_repeated_report_stores_nothing_again_and_two_at_once_are_one(engine: Engine, connect: Any) -> None:
    engine.task(chain("only"))
    (held,) = engine.claim(engine.worker())
    report = [{"step_uuid": held["workflow_step_uuid"], "claim_uuid": held["claim_uuid"], "result": BIG}]
    answers: list[Any] = []

    def send() -> None:
        answers.append(Engine(connect()).report(*report)[0]["code"])

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {None, "TK412"}
    assert None in answers
    assert engine.report(*report)[0]["code"] is None
    assert engine.one("select count(*) from tasker.step_payloads") == 1
    engine.assert_consistent()


@pytest.mark.parametrize(("size", "state"), [(5000, "complete"), (6000, "error")])
def test_what_the_engine_itself_reports_fails_in_words_where_it_is_too_big(
    engine: Engine, size: int, state: str
) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    engine.run("select tasker.set_payload_limits('default', 5500, 5500)")
    task = engine.task(chain("only"))
    (held,) = engine.claim(engine.worker())
    step = held["workflow_step_uuid"]
    engine.run(
        "update tasker.workflow_steps set worker_uuid = null where workflow_step_uuid = %s", step
    )  # as the engine holds it
    report = json.dumps({"success": True, "result": sized(size)})
    engine.run("select tasker.report_by_engine(array[%s], array[%s::jsonb])", step, report)
    engine.orchestrate()
    assert engine.states(task) == {"only": state}
    error = told(engine, step).get("error")
    assert (error and error["type"]) == (None if state == "complete" else "payload_too_large")
    engine.assert_consistent()
