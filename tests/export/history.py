"""A little of everything: workflows under all five vocabularies, workers of both kinds, a breaker, a table of one's own."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg

from tests.vocabularies.lab import VOCABULARIES, Lab
from tests.workflow.engine import BY, Row, step

BROKEN: Row = {"success": False, "error": {"message": 'it "broke"\n'}, "category": "transient"}
WRONG: Row = {"success": False, "error": {"message": "it is wrong"}, "category": "permanent"}

ORDER: Row = {
    "vocabulary": "order",
    "description": "Orders of a shop.",
    "lifecycles": [
        {
            "lifecycle": "order.order",
            "kind": "custom",
            "initial_state": "placed",
            "states": [
                {"state": "placed", "phase": "pending"},
                {"state": "paid", "phase": "running"},
                {"state": "shipped", "phase": "succeeded", "flags": ["is_terminal"]},
                {"state": "called off", "phase": "cancelled", "flags": ["is_terminal"]},
            ],
            "events": [{"event": "pay"}, {"event": "ship"}, {"event": "call_off"}],
            "transitions": [
                {"from": "placed", "event": "pay", "to": "paid", "fired_by": "command"},
                {
                    "from": "placed",
                    "event": "call_off",
                    "to": "called off",
                    "fired_by": "command",
                    "severity": "warning",
                },
                {"from": "paid", "event": "ship", "to": "shipped", "fired_by": "command"},
                {"from": "paid", "event": "call_off", "to": "called off", "fired_by": "command", "severity": "warning"},
            ],
        }
    ],
}


def shop(conn: psycopg.Connection[Any], **changes: Any) -> None:
    """A table shop.orders with two orders, and the lifecycle order.order attached to it."""
    conn.execute("select tasker.define_vocabulary(%s)", [json.dumps({**ORDER, **changes})])
    conn.execute(
        """
        create schema shop;
        create table shop.orders (order_id int primary key, amount numeric not null default 1);
        insert into shop.orders (order_id) values (1), (2);
        select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order');
        """
    )


def flow(vocabulary: str, **more: Any) -> Row:
    steps = [step("top"), step("left", "top"), step("right", "top"), step("bottom", "left", "right")]
    return {"name": "flow", "vocabulary": vocabulary, "steps": steps, **more}


def live(conn: psycopg.Connection[Any]) -> dict[str, UUID]:
    """Live through it; a key of a workflow for each vocabulary comes back, each with a step that failed once."""
    lab = Lab(conn)
    tasks: dict[str, UUID] = {}
    for vocabulary in VOCABULARIES:
        worker: UUID | str = "w"
        more: Row = {}
        if vocabulary == "supervision":
            more = {"worker_count": 1}
            (worker,) = lab.supervised(1)
        tasks[vocabulary] = lab.create(flow(vocabulary, **more))
        outcomes = {"left": [BROKEN]}

        def once(claimed: Row, outcomes: dict[str, list[Row]] = outcomes) -> Row | None:
            left = outcomes.get(claimed["name"])
            return left.pop() if left else None

        lab.work(once, worker=worker)
        if vocabulary == "supervision":
            lab.supervised(1)
        # one that fails for good, and one that is called off
        lab.create(flow(vocabulary, **more))
        lab.work(lambda claimed: WRONG if claimed["name"] == "left" else None, worker=worker)
        cancelled = lab.create({**flow(vocabulary), "steps": [step("only")]})
        lab.call("cancel_task", p_task_uuid=cancelled, **BY)
        # an optional step that fails
        lab.create(
            {"name": "optional", "vocabulary": vocabulary, "steps": [step("may fail", on_failure="continue"), step("goes on", "may fail")]}
        )  # fmt: skip
        lab.work(lambda claimed: WRONG if claimed["name"] == "may fail" else None, worker=worker)
        # one that its condition leaves out
        if vocabulary != "pipeline":
            lab.create(
                {"name": "conditional", "vocabulary": vocabulary, "steps": [step("unless", condition="$.context.x"), step("then", "unless")]}
            )  # fmt: skip
            lab.work(worker=worker)
    lab.call("configure_breaker", p_tool="press", p_failure_threshold=1, p_cooldown="0 s")
    lab.call("record_breaker_result", p_tool="press", p_success=False)
    lab.tick()
    lab.call("reset_breaker", p_tool="press", **BY)
    shop(conn)
    conn.execute("select tasker.fire('shop.orders', '1', 'pay', p_requested_by => 'ada')")
    conn.execute("select tasker.fire('shop.orders', '1', 'ship')")
    conn.execute("select tasker.fire('shop.orders', '2', 'call_off', %s)", ['{"reason": "changed her mind"}'])
    return tasks
