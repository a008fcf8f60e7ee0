"""The engine as its tests see it: SQL calls over one connection, and threads that race for real."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

Row = dict[str, Any]
Handler = Callable[[Row], Row]
"""What became of a claimed step: the fields of its report, for example `{"result": 1}` or `{"success": False}`."""

PATIENCE = 30.0
"""Seconds after which a condition that was waited for counts as never coming."""

BY = {"p_reason": "a test", "p_requested_by": "ada"}


def step(name: str, *depends_on: str, **fields: Any) -> Row:
    """One step of a graph; retries at once unless told otherwise."""
    return {"name": name, "depends_on": list(depends_on), "retry": {"base_delay": 0, "jitter": 0}, **fields}


def graph(*steps: Row, name: str = "flow", **fields: Any) -> Row:
    return {"name": name, "steps": list(steps), **fields}


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Ask again and again until the condition holds; fails the test where it never does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.002)


class Engine:
    """One connection (autocommit unless made otherwise) and the calls of pgtasker over it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._workers: dict[str, UUID] = {}

    # -- plain SQL ---------------------------------------------------------------------------------------------------

    def rows(self, query: str, *parameters: Any) -> list[Row]:
        # the tests' queries are their own text, never input
        cursor = self.connection.cursor(row_factory=dict_row)
        cursor.execute(query.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def row(self, query: str, *parameters: Any) -> Row:
        rows = self.rows(query, *parameters)
        assert len(rows) == 1, f"{len(rows)} rows from {query}"
        return rows[0]

    def one(self, query: str, *parameters: Any) -> Any:
        (value,) = self.row(query, *parameters).values()
        return value

    def column(self, query: str, *parameters: Any) -> list[Any]:
        return [next(iter(row.values())) for row in self.rows(query, *parameters)]

    def call(self, function: str, **arguments: Any) -> Any:
        """`tasker.function(name => value, ...)`: the value of a scalar function."""
        return self.one(*self._call("select tasker.{}({})", function, arguments))

    def table(self, function: str, **arguments: Any) -> list[Row]:
        """The rows of a set-returning function."""
        return self.rows(*self._call("select * from tasker.{}({})", function, arguments))

    @staticmethod
    def _call(form: str, function: str, arguments: dict[str, Any]) -> list[Any]:
        values = [Jsonb(v) if isinstance(v, dict) else v for v in arguments.values()]
        return [form.format(function, ", ".join(f"{name} => %s" for name in arguments)), *values]

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def begin(self) -> None:
        self.connection.execute("begin")

    def commit(self) -> None:
        self.connection.execute("commit")

    def rollback(self) -> None:
        self.connection.execute("rollback")

    # -- work --------------------------------------------------------------------------------------------------------

    def create(self, flow: Row, **arguments: Any) -> UUID:
        uuid: UUID = self.call("create_task_from_graph", p_graph=flow, **arguments)
        return uuid

    def worker(self, name: str = "w", **arguments: Any) -> UUID:
        """The worker of that name, registered when it is first asked for."""
        if name not in self._workers:
            self._workers[name] = self.call("register_worker", p_name=name, **arguments)
        return self._workers[name]

    def claim(
        self, limit: int = 100, worker: UUID | str = "w", namespaces: list[str] | None = None, lease: str = "30 s"
    ) -> list[Row]:
        return self.rows(
            "select * from tasker.claim_steps(%s, %s, %s, %s::interval)",
            worker if isinstance(worker, UUID) else self.worker(worker),
            namespaces,
            limit,
            lease,
        )

    def claim_by_name(self, **arguments: Any) -> dict[str, Row]:
        return {claimed["name"]: claimed for claimed in self.claim(**arguments)}

    def report(self, reports: Sequence[Any]) -> list[Row]:
        """Raw reports in one call."""
        return self.rows("select * from tasker.complete_steps(%s)", Jsonb(list(reports)))

    def report_and_claim(
        self, reports: Sequence[Any], limit: int = 100, worker: UUID | str = "w", namespaces: list[str] | None = None
    ) -> tuple[list[Row], list[Row]]:
        """Raw reports in one call that goes on: what became of them, and the steps that it hands over."""
        rows = self.rows(
            "select to_jsonb(r.outcome) || jsonb_build_object('awaits_orchestration', r.awaits_orchestration) as outcome,"
            " to_jsonb(r.claim) as claim from tasker.report_and_claim(%s, %s, %s, %s) r",
            worker if isinstance(worker, UUID) else self.worker(worker),
            Jsonb(list(reports)),
            namespaces,
            limit,
        )
        claims = [row["claim"] for row in rows if row["claim"]]
        return [row["outcome"] for row in rows[: len(rows) - len(claims)]], claims

    def complete(self, claims: Iterable[Row], result: Any = None) -> list[Row]:
        return self.report([report_of(claimed, result=result) for claimed in claims])

    def fail(self, claims: Iterable[Row], category: str = "transient", **fields: Any) -> list[Row]:
        error = {"message": "it broke"}
        return self.report([report_of(c, success=False, error=error, category=category, **fields) for c in claims])

    def orchestrate(self, limit: int = 1000) -> Row:
        return self.row("select * from tasker.orchestrate(null, %s)", limit)

    def tick(self, limit: int = 1000) -> Row:
        return self.row("select * from tasker.tick(%s)", limit)

    def settle(self) -> None:
        """Orchestrate and tick until neither has anything left to do."""
        while True:
            drained, ticked = self.orchestrate(), self.tick()
            if not (drained["messages"] or ticked["timers_fired"] or ticked["leases_expired"]):
                return

    def drain(self, handler: Handler | None = None, worker: UUID | str = "w", limit: int = 100) -> int:
        """Work until there is nothing to do; returns how many steps were run."""
        done = 0
        self.settle()
        while claims := self.claim(limit, worker):
            self.report([report_of(c, **(handler(c) if handler else {"result": c["name"]})) for c in claims])
            done += len(claims)
            self.settle()
        return done

    # -- looking -----------------------------------------------------------------------------------------------------

    def task(self, task_uuid: UUID) -> Row:
        return self.row("select * from tasker.task_status(%s)", task_uuid)

    def state(self, task_uuid: UUID) -> str:
        state: str = self.task(task_uuid)["state"]
        return state

    def steps(self, task_uuid: UUID) -> dict[str, Row]:
        rows = self.rows("select * from tasker.step_overview where task_uuid = %s order by ordinal", task_uuid)
        return {row["name"]: row for row in rows}

    def states(self, task_uuid: UUID) -> dict[str, str]:
        return {name: row["state"] for name, row in self.steps(task_uuid).items()}

    def walk(self, entity_uuid: UUID) -> list[str]:
        """The states that a task or step went through, in order."""
        return self.column("select to_state from tasker.timeline where entity_uuid = %s order by sort_key", entity_uuid)

    def rejections(self) -> list[Row]:
        return self.rows("select * from tasker.rejected_transitions order by created_at, rejected_transition_uuid")

    def queued(self, namespace: str = "default") -> list[Any]:
        """The messages that stand in the queue of a namespace."""
        queue = self.one("select queue_name from tasker.task_namespaces where namespace = %s", namespace)
        return self.column(f"select message from pgmq.q_{queue} order by msg_id")

    def shift_clock(self, interval: str) -> None:
        """Move the clock by which leases and timers are judged; replaces an earlier shift."""
        self.rows(
            "insert into tasker.test_clock (shift) values (%s::interval)"
            " on conflict (singleton) do update set shift = excluded.shift",
            interval,
        )

    def check(self, task_uuid: UUID | None = None) -> None:
        """Nothing that the engine caches differs from what its logs say."""
        findings = self.rows("select * from tasker.check_consistency(%s)", task_uuid)
        assert findings == [], findings

    def check_order(self) -> None:
        """No step was started before what it depends on had ended as its rule asks for: judged from the log alone."""
        found = self.rows(
            """
                with started as (
                  select workflow_step_uuid, min(created_at) as at, max(created_at) as last_at
                    from tasker.workflow_step_transitions where event = 'start' group by 1
                ), ended as (
                  select t.workflow_step_uuid,
                         min(t.created_at) filter (where s.satisfies_dependencies or t.metadata ? 'left_out'
                                                      or (s.counts_as = 'failed' and w.on_failure = 'continue')) as satisfied,
                         min(t.created_at) filter (where s.counts_as in ('satisfied', 'failed')) as finished
                    from tasker.workflow_step_transitions t
                    join tasker.workflow_steps w using (workflow_step_uuid)
                    join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state group by 1
                )
                select w.name, w.options, c.at, c.last_at, jsonb_agg(jsonb_build_array(p.satisfied, p.finished)) as dependencies
                  from tasker.workflow_step_edges e
                  join started c on c.workflow_step_uuid = e.to_step_uuid
                  join tasker.workflow_steps w on w.workflow_step_uuid = e.to_step_uuid
                  left join ended p on p.workflow_step_uuid = e.from_step_uuid
                 where e.waived is null
                 group by e.to_step_uuid, w.name, c.at, c.last_at, w.options
                having case when w.options ->> 'run_when' = 'any_satisfied' then coalesce(min(p.satisfied) > c.at, true)
                            -- cleanups that are sent back, and maps that failed before they had elements, wait anew
                            when w.options ->> 'run_when' = 'all_finished' or w.options ? 'elements'
                              then bool_or(coalesce(case when w.options ? 'elements' then p.satisfied else p.finished end > c.last_at, true))
                                   and tasker.step_state(e.to_step_uuid) in ('complete', 'error')
                            else bool_or(coalesce(p.satisfied > c.at, true)) end
                """
        )
        assert found == [], found

    def check_completed_once(self, expected: int) -> None:
        """So many steps, and each of them is completed exactly once in the log."""
        counts = self.column(
            "select count(*) from tasker.workflow_step_transitions where to_state = 'complete' group by workflow_step_uuid"
        )
        assert counts == [1] * expected

    # -- other sessions ----------------------------------------------------------------------------------------------

    def sees_blocked(self, other: Engine) -> bool:
        """Whether the other session waits for a lock now."""
        return bool(self.one("select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", other.pid))

    def wait_until_blocked(self, other: Engine) -> None:
        """Wait until the other session waits for a lock, so that the order of a race is known."""
        wait_until(lambda: self.sees_blocked(other), f"session {other.pid} waiting for a lock")


def report_of(claimed: Row, **fields: Any) -> Row:
    return {"step_uuid": str(claimed["workflow_step_uuid"]), "claim_uuid": str(claimed["claim_uuid"]), **fields}


class Background:
    """A call that runs in a thread of its own because it is expected to wait."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(call)

    def is_done(self) -> bool:
        return self._future.done()

    def result(self) -> Any:
        try:
            return self._future.result(PATIENCE)
        finally:
            self._pool.shutdown(wait=False)


def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls in threads that start together; returns their answers in order, raises what one of them raised."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait(PATIENCE)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]
