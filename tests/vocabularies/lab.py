"""The engine under every vocabulary, as plain SQL calls: the loop of a worker, time that can be moved, and its logs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.workflow.engine import BY, Engine, Row, report_of

Edge = tuple[str, str, str]

VOCABULARIES = ["tasker", "orchestration", "pipeline", "execution", "supervision"]


class Refusal:
    """A refused call, as a driver sees it."""

    error: psycopg.Error

    @property
    def hint(self) -> str:
        return self.error.diag.message_hint or ""

    @property
    def message(self) -> str:
        return self.error.diag.message_primary or ""

    @property
    def detail(self) -> Row:
        detail = json.loads(self.error.diag.message_detail or "{}")
        assert isinstance(detail, dict)
        return detail


@contextlib.contextmanager
def refused(*codes: str) -> Iterator[Refusal]:
    """The block must fail with one of these SQLSTATEs and say what would be right."""
    refusal = Refusal()
    with pytest.raises(psycopg.Error) as caught:
        yield refusal
    refusal.error = caught.value
    assert caught.value.sqlstate in codes, str(caught.value)
    assert refusal.hint, str(caught.value)


class Lab(Engine):
    """One connection and the calls that every vocabulary shares, in a namespace of its own.

    A module shares its database, since a session that has run everything once is five times as fast as a new one.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self.namespace = f"lab-{uuid4().hex[:12]}"

    def create(self, flow: Row, **arguments: Any) -> UUID:
        return super().create(flow, **{"p_namespace": self.namespace, **arguments})

    def worker(self, name: str = "w", **arguments: Any) -> UUID:
        """Registered when first asked for; unless told otherwise it misses no heartbeat when time is skipped."""
        return super().worker(name, **{"p_namespaces": [self.namespace], "p_heartbeat_interval": "1 day", **arguments})

    def claim(
        self, limit: int = 100, worker: UUID | str = "w", namespaces: list[str] | None = None, lease: str = "30 s"
    ) -> list[Row]:
        return super().claim(limit, worker, namespaces or [self.namespace], lease)

    def clear(self) -> None:
        """Nothing of this test is waited for any more."""
        self.rows("delete from tasker.timers")
        self.rows("delete from tasker.step_claims")

    def supervised(self, number: int) -> list[UUID]:
        """So many workers of vocabulary `supervision`."""
        return [
            self.call(
                "register_worker", p_name=f"supervised {place}", p_vocabulary="supervision",
                p_namespaces=[self.namespace],
            )
            for place in range(number)
        ]  # fmt: skip

    def run_step(self, claimed: Row, outcome: Row | None = None) -> None:
        """Report one claimed step; where it has to be validated first, its checks pass unless `passed` says no."""
        outcome = dict(outcome or {"result": claimed["name"]})
        passed = outcome.pop("passed", True)
        (answer,) = self.report([report_of(claimed, **outcome)])
        if answer["code"] == "TK412":  # its workflow ended meanwhile
            return
        assert answer["code"] is None, answer
        if claimed["acceptance"] and self.claim_uuid(claimed["workflow_step_uuid"]) == claimed["claim_uuid"]:
            self.call(
                "report_validation", p_step_uuid=claimed["workflow_step_uuid"], p_claim_uuid=claimed["claim_uuid"],
                p_passed=passed,
            )  # fmt: skip

    def has_ended(self, worker: UUID) -> bool:
        return self.one(  # type: ignore[no-any-return]
            "select s.is_terminal from tasker.worker_transitions t"
            " join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state"
            " where t.worker_uuid = %s and t.most_recent",
            worker,
        )

    def claim_uuid(self, step: UUID) -> UUID | None:
        return self.one("select claim_uuid from tasker.workflow_steps where workflow_step_uuid = %s", step)  # type: ignore[no-any-return]

    def work(
        self,
        handler: Callable[[Row], Row | None] = lambda _: None,
        *,
        worker: UUID | str = "w",
        skip_time: bool = True,
        rounds: int = 200,
    ) -> int:
        """The worker loop: claim, run, report, orchestrate, tick; when nothing is left, skip to what is waited for.

        Returns how many attempts were run. Stops when nothing is due within a day.
        """
        attempts = 0
        for _ in range(rounds):
            self.settle()
            if isinstance(worker, UUID) and self.has_ended(worker):
                return attempts
            claims = self.claim(100, worker)
            for claimed in claims:
                self.run_step(claimed, handler(claimed))
            attempts += len(claims)
            if not claims:
                self.settle()
                wait = self.one("select extract(epoch from tasker.next_due_at() - tasker.clock())")
                if not skip_time or wait is None or wait > 86400:
                    return attempts
                self.later(f"{max(float(wait), 0) + 0.001} seconds")
        raise AssertionError(f"no end after {rounds} rounds: {self.rows('select * from tasker.timers')}")

    def later(self, by: str) -> None:
        """Move the clock on; shifts add up."""
        self.rows(
            "insert into tasker.test_clock (shift) values (%s::interval)"
            " on conflict (singleton) do update set shift = test_clock.shift + excluded.shift",
            by,
        )

    # -- logs

    def log(self, table: str, key: str, uuid: UUID) -> list[tuple[str | None, str, str]]:
        rows = self.rows(
            f"select from_state, event, to_state from tasker.{table} where {key} = %s order by sort_key", uuid
        )
        return [tuple(row.values()) for row in rows]

    def task_log(self, task: UUID) -> list[tuple[str | None, str, str]]:
        return self.log("task_transitions", "task_uuid", task)

    def step_log(self, task: UUID, name: str) -> list[tuple[str | None, str, str]]:
        return self.log("workflow_step_transitions", "workflow_step_uuid", self.key(task, name))

    def worker_log(self, worker: UUID) -> list[tuple[str | None, str, str]]:
        return self.log("worker_transitions", "worker_uuid", worker)

    def path(self, task: UUID, name: str | None = None) -> list[str]:
        """The states a task, or one of its steps, went through."""
        return self.walk(self.key(task, name) if name else task)

    def key(self, task: UUID, name: str) -> UUID:
        return self.one(  # type: ignore[no-any-return]
            "select workflow_step_uuid from tasker.workflow_steps where task_uuid = %s and name = %s", task, name
        )

    def command(self, function: str, uuid: UUID) -> str:
        """cancel_task, retry_step, pause_worker and so on, with reason and name."""
        kind = function.rpartition("_")[2]
        return self.call(function, **{f"p_{kind}_uuid": uuid}, **BY)  # type: ignore[no-any-return]

    def worker_state(self, worker: UUID) -> str:
        return self.one("select tasker.worker_state(%s)", worker)  # type: ignore[no-any-return]

    # -- what must hold after everything

    def sound(self) -> None:
        """Nothing disagrees, nothing is stranded, and every reported result has exactly one audit row."""
        for task in self.column("select task_uuid from tasker.tasks where namespace = %s", self.namespace):
            findings = self.rows("select * from tasker.check_consistency(%s)", task)
            assert findings == [], findings
            stranded = self.rows("select * from tasker.recover(p_task_uuid => %s)", task)
            assert stranded == [], stranded
        assert (
            self.rows(
                """
                select t.* from tasker.workflow_step_transitions t
                  join tasker.lifecycle_transitions r using (lifecycle, from_state, event, to_state)
                 where t.namespace = %s and r.reports_result <> (select count(*) = 1 from tasker.workflow_step_result_audit a
                                             where a.workflow_step_transition_uuid = t.workflow_step_transition_uuid)
                """,
                self.namespace,
            )
            == []
        )
