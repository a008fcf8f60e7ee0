"""Input made to break out, to overflow or to get stuck: it is kept as it is, or refused as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.cli.conftest import Cli, cli, run_cli
from tests.kernel.engine import Engine, Row, chain, refused
from tests.workflow.fixtures import on_one_server

__all__ = ["cli", "run_cli"]

HOSTILE = [
    "'; drop table tasker.tasks; --",
    '"; drop table tasker.tasks; --',
    "$$; drop table tasker.tasks; $$",
    "%s %I %L %1$s {0} {}",
    "\\'; select 1; --",
    "\\",
    "tasker.tasks",
    "pg_sleep(10)",
    "../../etc/passwd",
    "a\nb\r\tc",
    "\u202etxt.exe",
    "🚀" * 40,
    "' || (select current_user) || '",
    "<script>alert(1)</script>",
    'x"} 1\npgtasker_info{version="evil',
    "=cmd|' /C calc'!A0",
    "NULL",
    "x" * 255,
]


def tables(engine: Engine) -> list[str]:
    return engine.values(
        "select oid::regclass::text from pg_class where relnamespace = 'tasker'::regnamespace order by 1"
    )


@pytest.mark.parametrize("text", HOSTILE, ids=[f"text-{place}" for place in range(len(HOSTILE))])
def test_names_are_text_and_nothing_else(engine: Engine, text: str) -> None:
    """The same text wherever a caller may put one, through a whole life with a failure, a breaker and a retry."""
    before = tables(engine)
    steps: list[Row] = [
        {"name": text, "handler": text, "tool": text, "requires": [text], "max_attempts": 2, "arguments": {text: text}},
        {"name": f"2{text}"[:255], "depends_on": [text], "condition": "$.context.x != $.context.y", "requires": [text]},
    ]
    engine.one(
        "select tasker.register_template(%s)",
        json.dumps({"name": text, "version": text[:128], "description": text, "steps": steps}),
    )
    engine.one("select tasker.configure_breaker(%s, 2)", text)
    engine.one("select tasker.configure_tool(%s, '1 hour')", text)
    engine.one("select tasker.set_limit('tool', %s, 5, 5)", text)
    task = engine.one(
        "select tasker.create_task(%s, %s, p_version => %s, p_idempotency_key => %s, p_tags => %s, p_requested_by => %s, p_request_id => %s)",
        text, json.dumps({text: text, "x": 1, "y": 2}), text[:128], text, json.dumps({text: text}), text, text,
    )  # fmt: skip
    worker = engine.one("select tasker.register_worker(%s, p_capabilities => array[%s])", text, text)
    processor = engine.processor(text)
    (claimed,) = engine.claim(worker)
    assert [claimed[key] for key in ("name", "handler", "tool", "task_name")] == [text] * 4
    assert claimed["arguments"] == {text: text}
    engine.one(
        "select tasker.fail_step(%s, %s, %s, 'transient', '0 seconds')",
        claimed["workflow_step_uuid"], claimed["claim_uuid"], json.dumps({"message": text, "type": text}),
    )  # fmt: skip
    engine.orchestrate()
    engine.one("select tasker.retry_step(%s, %s, %s)", claimed["workflow_step_uuid"], text, text)
    engine.one("select tasker.record_breaker_result(%s, false, %s)", text, json.dumps({"message": text}))
    engine.one("select tasker.reset_breaker(%s, %s, %s)", text, text, text)
    (claimed,) = engine.claim(worker)
    engine.complete(claimed, {text: text})
    engine.orchestrate()
    (claimed,) = engine.claim(worker)
    assert claimed["inputs"] == {text: {text: text}}
    engine.one("select tasker.cancel_task(%s, %s, %s)", task, text, text)
    engine.tick()

    assert tables(engine) == before
    assert engine.one("select name from tasker.task_overview where task_uuid = %s", task) == text
    assert engine.one("select name from tasker.processors where processor_uuid = %s", processor) == text
    engine.assert_consistent()
    # what is made of it for machines can be read by machines
    for (line,) in engine.conn.execute("select e::text from tasker.export_transitions() e").fetchall():
        json.loads(line)
    samples = engine.one("select tasker.prometheus_metrics()").splitlines()
    assert [line for line in samples if line.startswith("pgtasker_info")] == [
        f'pgtasker_info{{version="{engine.one("select tasker.schema_version()")}"}} 1'
    ]
    for call in ("explain_task", "get_task_audit_history"):
        assert engine.rows(f"select tasker.{call}(%s)", task)
    with refused("TK404", "TK400", "TK409") as refusal:
        engine.one("select tasker.transition_task(%s, %s)", task, text)
    assert refusal.detail


@pytest.mark.parametrize("text", [*HOSTILE, "", " ", "ä", "-x", ".x", "a b", "x" * 64, "UPPER;lower"])
def test_namespaces_are_plain_words(engine: Engine, text: str) -> None:
    if text in ("tasker.tasks", "NULL"):
        assert engine.one("select tasker.ensure_namespace(%s)", text) == text
        return
    before = engine.values("select queue_name from pgmq.meta order by 1")
    for call in (
        "select tasker.ensure_namespace(%(text)s)",
        'select tasker.create_task_from_graph(\'{"name": "x", "steps": []}\', p_namespace => %(text)s)',
        "select tasker.register_template(jsonb_build_object('name', 'x', 'namespace', %(text)s::text, 'steps', jsonb_build_array()))",
        "select tasker.bind_login('public', array[%(text)s], 'test', 'ada')",
    ):
        with refused("TK400"):
            engine.conn.execute(call.encode(), {"text": text})
    assert engine.values("select queue_name from pgmq.meta order by 1") == before


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ('{"a": "b\\u0000c"}', "22P05"),
        ('{"a\\u0000": 1}', "22P05"),
        ('{"a": "\\ud800"}', "22P02"),
        ('{"a": 1', "22P02"),
        ("[" * 50_000 + "]" * 50_000, "54001"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "54001"),
        ('{"a": 1e999999}', "22003"),
        ('{"a": NaN}', "22P02"),
    ],
)  # fmt: skip
def test_documents_that_can_not_be_are_refused_whole(engine: Engine, document: str, code: str) -> None:
    task = engine.task(chain("a"))
    (held,) = engine.claim(engine.worker())
    count = "select count(*) from tasker.tasks"
    before = engine.one(count), engine.states(task)
    key = held["workflow_step_uuid"], held["claim_uuid"]
    for statement, values in (
        ('select tasker.create_task_from_graph(\'{"name": "x", "steps": []}\', %s)', (document,)),
        ("select tasker.register_template(%s)", (document,)),
        ("select tasker.create_tasks(%s)", (document,)),
        ("select tasker.complete_step(%s, %s, %s)", (*key, document)),
        ("select tasker.fail_step(%s, %s, %s)", (*key, document)),
        ("select tasker.save_checkpoint(%s, %s, %s)", (*key, document)),
        ("select * from tasker.complete_steps(%s)", (document,)),
        ("select tasker.transition_step(%s, 'fail', %s)", (key[0], document)),
        ("select tasker.define_vocabulary(%s)", (document,)),
    ):
        with pytest.raises(psycopg.Error) as caught:
            engine.conn.execute(statement.encode(), values)
        assert caught.value.sqlstate == code, statement
    assert (engine.one(count), engine.states(task)) == before
    assert engine.complete(held) == "enqueued_for_orchestration"  # the session and the claim live on


def test_a_nul_does_not_get_in_as_text_either(engine: Engine) -> None:
    with pytest.raises((psycopg.DataError, psycopg.errors.CharacterNotInRepertoire)):
        engine.one("select tasker.register_worker(%s)", "a\x00b")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        engine.one("select tasker.register_worker(chr(0))")
    assert engine.one("select count(*) from tasker.workers") == 0


def test_deep_and_large_documents_that_can_be_are_kept(engine: Engine) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": [deep]}
    large = {"text": "x" * 5_000_000, "list": list(range(50_000))}
    task = engine.one(
        "select tasker.create_task_from_graph(%s, %s)",
        json.dumps({"name": "x", "sensitive": ["text", "/deep/a/0"], "steps": chain("a", "b")}),
        json.dumps({"deep": deep, **large}),
    )
    worker = engine.worker()
    (held,) = engine.claim(worker)
    assert held["context"] == {"deep": deep, **large}
    engine.complete(held, {"deep": deep, **large})
    engine.orchestrate()
    (held,) = engine.claim(worker)
    assert engine.one("select tasker.load_result(%s)", held["inputs"]["a"]["payload_uuid"]) == {"deep": deep, **large}
    engine.command("cancel_task", task)
    assert len(engine.rows("select * from tasker.changes_after()")) > 5
    engine.assert_consistent()


def test_requests_that_are_too_many_or_too_large_are_refused_whole(engine: Engine) -> None:
    with refused("TK429"):
        engine.report(*({"step_uuid": uuid4(), "claim_uuid": uuid4()} for _ in range(10_001)))
    for call in (
        "select tasker.claim_steps(gen_random_uuid(), p_limit => 10001)",
        "select tasker.claim_steps(gen_random_uuid(), p_limit => 0)",
        "select tasker.orchestrate(p_limit => 2147483647)",
        "select tasker.tick(0)",
        "select * from tasker.changes_after(p_limit => -1)",
        "select tasker.register_worker('w', p_max_concurrent => 2147483647)",
        "select tasker.register_worker('w', p_heartbeat_interval => '-1 s')",
        'select tasker.create_task_from_graph(\'{"name": "x", "steps": []}\', p_idempotency_key => repeat(\'x\', 256))',
        "select tasker.register_worker('w', p_request_id => repeat('x', 256))",
        "select tasker.register_worker('w', p_request_id => '')",
        "select tasker.register_template(jsonb_build_object('name', repeat('x', 256), 'steps', jsonb_build_array()))",
        "select * from tasker.changes_after('1:2:3; drop table tasker.tasks')",
        "select * from tasker.changes_after('99999999999999999999:0:0')",
    ):
        with refused("TK400"):
            engine.one(call)


@pytest.mark.parametrize(
    "call",
    [
        # moments and durations at the edges of what the server knows
        "select tasker.claim_steps(%(worker)s, p_lease => 'infinity'::interval)",
        "select tasker.claim_steps(%(worker)s, p_lease => '290000 years'::interval)",
        "select tasker.extend_leases(%(worker)s, '290000 years'::interval)",
        "select tasker.register_processor('p', '290000 years'::interval)",
        "select tasker.configure_breaker('t', p_cooldown => '290000 years'::interval)",
        "select tasker.find_stuck('290000 years'::interval)",
        "select count(*) from tasker.export_transitions('-infinity', 'infinity')",
        "select * from tasker.metrics_states('infinity')",
        "select tasker.record_breaker_result('nothing', true)",
    ],
)
def test_moments_at_the_edge_do_no_harm(engine: Engine, call: str) -> None:
    """Taken or refused, but nothing is stuck afterwards: others work on."""
    task = engine.task(chain("a"))
    worker = engine.worker()
    try:
        engine.conn.execute(call.encode(), {"worker": worker})
    except psycopg.Error as error:
        assert (error.sqlstate or "").startswith(("TK", "22")), error
    engine.command("cancel_task", task)
    other = engine.task(chain("a"), namespace="other")
    (held,) = engine.claim(engine.worker(), namespace="other")
    engine.complete(held)
    engine.orchestrate()
    engine.tick()
    assert engine.state(other) == "complete"
    engine.assert_consistent()


@pytest.mark.parametrize(
    "call",
    [
        "select tasker.register_worker('w', p_heartbeat_interval => '290000 years')",
        "select tasker.register_worker('w', p_heartbeat_interval => '366 days', p_max_missed_heartbeats => 1000)",
        "select tasker.register_worker('w', p_heartbeat_interval => '1 day', p_max_missed_heartbeats => 2147483647)",
        "select tasker.register_worker('w', p_heartbeat_interval => '1 microsecond', p_max_missed_heartbeats => 1)",
        "select tasker.register_worker('w', p_vocabulary => 'supervision', p_heartbeat_interval => '290000 years')",
        "select tasker.claim_steps(%(worker)s, p_lease => '290000 years')",
        "select tasker.claim_steps(%(worker)s, p_lease => '366 days')",
        "select tasker.extend_leases(%(worker)s, '290000 years')",
        "select tasker.configure_breaker('a', 1, '290000 years')",
        "select tasker.configure_breaker('a', 1, '366 days')",
        "select tasker.configure_tool('a', '290000 years')",
        "select tasker.set_limit('tool', 'a', p_rate => 1, p_per => '290000 years')",
        "select tasker.configure_tool('a', '1 microsecond')",
        "select tasker.register_processor('p', '250000 years')",
        "select tasker.register_processor('p', '-1 s')",
        """select tasker.create_task_from_graph('{"name": "x", "timeout_seconds": 31536000, "steps": [{"name": "a", "max_attempts": 1000000,
           "retry": {"base_delay": 31536000, "max_delay": 31536000, "jitter": 1}, "timeout_seconds": 31536000}]}', p_priority => 2147483647)""",
    ],
)  # fmt: skip
def test_no_duration_stops_time_for_others(engine: Engine, call: str) -> None:
    """What is refused is refused at once. What is taken must never be an error in what everybody calls: tick, orchestrate."""
    worker = engine.worker()
    try:
        with engine.conn.cursor() as cursor:
            cursor.execute(call.encode(), {"worker": worker})
    except psycopg.Error as error:
        assert error.sqlstate == "TK400"
    for _ in range(3):
        engine.task(chain("a", max_attempts=3))
        for held in engine.claim(worker):
            engine.fail(held, "transient")
        engine.orchestrate()
        engine.tick()
        engine.shift_clock("3 minutes")
        engine.tick()
    engine.shift_clock("500 days")
    engine.tick()
    engine.orchestrate()
    engine.assert_consistent()


