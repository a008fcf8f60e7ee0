"""Whatever runs at once, nothing waits in a circle: every function locks in the same order."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.workflow.engine import BY, Background, Engine, Row, graph, in_parallel, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

SECONDS = 20.0
VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]
TOOLS = ["anvil", "bellows", "crucible"]
NAMESPACES = ["default", "north"]


def flow(vocabulary: str, chance: random.Random) -> Row:
    """A small diamond that fails, times out and waits a lot."""

    def some(name: str, *depends_on: str) -> Row:
        conditional = vocabulary != "pipeline" and chance.random() < 0.2
        more: dict[str, Any] = {"acceptance": [{"type": "custom"}]} if chance.random() < 0.2 else {}
        if chance.random() < 0.2:
            more["requires"] = chance.choice([["gpu"], ["lint"], ["gpu", "lint"]])
        if chance.random() < 0.1:
            return step(name, *depends_on, max_attempts=2, workflow={"name": "child"},
                        timeout_seconds=chance.choice([None, 0.2]))  # fmt: skip
        return step(
            name,
            *depends_on,
            tool=chance.choice(TOOLS),
            max_attempts=3,
            timeout_seconds=chance.choice([0.2, 300]),
            delay_seconds=chance.choice([None, None, None, 0.05]),
            on_failure=chance.choice(["block", "stop", "continue"]),
            **(
                {"condition": "$.inputs.a == 1", "when_unmet": chance.choice(["skip", "skip_dependents"])}
                if conditional
                else {}
            ),
            **more,
            undo=chance.choice([None, "back"]),
            **({"wait_for": {"event": "told", "value": chance.randint(1, 9)}} if chance.random() < 0.1 else {}),
        )

    fields: dict[str, Any] = {"vocabulary": vocabulary, "max_retries": 1}
    fields["compensate"] = ["failed", "cancelled"]
    if vocabulary == "orchestration":
        fields["final_validation"] = chance.random() < 0.5
    if vocabulary == "supervision":
        fields["worker_count"] = chance.randint(1, 2)
    if chance.random() < 0.5:
        fields["timeout_seconds"] = chance.choice([0.3, 1, 5])
    return graph(some("a"), some("b"), some("c", "a", "b"), some("d", "b"), some("e", "c", "d"), **fields)


class Player:
    """One session that calls everything at random over what all sessions share."""

    def __init__(self, engine: Engine, seed: int, tasks: list[UUID], workers: list[UUID]) -> None:
        self.engine, self.tasks, self.workers = engine, tasks, workers
        self.chance = random.Random(seed)
        self.claims: list[Row] = []
        self.deadlocks: list[str] = []
        self.refused: dict[str, int] = {}
        self.calls = 0
        self.moves: list[tuple[int, Callable[[], Any]]] = [
            (14, self.claim),
            (14, self.report),
            (8, lambda: engine.orchestrate(self.chance.choice([1, 10, 100]))),
            (8, lambda: engine.tick(self.chance.choice([1, 5, 100]))),
            (3, self.create),
            (2, self.create_many),
            (2, lambda: engine.call("cancel_task", p_task_uuid=self.task(), **BY)),
            (1, lambda: engine.call("reset_task", p_task_uuid=self.task(), **BY)),
            (2, self.resume),
            (1, lambda: engine.call("give_up_task", p_task_uuid=self.task(), **BY)),
            (1, lambda: engine.call("resolve_task", p_task_uuid=self.task(), **BY)),
            (1, self.command_all),
            (1, lambda: engine.call("pass_validation", p_task_uuid=self.task(), **BY)),
            (1, lambda: engine.call("fail_validation", p_task_uuid=self.task(), **BY)),
            (6, self.command_step),
            (3, self.heartbeat),
            (3, lambda: engine.call("extend_leases", p_worker_uuid=self.worker())),
            (1, self.end_worker),
            (2, self.register),
            (2, self.checkpoint),
            (2, self.validate),
            (3, self.use_breaker),
            (1, lambda: engine.call("reset_breaker", p_tool=self.chance.choice(TOOLS), **BY)),
            (1, lambda: engine.table("recover", p_dry_run=False, **BY)),
            (1, lambda: engine.call("purge_expired")),
            (1, self.move_task),
            (
                2,
                lambda: engine.table(
                    "emit_event",
                    p_event="told",
                    p_key=str(self.chance.randint(1, 9)),
                    p_namespace=self.chance.choice(NAMESPACES),
                ),
            ),
            (1, self.limit),
        ]

    def limit(self) -> None:
        scope, name = self.chance.choice([("tool", "anvil"), ("tool", "crucible"), ("namespace", "north")])
        if self.chance.random() < 0.3:
            self.engine.call("remove_limit", p_scope=scope, p_name=name)
        else:
            rate = self.chance.choice([None, None, 20])
            self.engine.call(
                "set_limit", p_scope=scope, p_name=name, p_concurrency=self.chance.choice([1, 3, 10]), p_rate=rate
            )

    def task(self) -> UUID:
        # mostly the newest ones, so that the sessions meet
        return self.chance.choice(self.tasks[-12:])

    def worker(self) -> UUID:
        return self.chance.choice(self.workers[-10:])

    def a_step(self) -> UUID | None:
        rows = self.engine.column(
            "select workflow_step_uuid from tasker.workflow_steps where task_uuid = %s", self.task()
        )
        return self.chance.choice(rows) if rows else None

    def claim(self) -> None:
        namespaces = self.chance.choice([None, NAMESPACES, NAMESPACES[:1]])
        lease = self.chance.choice(["50 ms", "30 s"])
        self.claims += self.engine.claim(self.chance.choice([1, 3, 10]), self.worker(), namespaces, lease)

    def report(self) -> None:
        self.chance.shuffle(self.claims)
        count = self.chance.choice([1, 2, 10])
        batch, self.claims = self.claims[:count], self.claims[count:]
        reports = []
        for claimed in batch:
            if self.chance.random() < 0.5:
                reports.append(report_of(claimed, result=1))
            else:
                category = self.chance.choice(["transient", "permanent", "unknown"])
                error = {"message": self.chance.choice("xyz")}
                reports.append(report_of(claimed, success=False, error=error, category=category, retry_after=0.01))
        if self.chance.random() < 0.5:
            _, claims = self.engine.report_and_claim(reports, self.chance.choice([0, 2, 10]), self.worker())
            self.claims += claims
        else:
            self.engine.report(reports)

    def request(self) -> dict[str, Any]:
        """A request id now and then, from a small stock."""
        return {"p_request_id": f"r{self.chance.randint(1, 30)}"} if self.chance.random() < 0.3 else {}

    def create(self) -> None:
        parent = {"p_parent_task_uuid": self.task()} if self.tasks and self.chance.random() < 0.4 else {}
        self.tasks.append(
            self.engine.create(
                flow(self.chance.choice(VOCABULARIES), self.chance),
                p_namespace=self.chance.choice(NAMESPACES),
                p_priority=self.chance.choice([0, 0, -1, 1, 2]),
                p_start_at=self.chance.choice([None, None, None, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.2)]),
                **parent,
            )
        )

    def create_many(self) -> None:
        keys = self.chance.sample(range(40), 3)
        name = {key: f"many-{VOCABULARIES[key % len(VOCABULARIES)]}" for key in keys}
        requests: list[dict[str, Any]] = [{"name": name[key], "idempotency_key": f"k{key}"} for key in keys]
        for key in self.chance.sample(range(10), 4):
            how = {"debounce_seconds": 0.2} if key % 2 else {}
            requests.append({"name": f"many-{VOCABULARIES[key % len(VOCABULARIES)]}", "unique_key": f"u{key}", **how})
        self.chance.shuffle(requests)
        self.tasks += self.engine.column("select task_uuid from tasker.submit_tasks(%s)", Jsonb(requests))

    def command_all(self) -> None:
        command = self.chance.choice(["cancel_task", "give_up_task", "reset_task", "cancel_step", "retry_step"])
        found = {"name": "flow", "namespace": self.chance.choice(NAMESPACES)}
        self.engine.table("command_all", p_command=command, p_filter=Jsonb(found), p_dry_run=False, p_limit=4, **BY)

    def resume(self) -> None:
        self.tasks.append(self.engine.call("resume_task", p_task_uuid=self.task(), **BY))

    def command_step(self) -> None:
        if target := self.a_step():
            function = self.chance.choice(["retry_step", "reset_step", "cancel_step", "resolve_step", "skip_step"])
            self.engine.call(function, p_step_uuid=target, **BY, **self.request())

    def heartbeat(self) -> None:
        self.engine.call("worker_heartbeat", p_worker_uuid=self.worker())

    def end_worker(self) -> None:
        function = self.chance.choice(
            ["shutdown_worker", "terminate_worker", "drain_worker", "pause_worker", "resume_worker", "start_worker"]
        )
        who = {} if function == "shutdown_worker" else BY
        self.engine.call(function, p_worker_uuid=self.worker(), **who)

    def register(self) -> None:
        self.workers.append(
            self.engine.one(
                "select tasker.register_worker('w', %s, 20, %s, null, '100 ms', 1)",
                self.chance.choice([[], ["gpu", "lint"]]),
                self.chance.choice(["tasker", "supervision", "supervision"]),
            )
        )

    def checkpoint(self) -> None:
        if self.claims:
            claimed = self.chance.choice(self.claims)
            self.engine.call(
                "save_checkpoint",
                p_step_uuid=claimed["workflow_step_uuid"],
                p_claim_uuid=claimed["claim_uuid"],
                p_checkpoint={"at": 1},
            )

    def validate(self) -> None:
        rows = self.engine.rows(
            "select workflow_step_uuid, claim_uuid from tasker.step_overview where phase = 'validating' and claim_uuid is not null limit 3"
        )
        if rows:
            row = self.chance.choice(rows)
            self.engine.call(
                "report_validation",
                p_step_uuid=row["workflow_step_uuid"],
                p_claim_uuid=row["claim_uuid"],
                p_passed=self.chance.random() < 0.7,
            )

    def use_breaker(self) -> None:
        tool = self.chance.choice(TOOLS)
        permit = self.engine.row("select * from tasker.breaker_permit(%s, '50 ms')", tool)
        if permit["allowed"]:
            self.engine.call(
                "record_breaker_result",
                p_tool=tool,
                p_success=self.chance.random() < 0.5,
                p_error={"message": "x"},
                p_permit_uuid=permit["permit_uuid"],
            )

    def move_task(self) -> None:
        events = self.engine.column(
            "select event from tasker.allowed_events('task', %s) where fired_by <> 'command'", self.task()
        )
        if events:
            self.engine.call("transition_task", p_task_uuid=self.task(), p_event=self.chance.choice(events))

    def play(self, until: float) -> None:
        weights = [weight for weight, _ in self.moves]
        while time.monotonic() < until:
            (move,) = self.chance.choices([call for _, call in self.moves], weights)
            self.calls += 1
            try:
                move()
            except psycopg.errors.DeadlockDetected as deadlock:
                self.deadlocks.append(f"{deadlock.diag.message_detail}\n{deadlock.diag.context}")
            except psycopg.Error as refused:
                code = refused.sqlstate or type(refused).__name__
                assert code.startswith("TK"), f"{code}: {refused}\n{refused.diag.context}"
                self.refused[code] = self.refused.get(code, 0) + 1


@on_one_server
def test_eight_sessions_call_everything_and_never_deadlock(engine: Engine, open_engine: OpenEngine) -> None:
    """All functions at random over few tasks of all five vocabularies; nothing contradicts itself at the end."""
    chance = random.Random(20)
    for namespace in NAMESPACES:
        engine.call("ensure_namespace", p_namespace=namespace)
        engine.call("register_template", p_template=graph(step("x"), name="child", namespace=namespace))
    for tool in TOOLS:
        engine.rows("select tasker.configure_breaker(%s, 3, '200 ms', 1)", tool)
    for vocabulary in VOCABULARIES:
        engine.call("register_template", p_template={**flow(vocabulary, chance), "name": f"many-{vocabulary}"})
    tasks = [engine.create(flow(vocabulary, chance)) for vocabulary in VOCABULARIES]
    workers: list[UUID] = [engine.worker("first")]
    players = [Player(open_engine(), seed, tasks, workers) for seed in range(8)]
    for player in players:
        player.register()
    until = time.monotonic() + SECONDS
    in_parallel([lambda p=player: p.play(until) for player in players])  # type: ignore[misc]
    deadlocks = [deadlock for player in players for deadlock in player.deadlocks]
    assert not deadlocks, "\n\n".join(deadlocks)
    assert sum(player.calls for player in players) > 500, "they played"
    assert engine.one("select count(distinct lifecycle) from tasker.workflow_step_transitions") == 4
    # leases and backoffs run out, then nothing is left that only a person could move
    engine.shift_clock("1 hour")
    engine.settle()
    findings = engine.rows("select * from tasker.check_consistency() limit 10")
    tasks_of = {finding["entity_uuid"] for finding in findings if finding["entity_kind"] == "task"}
    assert findings == [], [
        engine.rows("select * from tasker.timeline where task_uuid = %s order by at", t) for t in tasks_of
    ]
    assert engine.table("recover") == []


def test_a_command_takes_its_step_and_those_that_wait_for_it_in_one_order(
    engine: Engine, open_engine: OpenEngine
) -> None:
    """A step that waits for any one of two may run while the other is settled by hand: its worker reports both at once."""
    engine.create(graph(step("a"), step("b", "a", "c", run_when="any_satisfied"), step("c")))
    held = engine.claim_by_name()
    engine.complete([held["a"]])
    engine.settle()
    held |= engine.claim_by_name()
    first, command, reporter = open_engine(autocommit=False), open_engine(), open_engine()
    late = held["c"]["workflow_step_uuid"]
    first.rows("select from tasker.workflow_steps where workflow_step_uuid = %s for update", late)
    calls = [Background(lambda: command.call("resolve_step", p_step_uuid=late, **BY))]
    engine.wait_until_blocked(command)
    calls.append(Background(lambda: reporter.report([report_of(held["b"]), report_of(held["c"])])))
    engine.wait_until_blocked(reporter)
    first.connection.rollback()
    _, outcomes = [call.result() for call in calls]
    assert [outcome["code"] for outcome in outcomes] == [None, "TK412"]
    engine.settle()
    engine.check()


def test_reports_that_end_in_two_ways_tell_the_breakers_in_one_pass(engine: Engine, open_engine: OpenEngine) -> None:
    """Some results are settled after their report and some by it; in one call both take their breakers by name."""
    for tool in TOOLS:
        engine.rows("select tasker.configure_breaker(%s, 3, '200 ms', 1)", tool)
    anvil, bellows, crucible = TOOLS
    held = {}
    for worker, later, at_once in [("one", [bellows], [anvil, crucible]), ("other", [crucible], [bellows])]:
        engine.create(graph(*(step(f"later {tool}", tool=tool) for tool in later)))
        engine.create(graph(*(step(f"at once {tool}", tool=tool) for tool in at_once), vocabulary="pipeline"))
        held[worker] = [report_of(claimed) for claimed in engine.claim(worker=worker)]
        assert len(held[worker]) == len(later + at_once)
    first, one, other = open_engine(autocommit=False), open_engine(), open_engine()
    first.rows("select from tasker.circuit_breakers where tool = %s for update", anvil)
    calls = [Background(lambda: one.report_and_claim(held["one"], 0, engine.worker("one")))]
    engine.wait_until_blocked(one)
    calls.append(Background(lambda: other.report_and_claim(held["other"], 0, engine.worker("other"))))
    wait_until(lambda: calls[1].is_done() or engine.sees_blocked(other), "the second call at its breakers")
    first.connection.rollback()
    for call in calls:
        outcomes, _ = call.result()
        assert [outcome["code"] for outcome in outcomes] == [None] * len(outcomes)
    engine.settle()
    engine.check()
