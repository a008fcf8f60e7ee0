"""Definitions: every problem at once, versions that never change, sizes and names that others get wrong."""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.workflow.engine import Background, Engine, graph, step
from tests.workflow.fixtures import OpenEngine


def refused(engine: Engine, template: Any) -> dict[str, list[str]]:
    """The problems of a refused template: path -> messages."""
    with pytest.raises(psycopg.Error) as caught:
        engine.one("select tasker.register_template(%s)", Jsonb(template))
    assert caught.value.sqlstate == "TK400", caught.value
    problems: dict[str, list[str]] = {}
    for problem in json.loads(caught.value.diag.message_detail or "")["problems"]:
        problems.setdefault(problem["path"], []).append(problem["message"])
    return problems


def test_every_problem_is_told_at_once(engine: Engine) -> None:
    """A person mends a definition once, not once per problem."""
    problems = refused(
        engine,
        {
            "name": "",
            "colour": "red",
            "version": 3,
            "vocabulary": "nonsense",
            "namespace": "not a name!",
            "steps": [
                {"name": "a", "depends_on": ["ghost", "ghost"], "max_attempts": 0},
                {"name": "a", "handler": 5, "retry": {"jitter": 2, "speed": 1}},
                {"name": "b", "depends_on": ["c"], "timeout_seconds": -1, "arguments": []},
                {"name": "c", "depends_on": ["b"], "retryable": "yes", "max_attempts": 2.5},
                {"name": "d", "depends_on": ["d"], "retry": {"base_delay": "soon", "max_delay": 1e12}},
                {"handler": "nameless", "depends_on": "a"},
                {"name": "e", "depends_on": [7, None, {"name": "a"}], "retry": "often"},
                "not a step",
            ],
        },
    )
    assert problems.keys() == {
        "name",
        "colour",
        "version",
        "vocabulary",
        "namespace",
        "steps",
        "steps[0].depends_on",
        "steps[0].max_attempts",
        "steps[0].name",
        "steps[1].handler",
        "steps[1].retry.jitter",
        "steps[1].retry.speed",
        "steps[2].timeout_seconds",
        "steps[2].arguments",
        "steps[3].retryable",
        "steps[3].max_attempts",
        "steps[4].depends_on",
        "steps[4].retry.base_delay",
        "steps[4].retry.max_delay",
        "steps[5].name",
        "steps[5].depends_on",
        "steps[6].depends_on",
        "steps[6].retry",
        "steps[7]",
    }
    assert len(problems["steps[0].depends_on"]) == 2, "an unknown dependency, and it is named twice"
    assert problems["steps"] == ["these steps wait for each other in a circle: b, c"]


def test_what_is_not_a_workflow_is_refused(engine: Engine) -> None:
    templates: list[Any] = [None, [], "text", 5, {}, {"name": "x"}, {"name": "x", "steps": {}}]
    for template in templates:
        assert refused(engine, template), template


def test_a_long_circle_is_named(engine: Engine) -> None:
    """The steps of the circle stand in the message, shortened; steps before it do not."""
    names = [f"s{number}" for number in range(30)]
    steps = [step("root"), *(step(n, "root", names[i - 1]) for i, n in enumerate(names))]
    (message,) = refused(engine, graph(*steps))["steps"]
    assert message.startswith("these steps wait for each other in a circle: s0, s1,")
    assert message.endswith(" and 20 more")
    assert "root" not in message


def test_the_edges_of_the_limits_are_inside(engine: Engine) -> None:
    fields = [
        ("max_attempts", 1),
        ("max_attempts", 1_000_000),
        ("max_attempts", 5.0),
        ("timeout_seconds", 0.001),
        ("timeout_seconds", 31_536_000),
        ("retry", {"base_delay": 0, "max_delay": 0, "jitter": 1}),
        ("retry", {}),
        ("retry", None),
        ("depends_on", None),
        ("arguments", None),
    ]
    tasks = [engine.create({"name": "x", "steps": [{"name": "a", field: value}]}) for field, value in fields]
    engine.drain()
    assert [engine.state(task) for task in tasks] == ["complete"] * len(fields)
    engine.check()


def test_defaults_are_those_of_the_seed(engine: Engine) -> None:
    """Seed 002: 2 s doubling to 60 s, 25 % jitter, 5 attempts; the handler is the name. The timeout is found when a task is created."""
    engine.call("register_template", p_template={"name": "x", "steps": [{"name": "a"}]})
    row = engine.row(
        "select handler, max_attempts, extract(epoch from base_delay)::int as base, extract(epoch from max_delay)::int as cap,"
        " jitter, extract(epoch from timeout)::int as timeout, retryable from tasker.named_steps"
    )
    assert row == {
        "handler": "a",
        "max_attempts": 5,
        "base": 2,
        "cap": 60,
        "jitter": 0.25,
        "timeout": None,
        "retryable": True,
    }


def test_a_version_never_changes(engine: Engine) -> None:
    """The same content again is the same template, other content under the same version is refused."""
    first = engine.call("register_template", p_template=graph(step("a"), version="1"))
    assert engine.call("register_template", p_template=graph(step("a"), version="1")) == first
    assert refused(engine, graph(step("b"), version="1")) == {"version": ["the version exists with other content"]}
    second = engine.call("register_template", p_template=graph(step("b"), version="2"))
    assert second != first