def lengthened(name: str) -> str:
    """The name with 63 bytes, of characters that JSON does not write in fewer."""
    return name + "é" * ((63 - len(name)) // 2) + "_" * ((63 - len(name)) % 2)


def test_no_name_makes_a_notification_too_large(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """8,000 bytes are the limit, and one more fails the transaction. The longest names there may be, many at once."""
    vocabulary = engine.one("select definition from tasker.vocabularies where vocabulary = 'tasker'")
    vocabulary["vocabulary"] = "v" * 63
    for lifecycle in vocabulary["lifecycles"]:
        lifecycle["lifecycle"] = lifecycle["lifecycle"].replace("tasker.", f"{'v' * 63}.")
        lifecycle["initial_state"] = lengthened(lifecycle["initial_state"])
        for state in lifecycle["states"]:
            state["state"] = lengthened(state["state"])
        for event in lifecycle["events"]:
            event["event"] = lengthened(event["event"])
        for rule in lifecycle["transitions"]:
            rule.update({key: lengthened(rule[key]) for key in ("from", "to", "event")})
    engine.one("select tasker.define_vocabulary(%s)", json.dumps(vocabulary))
    namespace = "n" * 63
    engine.one("select tasker.ensure_namespace(%s)", namespace)
    engine.one("select tasker.set_namespace_notifications(%s, 'all')", namespace)
    ear = connect()
    for channel in ("tasker_work", "tasker_step_state", "tasker_task_state", "tasker_worker_state"):
        ear.execute(f"listen {channel}".encode())
    task = engine.task([{"name": f"s{place}"} for place in range(100)], namespace=namespace, vocabulary="v" * 63)
    held = engine.claim(engine.worker(), namespace=namespace)
    assert len(held) == 100
    engine.report(*({"step_uuid": step["workflow_step_uuid"], "claim_uuid": step["claim_uuid"]} for step in held[:50]))
    engine.orchestrate()
    engine.command("cancel_task", task)
    payloads = [notice.payload for notice in ear.notifies(timeout=0.5)]
    assert sum(len(json.loads(payload)) for payload in payloads if payload.startswith("[")) > 300
    assert max(len(payload.encode()) for payload in payloads) > 3000
    engine.assert_consistent()


class OneOf:
    """Equal to each of these."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    def __hash__(self) -> int:
        return hash(self.values)


@on_one_server
def test_what_the_command_line_is_given_is_no_sql(engine: Engine, cli: Cli) -> None:
    """It may refuse in its own way, but it does not break."""
    before = tables(engine)
    for text in HOSTILE[:3]:
        for words in (
            ("task", "show", text), ("task", "create", text), ("namespace", "add", text), ("lifecycle", "show", text),
            ("breaker", "show", text), ("grants", "--print", "--role", text), ("audit", "correlation", text),
        ):  # fmt: skip
            ran = cli(*words, expect=OneOf(0, 1, 2))
            assert ran.stdout or ran.stderr
    assert tables(engine) == before
