"""What a template marks as sensitive reaches the worker that runs the step, and nothing that anybody else reads."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli, cli, run_cli
from tests.kernel.engine import Engine, Row, refused

__all__ = ["cli", "run_cli"]

MARK = "[sensitive]"
CARD, KEY, TOKEN, HALF, BY_HAND = (f"{word}-{uuid.uuid4().hex}" for word in ("card", "key", "token", "half", "hand"))
SECRETS = [CARD, KEY, TOKEN, HALF, BY_HAND]

FLOW: Row = {
    "name": "pay",
    "namespace": "shop",
    "sensitive": ["card", "/customer/iban", "/items/0/a~1b", "not there"],
    "steps": [
        {
            "name": "login",
            "arguments": {"url": "https://bank", "auth": {"key": KEY, "user": "shop"}},
            "sensitive": ["/auth/key"],
            "sensitive_result": True,
            "max_attempts": 3,
        },
        {"name": "charge", "depends_on": ["login"]},
        {"name": "log", "depends_on": ["charge"]},
    ],
}
CONTEXT: Row = {"order": 7, "card": CARD, "customer": {"iban": CARD, "name": "Ada"}, "items": [{"a/b": CARD, "c": 1}]}


def whole(conn: psycopg.Connection[Any], schema: str = "tasker") -> str:
    """Everything that stands in the tables but the one for secrets, and the queues."""
    names = conn.execute(
        "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace::regnamespace::text in ('tasker', 'pgmq')"
        " and relname <> 'sensitive_values'"
    ).fetchall()
    return "".join(str(conn.execute(f"select t::text from {name} t".encode()).fetchall()) for (name,) in names)


def clean(text: object) -> bool:
    return not any(secret in str(text) for secret in SECRETS)


def create(engine: Engine, way: str, **more: Any) -> uuid.UUID:
    if way == "template":
        engine.one("select tasker.register_template(%s)", json.dumps(FLOW))
        return engine.one(  # type: ignore[no-any-return]
            "select tasker.create_task('pay', %s, 'shop', p_idempotency_key => %s, p_request_id => %s)",
            json.dumps(CONTEXT), more.get("key"), more.get("request"),
        )  # fmt: skip
    return engine.one(  # type: ignore[no-any-return]
        "select tasker.create_task_from_graph(%s, %s, 'shop', p_idempotency_key => %s, p_request_id => %s)",
        json.dumps(FLOW), json.dumps(CONTEXT), more.get("key"), more.get("request"),
    )  # fmt: skip


@pytest.fixture
def heard(engine: Engine, database: str) -> Iterator[list[str]]:
    """What is sent to the channels of the engine."""
    engine.one("select tasker.ensure_namespace('shop')")
    engine.one("select tasker.set_namespace_notifications('shop', 'all')")
    payloads: list[str] = []
    with psycopg.connect(database, autocommit=True) as listener:
        for channel in ("tasker_work", "tasker_task_state", "tasker_step_state", "tasker_worker_state"):
            listener.execute(f"listen {channel}".encode())
        yield payloads
        payloads += [notice.payload for notice in listener.notifies(timeout=0.2)]
        assert payloads
        assert clean(payloads)


@pytest.mark.parametrize("way", ["template", "graph"])
def test_from_the_first_call_to_the_last(
    engine: Engine, way: str, heard: list[str], as_role: Callable[[str], psycopg.Connection[Any]], cli: Cli
) -> None:
    task = create(engine, way, key="order-7", request="r-7")
    worker = engine.worker()
    (login,) = engine.claim(worker)
    assert (login["context"], login["arguments"]) == (CONTEXT, FLOW["steps"][0]["arguments"])
    engine.one(
        "select tasker.save_checkpoint(%s, %s, %s)",
        login["workflow_step_uuid"],
        login["claim_uuid"],
        json.dumps({"half": HALF}),
    )
    engine.fail(login, "transient")
    engine.orchestrate()
    engine.shift_clock("1 minute")
    engine.tick()
    (login,) = engine.claim(worker)
    assert login["checkpoint"] == {"half": HALF}
    engine.shift_clock("1 minute")
    engine.tick()  # its lease ends, and what it saved is written into the log
    engine.orchestrate()
    engine.shift_clock("1 hour")
    engine.tick()
    (login,) = engine.claim(worker)
    engine.complete(login, {"token": TOKEN})
    engine.orchestrate()
    (charge,) = engine.claim(worker)
    assert charge["inputs"] == {"login": {"token": TOKEN}}
    engine.complete(charge, {"receipt": 1})
    engine.orchestrate()
    engine.finish(worker)
    assert engine.state(task) == "complete"

    # whoever reads sees that something is there, and not what
    seen = engine.row("select context from tasker.task_overview where task_uuid = %s", task)["context"]
    assert seen == {
        "order": 7,
        "card": MARK,
        "customer": {"iban": MARK, "name": "Ada"},
        "items": [{"a/b": MARK, "c": 1}],
    }
    step = engine.row(
        "select arguments, result from tasker.step_overview where task_uuid = %s and name = 'login'", task
    )
    assert step == {"arguments": {"url": "https://bank", "auth": {"key": MARK, "user": "shop"}}, "result": MARK}
    assert clean(whole(engine.conn))
    for role in ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"):
        with refused("42501"):
            as_role(role).execute("select * from tasker.sensitive_values")
        with refused("42501"):
            as_role(role).execute("select * from tasker.hash_salt")
        with refused("42501"):
            as_role(role).execute("select tasker.reveal(null, 'context', '{}')")
    for statement in (
        "select * from tasker.changes_after()",
        "select * from tasker.export_transitions()",
        f"select * from tasker.get_task_audit_history('{task}')",
        f"select tasker.explain_task('{task}')",
        "select * from tasker.timeline",
    ):
        assert clean(engine.rows(statement)), statement
    commands: list[tuple[object, ...]] = [
        ("task", "show", task), ("task", "timeline", task), ("task", "explain", task), ("step", "show", f"{task}/login"),
        ("step", "checkpoint", f"{task}/login"), ("audit", "task", task), ("export",),
    ]  # fmt: skip
    if way == "template":
        commands.append(("template", "show", "pay", "--namespace", "shop"))
    for words in commands:
        for style in ((), ("--json",)):
            ran = cli(*style, *words)
            assert ran.stdout
            assert clean(ran.stdout + ran.stderr), words
    engine.assert_consistent()


def test_the_same_request_is_known_again_and_another_secret_is_another_request(engine: Engine) -> None:
    for way in ("template", "graph"):
        task = create(engine, way, key=way)
        assert create(engine, way, key=way) == task
        with refused("TK423") as refusal:
            engine.one(
                "select tasker.create_task_from_graph(%s, %s, 'shop', p_idempotency_key => %s)"
                if way == "graph"
                else "select tasker.create_task(coalesce(%s::jsonb ->> 'name', ''), %s, 'shop', p_idempotency_key => %s)",
                json.dumps(FLOW), json.dumps({**CONTEXT, "card": "other"}), way,
            )  # fmt: skip
        assert clean(f"{refusal.message} {refusal.detail}")
    # what was not created has left nothing behind
    assert engine.one("select count(*) from tasker.sensitive_values where part = 'context'") == 2


def test_a_digest_does_not_tell_what_is_easily_guessed(engine: Engine) -> None:
    """Who may read digests could try all card numbers."""
    task = create(engine, "graph", key="k", request="r")
    guess = engine.one(
        "select encode(sha256(convert_to(jsonb_build_array(%s::jsonb, %s::jsonb, 0, null, '{}'::jsonb, true)::text, 'UTF8')), 'hex')",
        json.dumps(FLOW), json.dumps(CONTEXT),
    )  # fmt: skip
    kept = engine.one("select request_hash from tasker.tasks where task_uuid = %s", task)
    assert kept is not None and kept != guess
    plain = engine.one("select tasker.content_hash('x', false)")
    assert engine.one("select tasker.content_hash('x', true)") != plain
    assert engine.one("select request_hash from tasker.idempotency_keys where request_id = 'r'") not in (guess, plain)


def test_a_condition_sees_what_the_worker_sees(engine: Engine) -> None:
    steps = [
        {"name": "first", "sensitive_result": True},
        {"name": "second", "depends_on": ["first"], "condition": f'$.inputs.first.token == "{TOKEN}"'},
        {"name": "alone", "condition": '$.context.card == "1"'},
        {"name": "never", "condition": f'$.context.card == "{MARK}"'},
    ]
    task = engine.one(
        "select tasker.create_task_from_graph(%s, %s)",
        json.dumps({"name": "x", "sensitive": ["card"], "steps": steps}), '{"card": "1"}',
    )  # fmt: skip
    claimed = {step["name"]: step for step in engine.claim(engine.worker())}
    assert set(claimed) == {"first", "alone"}
    engine.complete(claimed["first"], {"token": TOKEN})
    engine.orchestrate()
    assert engine.states(task)["second"] == "enqueued"
    assert engine.states(task)["never"] == "cancelled"


def test_what_is_resolved_by_hand_and_what_is_resumed(engine: Engine) -> None:
    task = create(engine, "graph")
    worker = engine.worker()
    (login,) = engine.claim(worker)
    engine.one(
        "select tasker.save_checkpoint(%s, %s, %s)", login["workflow_step_uuid"], login["claim_uuid"], json.dumps(HALF)
    )
    engine.command("cancel_task", task)
    again = engine.command("resume_task", task)
    (login,) = engine.claim(worker)
    assert (login["context"], login["arguments"], login["checkpoint"]) == (CONTEXT, FLOW["steps"][0]["arguments"], HALF)
    engine.fail(login, "permanent")
    engine.orchestrate()
    engine.one(
        "select tasker.resolve_step(%s, 'by hand', 'ada', %s)",
        login["workflow_step_uuid"],
        json.dumps({"token": BY_HAND}),
    )
    (charge,) = engine.claim(worker)
    assert charge["inputs"] == {"login": {"token": BY_HAND}}
    assert str(charge["task_uuid"]) == str(again)
    assert clean(whole(engine.conn))


def test_the_generic_door_hides_results_too(engine: Engine) -> None:
    task = engine.task([{"name": "a", "sensitive_result": True}, {"name": "b", "depends_on": ["a"]}])
    step = engine.steps(task)["a"]
    engine.move_step(step, "start")
    engine.move_step(step, "enqueue_for_orchestration", success=True, result=TOKEN)
    assert engine.one("select result from tasker.step_overview where workflow_step_uuid = %s", step) is None
    engine.orchestrate()
    (claimed,) = engine.claim(engine.worker())
    assert claimed["inputs"] == {"a": TOKEN}
    assert clean(whole(engine.conn))


@pytest.mark.parametrize(
    "statement",
    [
        # what is wrong stands beside the secret
        "select tasker.create_task('pay', %(context)s::jsonb, 'shop', p_version => '9')",
        "select tasker.create_tasks(jsonb_build_array(jsonb_build_object('name', 'pay', 'namespace', 'shop', 'priority', 'x', 'context', %(context)s::jsonb)))",
        "select tasker.create_task('pay', jsonb_build_array(%(context)s::jsonb), 'shop')",
        "select tasker.create_task('pay', %(context)s::jsonb, 'shop', p_parent_task_uuid => gen_random_uuid())",
        "select tasker.create_task('pay', %(context)s::jsonb, 'shop', p_priority => 2000000000)",
        "select tasker.create_task_from_graph(%(flow)s::jsonb || '{\"max_retries\": -1}', %(context)s::jsonb)",
        "select tasker.create_task_from_graph(%(flow)s::jsonb || '{\"sensitive\": [1]}', %(context)s::jsonb)",
        "select tasker.register_template(%(flow)s::jsonb || '{\"description\": \"other\"}')",
        "select tasker.transition_step(%(step)s, 'fail', jsonb_build_object('result', %(context)s::jsonb, 'category', 'x'))",
        "select tasker.resolve_step(%(step)s, '', 'ada', %(context)s::jsonb)",
        "select tasker.complete_step(%(step)s, gen_random_uuid(), %(context)s::jsonb)",
        "select * from tasker.complete_step(%(step)s, gen_random_uuid(), %(context)s::jsonb, -1)",
        "select tasker.save_checkpoint(%(step)s, gen_random_uuid(), %(context)s::jsonb)",
    ],
)  # fmt: skip
def test_no_error_tells_a_secret(engine: Engine, statement: str) -> None:
    task = create(engine, "template")
    values = {"context": json.dumps(CONTEXT), "flow": json.dumps(FLOW), "step": engine.steps(task)["login"]}
    with pytest.raises(psycopg.Error) as caught:
        engine.conn.execute(statement.encode(), values)
    told = caught.value.diag
    assert (told.sqlstate or "").startswith(("TK", "23"))
    assert clean([told.message_primary, told.message_detail, told.message_hint, told.context])


def test_a_marking_that_says_nothing_is_refused(engine: Engine) -> None:
    for wrong, path in (
        ({"sensitive": "card"}, "sensitive"),
        ({"sensitive": [""]}, "sensitive"),
        ({"sensitive": [{"a": 1}]}, "sensitive"),
        ({"steps": [{"name": "a", "sensitive": {"a": 1}}]}, "steps[0].sensitive"),
        ({"steps": [{"name": "a", "sensitive_result": "yes"}]}, "steps[0].sensitive_result"),
    ):
        with refused("TK400") as refusal:
            engine.one("select tasker.register_template(%s)", json.dumps({"name": "x", "steps": [], **wrong}))
        assert [problem["path"] for problem in refusal.detail["problems"]] == [path]


@pytest.mark.parametrize(
    "document", [{"a": None}, {"a": {"b": 1}}, {"a": [1, {"b": 2}]}, {"a": "[sensitive]"}, {"b": 1}, {}]
)
@pytest.mark.parametrize("pointers", [["a"], ["/a"], ["/a", "/a/b"], ["/a/b", "a"], ["/a/1/b"], ["/a/b/c"]])
def test_what_is_hidden_comes_back_whole(engine: Engine, document: Row, pointers: list[str]) -> None:
    task = engine.one(
        "select tasker.create_task_from_graph(%s, %s)",
        json.dumps({"name": "x", "sensitive": pointers, "steps": [{"name": "s"}]}), json.dumps(document),
    )  # fmt: skip
    (claimed,) = engine.claim(engine.worker())
    assert (claimed["task_uuid"], claimed["context"]) == (task, document)


def test_who_may_read_all_data_does_not_read_them(engine: Engine, login: Callable[..., str]) -> None:
    create(engine, "template")
    with psycopg.connect(login("pg_read_all_data"), autocommit=True) as conn:
        with refused("42501"):  # what has a policy asks more of whoever reads it
            conn.execute("select count(*) from tasker.tasks")
        assert conn.execute("select * from tasker.sensitive_values").fetchall() == []
        assert conn.execute("select * from tasker.hash_salt").fetchall() == []


def test_an_owners_dump_holds_them(engine: Engine) -> None:
    """Not promised: SECURITY.md says that they stand in the table as they are."""
    create(engine, "template")
    assert CARD in str(engine.rows("select * from tasker.sensitive_values"))
    assert KEY in str(engine.rows("select * from tasker.sensitive_values"))
    promised = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text("utf-8")
    assert "sensitive_values" in promised
