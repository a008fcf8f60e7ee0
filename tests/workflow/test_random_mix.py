"""Everything at once on the same few tasks: no deadlock, no unexpected error, no inconsistency."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.workflow.engine import BY, Engine, Row, graph, in_parallel, report_of, step, wait_until
from tests.workflow.fixtures import OpenEngine, on_one_server

SESSIONS = 8
SECONDS = 15.0
NAMESPACES = ("default", "a", "b")

# what a caller must expect when others are faster; everything else is a fault of the engine
EXPECTED = {"TK403", "TK404", "TK409", "TK412", "TK422", "TK423"}


class Player:
    """One session that does anything to any task, at random."""

    def __init__(self, engine: Engine, seed: int, tasks: list[UUID]) -> None:
        self.engine = engine
        self.draw = random.Random(seed)
        self.tasks = tasks
        self.held: list[Row] = []
        self.name = f"w{seed}"
        self.outcomes: Counter[str] = Counter()
        self.processor: UUID = engine.call("register_processor", p_name=self.name, p_lease="1 s")
        self.moves: list[tuple[int, Callable[[], Any]]] = [
            (12, self.claim),
            (12, self.report),
            (10, self.orchestrate),
            (6, self.tick),
            (4, self.create),
            (3, self.extend),
            (2, self.restart),
            (3, self.step_command),
            (2, self.task_command),
            (2, self.resume),
            (2, self.transition_task),
            (2, self.transition_step),
            (2, self.look),
            (1, self.hold_up),
            (1, self.command_all),
            (1, self.emit),
        ]

    def play(self, until: float) -> None:
        moves = [move for _, move in self.moves]
        weights = [weight for weight, _ in self.moves]
        while time.monotonic() < until:
            (move,) = self.draw.choices(moves, weights)
            try:
                move()
                self.outcomes["done"] += 1
            except psycopg.Error as error:
                state = error.sqlstate or "?"
                self.outcomes[state] += 1
                assert state in EXPECTED, f"{move.__name__}: {error}"

    def task(self) -> UUID:
        return self.draw.choice(self.tasks[-6:])

    def step(self) -> UUID:
        # of several tasks: one that resumes a task whose steps were all done has none
        uuids = self.engine.column(
            "select workflow_step_uuid from tasker.workflow_steps where task_uuid = any (%s)", self.tasks[-6:]
        )
        uuid: UUID = self.draw.choice(uuids)
        return uuid

    def claim(self) -> None:
        lease = self.draw.choice(["0.02 s", "0.2 s", "30 s"])
        self.held += self.engine.claim(self.draw.randint(1, 6), self.name, lease=lease)

    def report(self) -> None:
        """Some of what is held, in any order, now and then again or under a wrong claim."""
        self.draw.shuffle(self.held)
        batch, self.held = self.held[:5], self.held[5:]
        reports = [self.a_report(claimed) for claimed in batch]
        if self.draw.random() < 0.3:
            reports += [self.a_report(claimed) for claimed in batch[:2]]
            self.held += batch[2:3]
        if self.draw.random() < 0.5:
            outcomes, claims = self.engine.report_and_claim(reports, self.draw.randint(0, 4), self.name)
            self.held += claims
        else:
            outcomes = self.engine.report(reports)
        for outcome in outcomes:
            self.outcomes[f"report {outcome['code']}"] += 1

    def a_report(self, claimed: Row) -> Row:
        chance = self.draw.random()
        if chance < 0.7:
            return report_of(claimed, result=chance)
        if chance < 0.9:
            return report_of(
                claimed, success=False, category="transient", retry_after=self.draw.choice([0, 0.05, None])
            )
        if chance < 0.95:
            return report_of(claimed, success=False, category="permanent")
        return {**report_of(claimed), "claim_uuid": str(UUID(int=self.draw.getrandbits(128)))}

    def orchestrate(self) -> None:
        processor = self.processor if self.draw.random() < 0.2 else None
        self.engine.rows("select * from tasker.orchestrate(%s, %s)", processor, self.draw.randint(1, 20))

    def tick(self) -> None:
        self.engine.tick(self.draw.choice([1, 3, 100]))

    def create(self) -> None:
        flow = graph(*map(self.a_step, range(self.draw.randint(1, 12))))
        key = f"key {self.draw.randint(1, 40)}" if self.draw.random() < 0.5 else None
        self.tasks.append(
            self.engine.create(
                flow,
                p_namespace=self.draw.choice(NAMESPACES),
                p_idempotency_key=key,
                p_priority=self.draw.choice([0, 0, 0, 3, -3]),
                p_context={"list": [1] * self.draw.randint(0, 4)},
                **self.a_start(),
            )
        )

    def a_step(self, number: int) -> Row:
        depends_on = [f"s{n}" for n in range(number) if self.draw.random() < 0.3]
        return step(
            f"s{number}",
            *depends_on,
            max_attempts=4,
            delay_seconds=self.draw.choice([None, None, None, 0.02]),
            on_failure=self.draw.choice(["block"] * 6 + ["continue", "stop"]),
            run_when=self.draw.choice([None, None, "any_satisfied", "all_finished"]) if depends_on else None,
            **(self.a_condition() if self.draw.random() < 0.3 else {}),
            **self.draw.choices(
                [{}, self.a_wait(), self.a_workflow(), {"for_each": "$.context.list[*]"}, {"for_each": "$.inputs.*"}],
                [6, 2, 1, 1, 1],
            )[0],
        )

    def a_start(self) -> Row:
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.1)
        return self.draw.choice([{}] * 8 + [{"p_start": False}, {"p_start_at": soon}])

    def hold_up(self) -> None:
        """Nothing of a namespace is handed out for a moment, in which the others go on."""
        namespace = self.draw.choice(NAMESPACES)
        self.engine.call("pause_namespace", p_namespace=namespace, **BY)
        self.claim()
        self.engine.call("resume_namespace", p_namespace=namespace, **BY)

    def command_all(self) -> None:
        command = self.draw.choice(["retry_step", "reset_task", "cancel_step", "give_up_task"])
        found = {"name": "flow", "namespace": self.draw.choice(NAMESPACES)}
        self.engine.table("command_all", p_command=command, p_filter=Jsonb(found), p_dry_run=False, p_limit=3, **BY)

    def a_condition(self) -> Row:
        return {
            "condition": self.draw.choice(["$.inputs.* > 0.5", "$.context.never", "1 == 1"]),
            "when_unmet": self.draw.choice(["skip", "skip_dependents", "fail"]),
        }

    def a_wait(self) -> Row:
        key = {"value": self.draw.randint(1, 20)}
        time = {
            "timeout_seconds": self.draw.choice([0.01, 0.5]),
            "on_timeout": self.draw.choice(["fail", "skip", "run"]),
        }
        return {
            "wait_for": {"event": "told", **key, **self.draw.choice([{}, time])},
            **self.draw.choice([{}, {"handler": None}]),
        }

    def a_workflow(self) -> Row:
        return {
            "workflow": {"name": "child", "on_parent_cancel": self.draw.choice(["cancel", "leave"])},
            "timeout_seconds": self.draw.choice([None, 0.5]),
        }

    def emit(self) -> None:
        key = str(self.draw.randint(1, 20))
        self.engine.table("emit_event", p_event="told", p_key=key, p_namespace=self.draw.choice(NAMESPACES))

    def resume(self) -> None:
        self.tasks.append(self.engine.call("resume_task", p_task_uuid=self.task(), **BY))

    def extend(self) -> None:
        worker = self.engine.worker(self.name)
        self.engine.call("extend_leases", p_worker_uuid=worker, p_lease="0.3 s")
        self.engine.call("processor_heartbeat", p_processor_uuid=self.processor, p_lease="0.3 s")
        self.engine.table("held_claims", p_worker_uuid=worker)

    def restart(self) -> None:
        self.engine.call("shutdown_worker", p_worker_uuid=self.engine.worker(self.name))
        self.name = f"{self.name.partition('/')[0]}/{self.draw.getrandbits(30)}"

    def step_command(self) -> None:
        command = self.draw.choice(["retry_step", "reset_step", "resolve_step", "cancel_step", "skip_step"])
        self.engine.call(command, p_step_uuid=self.step(), **BY)

    def task_command(self) -> None:
        command = self.draw.choice(["cancel_task", "give_up_task", "resolve_task", "reset_task", "reset_task"])
        self.engine.call(command, p_task_uuid=self.task(), **BY)

    def transition_task(self) -> None:
        task = self.task()
        events = self.engine.column("select event from tasker.allowed_events('task', %s) where event <> 'cancel'", task)
        if events:
            self.engine.call(
                "transition_task",
                p_task_uuid=task,
                p_event=self.draw.choice(events),
                p_processor_uuid=self.draw.choice([None, self.processor]),
                p_metadata={"reason": "a test", "requested_by": "ada"},
            )

    def transition_step(self) -> None:
        uuid = self.step()
        events = self.engine.column("select event from tasker.allowed_events('step', %s) where event <> 'start'", uuid)
        if events:
            self.engine.call(
                "transition_step",
                p_step_uuid=uuid,
                p_event=self.draw.choice(events),
                p_metadata={"reason": "a test", "requested_by": "ada"},
            )

    def look(self) -> None:
        task = self.task()
        self.engine.call("explain_task", p_task_uuid=task)
        self.engine.table("get_task_execution_context", p_task_uuid=task)
        self.engine.table("get_step_readiness_status", p_task_uuid=task)
        assert self.engine.rows("select * from tasker.check_consistency(%s)", task) == []


def all_settled(engine: Engine) -> bool:
    engine.settle()
    return bool(engine.one("select count(*) from pgmq.q_orchestration_step_results") == 0)


@on_one_server
def test_eight_sessions_do_everything_to_the_same_tasks(engine: Engine, open_engine: OpenEngine) -> None:
    engine.rows("alter system set deadlock_timeout = '100ms'")
    engine.rows("select pg_reload_conf()")
    for namespace in NAMESPACES:
        engine.call("register_template", p_template=graph(step("x"), name="child", namespace=namespace))
    tasks = [engine.create(graph(step("a"), step("b", "a")))]
    seed = random.SystemRandom().randrange(10**6)
    players = [Player(open_engine(), seed + number, tasks) for number in range(SESSIONS)]
    until = time.monotonic() + SECONDS
    try:
        in_parallel([partial(player.play, until) for player in players])
    finally:
        engine.rows("alter system reset deadlock_timeout")
        engine.rows("select pg_reload_conf()")
    outcomes: Counter[str] = sum((p.outcomes for p in players), Counter())
    print(seed, len(tasks), outcomes)
    assert outcomes["done"] > 500, outcomes
    engine.check()
    for key in range(1, 21):
        for namespace in NAMESPACES:
            engine.table("emit_event", p_event="told", p_key=str(key), p_namespace=namespace)

    # and everything that was not ended by hand can still be brought to an end
    for hours in range(1, 30):
        engine.shift_clock(f"{hours} hours")
        # results of a task that another processor owned come back to the queue after a second
        wait_until(partial(all_settled, engine), "every result settled")
        # a step whose workflow is blocked waits until somebody mends it, or gives it up
        for child in engine.column(
            "select task_uuid from tasker.task_overview where phase = 'blocked' and parent_task_uuid is not null"
        ):
            engine.call("give_up_task", p_task_uuid=child, **BY)
        wait_until(partial(all_settled, engine), "every parent told")
        if not engine.drain(worker=engine.worker("last")):
            break
    engine.check()
    engine.check_order()
    left = engine.rows("select task_uuid, state from tasker.task_overview where not is_terminal")
    stuck = [row["task_uuid"] for row in left if row["state"] not in ("blocked_by_failures", "pending")]
    assert [(task, engine.states(task), engine.walk(task)[-6:]) for task in stuck] == [], seed


def test_the_mix_knows_every_public_function_that_changes_something(engine: Engine) -> None:
    """A new call must be thought of here too."""
    import inspect

    played = inspect.getsource(Player) + inspect.getsource(Engine)
    public = engine.column(
        "select distinct p.proname from pg_proc p where p.pronamespace = 'tasker'::regnamespace and p.prosecdef"
        " and p.provolatile = 'v' and p.prorettype <> 'trigger'::regtype"
    )
    elsewhere = {
        # rules and set-up, not work
        "define_vocabulary",
        "register_template",
        "ensure_namespace",
        "set_namespace_notifications",
        "set_payload_limits",
        "configure_tool",
        "set_limit",
        "remove_limit",
        # one-line covers of what is played
        "create_task",
        "create_tasks",
        "complete_step",
        "fail_step",
        "transition_with_ownership",
        "worker_heartbeat",
        "breaker_allows",
        # what is not work: metrics, schedules, lifecycles of other people's tables, who is bound to what, seals, retention
        "bind_login",
        "record_refusal",
        "seal_audit",
        "set_retention_policy",
        "archive_tasks",
        "purge_archive",
        "schedule_tasks",
        "pause_schedule",
        "resume_schedule",
        "remove_schedule",
        "backfill_schedule",
        "hold_task",
        "release_task",
        "unbind_login",
        "prometheus_metrics",
        "diagnose_work",
        "live_overview",
        "metrics_fold",
        "refuse_attached",
        "attach_lifecycle",
        "detach_lifecycle",
        "register_guard",
        "record_attachment",
        "record_detachment",
        "start_attached",
        "keep_attached_key",
    }
    # played, with all of these, by the hunt of that file over every vocabulary
    hunted = (Path(__file__).resolve().parents[1] / "faults" / "test_deadlocks.py").read_text("utf-8")
    missing = [name for name in public if name not in played and name not in elsewhere and name not in hunted]
    assert missing == []