def test_the_newest_version_is_the_default(engine: Engine) -> None:
    for version in ("2", "10", "1"):
        engine.call("register_template", p_template=graph(step(f"step of {version}"), version=version))
    newest = engine.call("create_task", p_name="flow")
    assert engine.task(newest)["version"] == "1", "newest means registered last, not sorted by name"
    assert list(engine.steps(newest)) == ["step of 1"]
    asked = engine.call("create_task", p_name="flow", p_version="10")
    assert list(engine.steps(asked)) == ["step of 10"]
    with pytest.raises(psycopg.Error, match=r"no template default\.flow version 3") as caught:
        engine.call("create_task", p_name="flow", p_version="3")
    assert caught.value.sqlstate == "TK404"


def test_a_huge_graph_takes_seconds(engine: Engine) -> None:
    """5,000 steps in layers of 50, each on three steps of the layer before: validated and created."""
    layers = [[f"s{layer}_{place}" for place in range(50)] for layer in range(100)]
    steps = [
        step(name, *(layers[number - 1][(place + shift) % 50] for shift in (0, 1, 7)) if number else ())
        for number, layer in enumerate(layers)
        for place, name in enumerate(layer)
    ]
    started = time.monotonic()
    assert engine.one("select tasker.template_problems(%s)", Jsonb(graph(*steps))) == []
    validated = time.monotonic()
    task = engine.create(graph(*steps))
    created = time.monotonic()
    assert validated - started < 10, "far more than it takes; a quadratic algorithm takes longer"
    assert created - validated < 20
    assert engine.one("select count(*) from tasker.workflow_step_edges") == 3 * 50 * 99
    assert len(engine.queued()) == 50
    engine.check(task)


def test_a_deep_chain_is_no_recursion(engine: Engine) -> None:
    """2,000 steps in one line, and the last one closing a circle."""
    steps = [step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 2000))]
    assert engine.one("select tasker.template_problems(%s)", Jsonb(graph(*steps))) == []
    steps[0]["depends_on"] = ["s1999"]
    assert "and 1990 more" in refused(engine, graph(*steps))["steps"][0]


def test_hostile_names_are_only_names(engine: Engine) -> None:
    """A name goes through registration, queue, claim, inputs and views as it was given."""
    for name in [
        "o'clock",
        'double " quote',
        "back \\ slash",
        "'; drop table tasker.tasks; --",
        '"}, {"name": "injected',
        "$$ dollar $1 %s %d %",
        "снег ☃ 雪 🙂",
        " leading and trailing ",
        "line\nbreak\ttab",
        "x" * 255,
        "steps[0].name",
        "null",
    ]:
        engine.call("register_template", p_template=graph(step(name, handler=name), step("child", name), name=name))
        task = engine.call("create_task", p_name=name)
        (claimed,) = engine.claim()
        assert (claimed["name"], claimed["handler"], claimed["task_name"]) == (name, name, name)
        engine.complete([claimed], {name: name})
        engine.orchestrate()
        (child,) = engine.claim()
        assert child["inputs"] == {name: {name: name}}
        engine.fail([child], category="permanent")
        engine.orchestrate()
        reasons = engine.call("explain_task", p_task_uuid=task)["reasons"]
        assert [reason["step"] for reason in reasons] == ["child"], name
    engine.check()


def test_a_zero_byte_is_refused_before_it_does_harm(engine: Engine) -> None:
    with pytest.raises(psycopg.Error):
        engine.one("select tasker.register_template(%s::jsonb)", '{"name": "a\\u0000b", "steps": []}')
    assert engine.column("select name from tasker.named_tasks") == []


def test_every_namespace_gets_a_queue_that_works(engine: Engine) -> None:
    """pgmq takes short lower-case names only; a namespace may be called more than that."""
    for namespace in ("default", "Orders-EU", "a.b", "9-to-5", "UPPER", "x" * 63, "a_b", "Orders_EU"):
        task = engine.create(graph(step("a"), step("b", "a")), p_namespace=namespace)
        assert engine.drain() == 2
        row = engine.task(task)
        assert (row["namespace"], row["state"]) == (namespace, "complete")
    engine.check()


def test_namespaces_that_differ_in_case_do_not_share_a_queue(engine: Engine) -> None:
    for namespace in ("orders", "Orders", "ORDERS", "orders.", "orders-"):
        engine.create(graph(step(namespace)), p_namespace=namespace)
    assert [c["name"] for c in engine.claim(namespaces=["Orders"])] == ["Orders"]
    assert sorted(c["name"] for c in engine.claim()) == sorted(["orders", "ORDERS", "orders.", "orders-"])


def test_other_namespaces_are_refused(engine: Engine) -> None:
    for namespace in ("", "a b", "-a", "x" * 64, "o'x", 'o"x', "snö", "a\n", "a/b", None):
        with pytest.raises(psycopg.Error) as caught:
            engine.call("ensure_namespace", p_namespace=namespace)
        assert caught.value.sqlstate == "TK400", namespace


def test_two_sessions_may_register_the_same_template_at_once(engine: Engine, open_engine: OpenEngine) -> None:
    """Both get the same key, whoever was first, in a namespace that did not exist."""
    other = open_engine()
    template = graph(step("a"), namespace="fresh")
    engine.begin()
    first = engine.call("register_template", p_template=template)
    waiting = Background(lambda: other.call("register_template", p_template=template))
    open_engine().wait_until_blocked(other)
    engine.commit()
    assert waiting.result() == first
