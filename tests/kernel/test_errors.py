"""The error catalogue: every code can be met, and says in MESSAGE, DETAIL and HINT what a caller needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kernel.engine import Engine, chain, refused

ROOT = Path(__file__).resolve().parents[2]

CATALOGUE = {
    "TK400": ("invalid_definition", 400, False),
    "TK403": ("not_owner", 403, False),
    "TK404": ("not_found", 404, False),
    "TK409": ("invalid_transition", 409, False),
    "TK412": ("stale_claim", 412, False),
    "TK413": ("payload_too_large", 413, False),
    "TK422": ("guard_failed", 422, False),
    "TK423": ("idempotency_conflict", 409, False),
    "TK429": ("limit_exceeded", 429, True),
    "TK503": ("circuit_open", 503, True),
}


def test_the_catalogue_is_what_drivers_switch_on(rules: Engine) -> None:
    stored = {
        row["code"]: (row["name"], row["http_status"], row["is_retryable"])
        for row in rules.rows("select * from tasker.error_catalogue")
    }
    assert stored == CATALOGUE
    assert all(rules.values("select description <> '' from tasker.error_catalogue"))


def test_every_code_that_the_sources_use_is_in_the_catalogue() -> None:
    used = set()
    for path in (ROOT / "sql").rglob("*.sql"):
        used |= set(re.findall(r"'(TK\d{3})'", path.read_text()))
    assert used == set(CATALOGUE)


def test_every_code_can_be_met(tenant: Engine) -> None:
    task = tenant.task(chain("only"), start=False)
    step = tenant.steps(task)["only"]
    nobody = "00000000-0000-0000-0000-000000000000"

    with refused("TK400") as refusal:
        tenant.task([{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}])
    assert refusal.detail["problems"]
    with refused("TK404"):
        tenant.one("select tasker.create_task('no such template')")
    with refused("TK409") as refusal:
        tenant.move_task(task, "give_up")
    assert refusal.hint == "Allowed from pending: cancel (to cancelled), start (to initializing)."
    with refused("TK412"):
        tenant.one("select tasker.complete_step(%s, %s)", step, nobody)
    with refused("TK413") as refusal:
        tenant.one("select tasker.create_task_from_graph(%s, %s, p_namespace => %s)", json.dumps({"name": "one", "steps": []}),
                   json.dumps({"big": "x" * 2**24}), tenant.namespace)  # fmt: skip
    assert (refusal.detail["limit"], refusal.detail["size"]) == (2**24, 2**24 + 11)
    with refused("TK422"):
        tenant.move_step(tenant.steps(tenant.task(chain("a", "b"), start=False))["b"], "enqueue")
    tenant.move_task(task, "start", tenant.processor(lease="1 hour"))
    with refused("TK403"):
        tenant.move_task(task, "ready_steps_found")
    keyed = "select tasker.create_task_from_graph(%s, p_namespace => %s, p_idempotency_key => 'key')"
    tenant.one(keyed, json.dumps({"name": "one", "steps": []}), tenant.namespace)
    with refused("TK423") as refusal:
        tenant.one(keyed, json.dumps({"name": "two", "steps": []}), tenant.namespace)
    assert refusal.detail["idempotency_key"] == "key"
    with refused("TK429") as refusal:
        tenant.report(*[{"step_uuid": nobody, "claim_uuid": nobody}] * 10_001)
    assert refusal.detail["limit"] == 10_000


@pytest.mark.parametrize("code", CATALOGUE)
def test_an_error_without_detail_or_hint_gets_them_from_the_catalogue(rules: Engine, code: str) -> None:
    with refused(code) as refusal:
        rules.run("select tasker.raise_error(%s, 'what is wrong', null, null)", code)
    assert refusal.message == "what is wrong"
    assert refusal.detail == {}
    assert refusal.hint == rules.one("select description from tasker.error_catalogue where code = %s", code)


def test_text_of_a_caller_is_not_a_format(tenant: Engine) -> None:
    """Percent signs, quotes and line breaks in what a caller sends arrive in the message as they are."""
    event = "100% 'sure' %s\n%L"
    task = tenant.parked_task("pending")
    with refused("TK409") as refusal:
        tenant.move_task(task, event)
    assert event in refusal.message
    assert refusal.detail["event"] == event


WRONG_INPUT = [
    "select * from tasker.claim_steps('{worker}', p_limit => 0)",
    "select * from tasker.claim_steps('{worker}', p_limit => null)",
    "select * from tasker.claim_steps('{worker}', p_limit => 10001)",
    "select * from tasker.claim_steps('{worker}', p_lease => '0')",
    "select * from tasker.claim_steps('{worker}', p_lease => null)",
    "select tasker.extend_leases('{worker}', '-1 s')",
    "select * from tasker.orchestrate(p_limit => 0)",
    "select * from tasker.orchestrate(p_limit => null)",
    "select * from tasker.tick(0)",
    "select * from tasker.tick(null)",
    "select * from tasker.changes_after('nonsense')",
    "select * from tasker.changes_after('1:2')",
    "select * from tasker.changes_after('99999999999999999999:0:0')",
    "select * from tasker.changes_after('-1:0:0')",
    "select * from tasker.changes_after(p_limit => 0)",
    "select * from tasker.complete_steps('{{}}')",
    "select * from tasker.complete_steps(null)",
    "select * from tasker.complete_steps('null')",
    "select tasker.register_worker('')",
    "select tasker.register_worker('w', p_max_concurrent => 0)",
    "select tasker.register_processor(null)",
    "select tasker.register_processor('p', '0')",
    "select tasker.ensure_namespace('not a name')",
    "select tasker.ensure_namespace(null)",
    "select tasker.set_namespace_notifications('default', 'loud')",
    "select tasker.set_namespace_notifications('default', null)",
    "select tasker.lifecycle_diagram('tasker.task', 'png')",
    "select * from tasker.allowed_events('worker', '{worker}')",
    "select * from tasker.allowed_events(null, null)",
    "select tasker.cancel_task('{worker}', '', 'somebody')",
    "select tasker.cancel_step('{worker}', 'test', null)",
    "select tasker.define_vocabulary('1')",
    "select tasker.register_template('[]')",
    "select tasker.register_template(null)",
    "select tasker.create_tasks('{{}}')",
    "select tasker.create_tasks(null)",
    "select tasker.create_task_from_graph(null)",
]


@pytest.mark.parametrize("call", WRONG_INPUT)
def test_wrong_input_is_an_error_of_ours_and_no_accident(tenant: Engine, call: str) -> None:
    worker = tenant.worker()
    with refused("TK400"):
        tenant.rows(call.format(worker=worker))


UNKNOWN = [
    "select * from tasker.claim_steps('{uuid}')",
    "select tasker.worker_heartbeat('{uuid}')",
    "select tasker.shutdown_worker('{uuid}')",
    "select tasker.processor_heartbeat('{uuid}')",
    "select tasker.register_worker('w', p_vocabulary => 'nowhere')",
    "select tasker.set_namespace_notifications('nowhere', 'all')",
    "select tasker.lifecycle_diagram('nowhere')",
    "select tasker.explain_task('{uuid}')",
    "select tasker.complete_step('{uuid}', '{uuid}')",
    "select tasker.fail_step('{uuid}', '{uuid}', null)",
    "select tasker.retry_step('{uuid}', 'test', 'somebody')",
    "select tasker.reset_task('{uuid}', 'test', 'somebody')",
]


@pytest.mark.parametrize("call", UNKNOWN)
def test_what_is_not_there_is_not_found(rules: Engine, call: str) -> None:
    with refused("TK404"):
        rules.rows(call.format(uuid="01890000-0000-7000-8000-000000000000"))
