"""Rules are data: a sixth vocabulary runs on the same engine, and a definition that could not is refused whole."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, Engine, Row, chain, refused


def _state(state: str, phase: str, *flags: str) -> Row:
    return {"state": state, "phase": phase, "flags": list(flags)}


def _rule(from_state: str, event: str, to_state: str, fired_by: str, operation: str, **more: Any) -> Row:
    return {"from": from_state, "event": event, "to": to_state, "fired_by": fired_by, "operation": operation, **more}


def _advance(from_state: str, event: str, to_state: str, guard: str) -> Row:
    return _rule(from_state, event, to_state, "automatic", "advance", guard=guard)


def _lifecycle(name: str, kind: str, initial: str, states: list[Row], rules: list[Row]) -> Row:
    events = sorted({rule["event"] for rule in rules})
    return {
        "lifecycle": name,
        "kind": kind,
        "initial_state": initial,
        "states": states,
        "events": [{"event": event} for event in events],
        "transitions": rules,
    }


KITCHEN: Row = {
    "vocabulary": "kitchen",
    "task_lifecycle": "kitchen.order",
    "step_lifecycle": "kitchen.dish",
    "lifecycles": [
        _lifecycle(
            "kitchen.order", "task", "ordered",
            [
                _state("ordered", "pending"),
                _state("calling", "enqueuing"),
                _state("cooking", "running"),
                _state("stuck", "blocked"),
                _state("served", "succeeded", "is_terminal", "satisfies_dependencies"),
                _state("sent_back", "failed", "is_terminal", "is_error"),
                _state("called_off", "cancelled", "is_terminal"),
            ],
            [
                _advance("ordered", "nothing_to_do", "served", "no_steps"),
                _advance("ordered", "begin", "calling", "has_ready_steps"),
                _advance("calling", "called", "cooking", "steps_enqueued"),
                _advance("cooking", "all_done", "served", "all_steps_satisfied"),
                _advance("cooking", "next_course", "calling", "has_ready_steps"),
                _advance("cooking", "broken", "stuck", "blocked_by_failures"),
                _advance("stuck", "mended", "cooking", "not_blocked"),
                _rule("stuck", "apologise", "sent_back", "command", "give_up_task"),
                *(
                    _rule(state, "call_off", "called_off", "command", "cancel_task")
                    for state in ("ordered", "calling", "cooking", "stuck")
                ),
            ],
        ),
        _lifecycle(
            "kitchen.dish", "step", "raw",
            [
                _state("raw", "pending"),
                _state("called", "queued", "is_ready_for_claiming"),
                _state("on_fire", "running", "is_active"),
                _state("plated", "reported_success"),
                _state("burnt", "reported_failure", "is_error"),
                _state("once_more", "waiting_retry"),
                _state("eaten", "succeeded", "is_terminal", "satisfies_dependencies"),
                _state("binned", "failed", "is_terminal", "is_error"),
                _state("dropped", "cancelled", "is_terminal"),
            ],
            [
                _rule("raw", "call", "called", "operation", "enqueue", guard="dependencies_satisfied"),
                _rule("called", "light", "on_fire", "operation", "claim", guard="not_in_progress"),
                _rule("on_fire", "plate", "plated", "operation", "report_success", guard="work_succeeded"),
                _rule("on_fire", "burn", "burnt", "operation", "report_failure", guard="work_failed"),
                _rule("plated", "eat", "eaten", "operation", "settle_success"),
                _rule("burnt", "again", "once_more", "operation", "settle_failure", guard="retries_left"),
                _rule("burnt", "bin", "binned", "operation", "settle_failure"),
                _rule("once_more", "start_over", "raw", "timer", "retry_due"),
                _rule("binned", "start_over", "raw", "command", "retry_step"),
                *(
                    _rule(state, "drop", "dropped", "command", "cancel_step")
                    for state in ("raw", "called", "on_fire", "plated", "burnt", "once_more")
                ),
            ],
        ),
    ],
}  # fmt: skip

ORDER, DISH = (f"lifecycles.{place}" for place in (0, 1))


def define(engine: Engine, definition: Any) -> str:
    return engine.one("select tasker.define_vocabulary(%s)", json.dumps(definition))  # type: ignore[no-any-return]


def problems(engine: Engine, definition: Any) -> dict[str, set[str]]:
    """Path -> messages of every problem; the definition must be refused."""
    with refused("TK400") as refusal:
        define(engine, definition)
    found: dict[str, set[str]] = {}
    for problem in refusal.detail["problems"]:
        assert problem["path"] is not None and problem["message"], problem
        found.setdefault(problem["path"], set()).add(problem["message"])
    return found


def changed(**changes: Any) -> Row:
    """The kitchen with some of its parts replaced: `lifecycles.0.states` and so on, `__` for a dot."""
    definition = copy.deepcopy(KITCHEN)
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = definition
        for key in way:
            place = place[int(key)] if key.isdigit() else place[key]
        place[int(last) if last.isdigit() else last] = value
    return definition


@pytest.fixture
def kitchen(engine: Engine) -> Engine:
    assert define(engine, KITCHEN) == "kitchen"
    return engine


# -- a sixth vocabulary at work


def test_a_vocabulary_of_ones_own_runs_a_diamond_to_the_end(kitchen: Engine) -> None:
    task = kitchen.task(DIAMOND, vocabulary="kitchen")
    assert kitchen.states(task) == {"top": "called", "left": "raw", "right": "raw", "bottom": "raw"}
    kitchen.finish(kitchen.worker())
    assert kitchen.state(task) == "served"
    assert kitchen.task_log(task) == [
        (None, "create", "ordered"),
        ("ordered", "begin", "calling"),
        ("calling", "called", "cooking"),
        *[("cooking", "next_course", "calling"), ("calling", "called", "cooking")] * 2,
        ("cooking", "all_done", "served"),
    ]
    for step in kitchen.steps(task).values():
        assert kitchen.step_log(step) == [
            (None, "create", "raw"),
            ("raw", "call", "called"),
            ("called", "light", "on_fire"),
            ("on_fire", "plate", "plated"),
            ("plated", "eat", "eaten"),
        ]
    audit = kitchen.rows("select * from tasker.get_task_audit_history(%s)", task)
    assert [(row["to_state"], row["success"], row["execution_time_ms"]) for row in audit] == [
        ("plated", True, None)
    ] * 4
    kitchen.assert_consistent()


def test_failures_retries_and_commands_of_it_work_too(kitchen: Engine) -> None:
    task = kitchen.task(chain("soup", "fish", max_attempts=2), vocabulary="kitchen")
    worker = kitchen.worker()
    (claimed,) = kitchen.claim(worker)
    kitchen.fail(claimed, "transient")
    kitchen.orchestrate()
    assert kitchen.states(task)["soup"] == "once_more"
    kitchen.shift_clock("5 minutes")
    kitchen.tick()
    (claimed,) = kitchen.claim(worker)
    assert claimed["attempt"] == 2
    kitchen.fail(claimed, "transient")
    kitchen.orchestrate()
    assert (kitchen.state(task), kitchen.states(task)) == ("stuck", {"soup": "binned", "fish": "raw"})
    assert kitchen.command("retry_step", claimed["workflow_step_uuid"]) == "called"
    (claimed,) = kitchen.claim(worker)
    kitchen.shift_clock("1 hour")
    assert kitchen.tick()["leases_expired"] == 1
    kitchen.orchestrate()
    assert kitchen.state(task) == "stuck"
    assert kitchen.command("give_up_task", task) == "sent_back"
    assert [
        (row["to_state"], row["success"])
        for row in kitchen.rows("select * from tasker.get_task_audit_history(%s)", task)
    ] == [("burnt", False)] * 3
    other = kitchen.task(DIAMOND, vocabulary="kitchen")
    assert kitchen.command("cancel_task", other) == "called_off"
    assert set(kitchen.states(other).values()) == {"dropped"}
    with refused("TK409") as refusal:
        kitchen.move_step(kitchen.steps(other)["top"], "light")
    assert "dropped" in refusal.message
    kitchen.assert_consistent()


def test_both_vocabularies_run_side_by_side(kitchen: Engine) -> None:
    tasks = [kitchen.task(DIAMOND, vocabulary=name) for name in ("tasker", "kitchen") * 3]
    kitchen.finish(kitchen.worker())
    assert [kitchen.state(task) for task in tasks] == ["complete", "served"] * 3
    kitchen.assert_consistent()


def test_its_diagram_is_drawn_from_its_rows(kitchen: Engine) -> None:
    drawn = kitchen.one("select tasker.lifecycle_diagram('kitchen.dish')")
    assert "[*] --> raw" in drawn
    assert "on_fire --> plated : plate [work_succeeded]" in drawn
    assert "eaten --> [*]" in drawn
    assert drawn.count(" --> ") == 1 + len(KITCHEN["lifecycles"][1]["transitions"]) + 3


# -- refusals


def test_all_mistakes_are_told_at_once(engine: Engine) -> None:
    definition = copy.deepcopy(KITCHEN)
    order, dish = definition["lifecycles"]
    definition["vocabulary"] = "Küche"
    order["kind"] = "order"
    order["states"].append(_state("island", "running"))
    order["states"][2]["phase"] = "simmering"
    dish["initial_state"] = "frozen"
    dish["states"][6]["flags"].append("is_tasty")
    dish["events"].append({"event": "call"})
    dish["transitions"][0]["guard"] = "hungry"
    dish["transitions"][1]["operation"] = "grab"
    dish["transitions"][2]["fired_by"] = "chef"
    dish["transitions"][3]["to"] = "charcoal"
    dish["transitions"][4]["event"] = "devour"
    dish["transitions"][5]["severity"] = "hot"
    dish["transitions"][6]["is_legacy"] = "perhaps"
    dish["transitions"][7]["gaurd"] = "always"
    dish["transitions"].append(_rule("eaten", "regret", "raw", "automatic", "retry_due"))
    found = problems(engine, definition)
    messages = " | ".join(sorted(message for messages in found.values() for message in messages))
    for part in (
        "a vocabulary needs a name", "must be called Küche.something", "unknown kind 'order'", "unknown phase 'simmering'",
        "initial state 'frozen'", "unknown flag \"is_tasty\"", "the event is defined twice", "unknown guard 'hungry'",
        "unknown operation 'grab'", "unknown fired_by 'chef'", "unknown state 'charcoal'", "unknown event 'devour'",
        "unknown event 'regret'", "unknown severity 'hot'", "is_legacy must be true or false", "unknown field; known are from",
        "no transition leads to it", "nothing leads out of it", "it is terminal, but regret leads out of it by itself",
    ):  # fmt: skip
        assert part in messages, part
    assert engine.one("select count(*) from tasker.vocabularies where vocabulary = 'Küche'") == 0


# One mistake -> (path of the problem, part of its message)
MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "nothing": (lambda: None, "", "must be a JSON object"),
    "a list": (lambda: [KITCHEN], "", "must be a JSON object"),
    "a text": (lambda: "kitchen", "", "must be a JSON object"),
    "no name": (lambda: changed(vocabulary=None), "vocabulary", "needs a name"),
    "no lifecycles": (lambda: {"vocabulary": "kitchen"}, "lifecycles", "at least one"),
    "lifecycles as object": (lambda: changed(lifecycles={}), "lifecycles", "must be an array"),
    "a lifecycle as text": (lambda: changed(lifecycles__0="x"), "lifecycles[0]", "must be a JSON object"),
    "states as object": (lambda: changed(lifecycles__0__states={}), "kitchen.order.states", "must be an array"),
    "a state as text": (lambda: changed(lifecycles__0__states__6="x"), "kitchen.order.states[6]", "must be a JSON object"),
    "events missing": (lambda: changed(lifecycles__0__events=None), "kitchen.order.events", "must be an array"),
    "transitions as text": (lambda: changed(lifecycles__1__transitions="x"), "kitchen.dish.transitions", "must be an array"),
    "a transition as list": (
        lambda: changed(lifecycles__1__transitions__3=[]), "kitchen.dish.transitions[3]", "must be a JSON object",
    ),
    "a state without name": (lambda: changed(lifecycles__0__states__6__state=None), "kitchen.order.states[6]", "not a name"),
    "a long name": (lambda: changed(lifecycles__0__states__6__state="é" * 32), "kitchen.order.states[6]", "1 to 63 bytes"),
    "a quote in a name": (lambda: changed(lifecycles__1__events__0__event='a"b'), "kitchen.dish.events[0]", "not a name"),
    "a line break in a name": (lambda: changed(lifecycles__1__events__0__event="a\nb"), "kitchen.dish.events[0]", "not a name"),
    "a backslash in a name": (lambda: changed(lifecycles__1__events__0__event="a\\b"), "kitchen.dish.events[0]", "not a name"),
    "flags as text": (lambda: changed(lifecycles__0__states__6__flags="is_terminal"), "kitchen.order.called_off", "array"),
    "lifecycle of another vocabulary": (
        lambda: changed(lifecycles__0__lifecycle="tasker.task", task_lifecycle=None), "tasker.task", "kitchen.something",
    ),
    "underscore is no wildcard": (
        lambda: changed(vocabulary="tas_er", lifecycles__0__lifecycle="tasker.task", task_lifecycle=None),
        "tasker.task", "tas_er.something",
    ),
    "a lifecycle twice": (
        lambda: changed(lifecycles__1=KITCHEN["lifecycles"][0], step_lifecycle=None), "kitchen.order", "defined twice",
    ),
    "a state twice": (
        lambda: changed(lifecycles__1__states__8=_state("raw", "pending")), "kitchen.dish.raw", "defined twice",
    ),
    "unreachable": (
        lambda: changed(lifecycles__0__states__6=_state("island", "cancelled", "is_terminal")),
        "kitchen.order.island", "no transition leads to it",
    ),
    "a terminal state with a way out": (
        lambda: changed(lifecycles__1__transitions__8__fired_by="timer"), "kitchen.dish.binned", "leads out of it by itself",
    ),
    "a dead end": (
        lambda: changed(lifecycles__0__states__5__flags=[]), "kitchen.order.sent_back", "nothing leads out of it",
    ),
    "a guard of tasks for a step": (
        lambda: changed(lifecycles__1__transitions__0__guard="no_steps"),
        "kitchen.dish: raw -call-> called", "unknown guard 'no_steps' for a step",
    ),
    "an operation of steps for a task": (
        lambda: changed(lifecycles__0__transitions__0__operation="claim"),
        "kitchen.order: ordered -nothing_to_do-> served", "unknown operation 'claim' for a task",
    ),
    "a phase of tasks for a step": (
        lambda: changed(lifecycles__1__states__0__phase="evaluating"), "kitchen.dish.raw", "unknown phase 'evaluating' for a step",
    ),
    "the same edge twice": (
        lambda: changed(lifecycles__1__transitions__6=_rule("burnt", "again", "once_more", "operation", "settle_failure")),
        "kitchen.dish: burnt -again-> once_more", "defined twice",
    ),
    "indistinguishable rows": (
        lambda: changed(
            lifecycles__1__transitions__6=_rule("burnt", "again", "binned", "operation", "settle_failure", guard="retries_left")
        ),
        "kitchen.dish: burnt -again-> binned", "can never be taken",
    ),
    "a row behind one that always holds": (
        lambda: changed(lifecycles__1__transitions__5__guard="always", lifecycles__1__transitions__6__event="again"),
        "kitchen.dish: burnt -again-> binned", "can never be taken",
    ),
    "a report that ends the step": (
        lambda: changed(lifecycles__1__transitions__2__to="called"),
        "kitchen.dish: on_fire -plate-> called", "must lead to a state of phase reported_success",
    ),
    "a wait without an end": (
        lambda: changed(lifecycles__1__transitions__7__operation=None), "kitchen.dish.once_more", "retry_due",
    ),
    "no way to claim": (
        lambda: changed(lifecycles__1__transitions__1__operation=None), "step_lifecycle", "operation claim",
    ),
    "no way to move a task": (
        lambda: changed(
            lifecycles__0__transitions=[
                {**rule, "operation": None} if rule["operation"] == "advance" else rule
                for rule in KITCHEN["lifecycles"][0]["transitions"]
            ]
        ),
        "task_lifecycle", "operation advance",
    ),
    "nowhere to hand out steps": (
        lambda: changed(lifecycles__0__states__1__phase="evaluating", lifecycles__0__states__2__phase="waiting"),
        "task_lifecycle", "phase enqueuing",
    ),
    "roles exchanged": (
        lambda: changed(task_lifecycle="kitchen.dish", step_lifecycle="kitchen.order"), "task_lifecycle", "of kind task",
    ),
    "a role of somebody else": (lambda: changed(task_lifecycle="tasker.workflow_step"), "task_lifecycle", "of kind task"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_where_it_is(rules: Engine, mistake: str) -> None:
    definition, path, message = MISTAKES[mistake]
    found = problems(rules, definition())
    assert path in found, found
    assert any(message in told for told in found[path]), found[path]
    assert rules.one("select count(*) from tasker.vocabularies where vocabulary = 'kitchen'") == 0


def test_sql_null_is_no_vocabulary_either(rules: Engine) -> None:
    with refused("TK400"):
        rules.one("select tasker.define_vocabulary(null)")


# -- defining again


def rows_of(engine: Engine, vocabulary: str) -> list[list[Row]]:
    return [
        engine.rows(f"select * from tasker.vocabularies where vocabulary = '{vocabulary}'"),
        engine.rows(f"select * from tasker.lifecycles where vocabulary = '{vocabulary}' order by 1"),
        *(
            engine.rows(
                f"select m.* from tasker.{table} m join tasker.lifecycles l using (lifecycle)"
                f" where l.vocabulary = '{vocabulary}' order by 1, 2, 3, 4"
            )
            for table in ("lifecycle_states", "lifecycle_events", "lifecycle_transitions")
        ),
    ]


def test_the_same_content_again_changes_nothing(kitchen: Engine) -> None:
    kitchen.task(DIAMOND, vocabulary="kitchen")
    before = rows_of(kitchen, "kitchen")
    row_versions = kitchen.values("select xmin::text from tasker.lifecycle_transitions")
    assert define(kitchen, json.loads(json.dumps(KITCHEN, sort_keys=True))) == "kitchen"
    assert rows_of(kitchen, "kitchen") == before
    assert kitchen.values("select xmin::text from tasker.lifecycle_transitions") == row_versions


def test_a_vocabulary_nobody_uses_may_be_changed_at_will(kitchen: Engine) -> None:
    """The rows are then those of the new definition and of nothing before it."""
    smaller = copy.deepcopy(KITCHEN)
    smaller["vocabulary"] = "kitchen"
    smaller["step_lifecycle"] = None
    smaller["lifecycles"] = [smaller["lifecycles"][0]]
    order = smaller["lifecycles"][0]
    order["states"] = [state for state in order["states"] if state["state"] not in ("stuck", "sent_back")]
    order["transitions"] = [
        rule for rule in order["transitions"] if not {"stuck", "sent_back"} & {rule["from"], rule["to"]}
    ]
    order["events"] = [{"event": event} for event in sorted({rule["event"] for rule in order["transitions"]})]
    define(kitchen, smaller)
    _, lifecycles, states, events, transitions = rows_of(kitchen, "kitchen")
    assert [row["lifecycle"] for row in lifecycles] == ["kitchen.order"]
    assert {row["state"] for row in states} == {state["state"] for state in order["states"]}
    assert {row["event"] for row in events} == {event["event"] for event in order["events"]}
    assert len(transitions) == len(order["transitions"])

    other_name = changed(lifecycles__0__initial_state="calling")
    other_name["lifecycles"][0]["states"] = other_name["lifecycles"][0]["states"][1:]
    other_name["lifecycles"][0]["transitions"] = [
        rule for rule in other_name["lifecycles"][0]["transitions"] if rule["from"] != "ordered"
    ]
    other_name["lifecycles"][0]["events"] = [
        {"event": event} for event in sorted({rule["event"] for rule in other_name["lifecycles"][0]["transitions"]})
    ]
    define(kitchen, other_name)
    assert kitchen.one("select initial_state from tasker.lifecycles where lifecycle = 'kitchen.order'") == "calling"


BREAKING: dict[str, Callable[[], Row]] = {
    "a transition taken away": lambda: changed(
        lifecycles__0__transitions=[
            rule for rule in KITCHEN["lifecycles"][0]["transitions"] if (rule["from"], rule["event"]) != ("ordered", "call_off")
        ]
    ),
    "a state renamed": lambda: json.loads(json.dumps(KITCHEN).replace("on_fire", "in_oven")),
    "an event renamed": lambda: json.loads(json.dumps(KITCHEN).replace("plate\"", "finish\"")),
    "an ending that was none": lambda: changed(
        lifecycles__1__states__6__flags=["is_terminal"], lifecycles__1__states__6__phase="succeeded"
    ),
    "another meaning": lambda: changed(lifecycles__0__states__3__phase="waiting"),
    "a result that is none any more": lambda: changed(lifecycles__1__transitions__2__reports_result=False),
    "another beginning": lambda: changed(
        lifecycles__0__initial_state="cooking",
        lifecycles__0__transitions=[*KITCHEN["lifecycles"][0]["transitions"], _advance("stuck", "begin", "ordered", "always")],
    ),
    "a lifecycle taken away": lambda: {**changed(step_lifecycle=None), "lifecycles": KITCHEN["lifecycles"][:1]},
}  # fmt: skip


@pytest.mark.parametrize("change", BREAKING)
def test_what_a_vocabulary_in_use_has_promised_can_not_be_taken_away(kitchen: Engine, change: str) -> None:
    task = kitchen.task(DIAMOND, vocabulary="kitchen")
    kitchen.finish(kitchen.worker())
    before = rows_of(kitchen, "kitchen")
    definition = BREAKING[change]()
    with refused("TK409") as refusal:
        define(kitchen, definition)
    assert refusal.detail["vocabulary"] == "kitchen"
    assert refusal.detail["needed"]
    assert "another name" in refusal.hint
    assert rows_of(kitchen, "kitchen") == before
    assert kitchen.state(task) == "served"
    kitchen.assert_consistent()


def test_a_vocabulary_in_use_may_grow(kitchen: Engine) -> None:
    task = kitchen.task(chain("soup"), vocabulary="kitchen")
    grown = copy.deepcopy(KITCHEN)
    dish = grown["lifecycles"][1]
    dish["states"].append(_state("taken_away", "resolved", "is_terminal", "satisfies_dependencies"))
    dish["events"].append({"event": "take_away"})
    dish["transitions"].append(_rule("called", "take_away", "taken_away", "command", "resolve_step"))
    define(kitchen, grown)
    assert kitchen.command("resolve_step", kitchen.steps(task)["soup"]) == "taken_away"
    assert kitchen.state(task) == "served"
    kitchen.assert_consistent()


def test_the_shipped_vocabulary_is_protected_in_the_same_way(engine: Engine) -> None:
    engine.task(DIAMOND)
    definition = engine.one("select definition from tasker.vocabularies where vocabulary = 'tasker'")
    assert define(engine, definition) == "tasker"
    definition["lifecycles"][0]["transitions"].pop()
    with refused("TK409"):
        define(engine, definition)


def test_only_operators_define_vocabularies(as_role: Callable[[str], psycopg.Connection[Any]]) -> None:
    for role in ("tasker_client", "tasker_worker", "tasker_auditor", "tasker_monitor"):
        with refused("42501"):
            define(Engine(as_role(role)), KITCHEN)
    assert define(Engine(as_role("tasker_operator")), KITCHEN) == "kitchen"


def test_names_as_long_as_allowed_still_fit_into_a_notification(engine: Engine) -> None:
    """A dozen events travel in one notification of less than 8,000 bytes, whatever their names."""
    long = {
        name: (name + "_").ljust(63, "x")
        for name in ("raw", "called", "on_fire", "plated", "eaten", "dropped", "call", "light", "plate", "eat", "drop")
    }
    text = json.dumps(KITCHEN)
    for short, name in long.items():
        text = text.replace(f'"{short}"', f'"{name}"')
    define(engine, json.loads(text))
    namespace = "n".ljust(63, "n")
    engine.one("select tasker.ensure_namespace(%s)", namespace)
    engine.one("select tasker.set_namespace_notifications(%s, 'all')", namespace)
    task = engine.task([{"name": f"s{number}"} for number in range(40)], vocabulary="kitchen", namespace=namespace)
    engine.finish(engine.worker())
    assert engine.state(task) == "served"
