"""The breaker against a small model of the seeds' page, over random histories."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workflow.engine import Engine
from tests.workflow.fixtures import on_one_server

COOLDOWN, LEASE = 60, 30
_names = itertools.count()


@dataclass
class Model:
    """Seed 001, Circuit Breaker State Machine, with max_error_repeats of seed 002."""

    threshold: int
    success_threshold: int
    max_repeats: int | None
    state: str = "CLOSED"
    now: int = 0
    failures: int = 0
    successes: int = 0
    opened_at: int = 0
    error: str | None = None
    repeats: int = 0
    trial: int | None = None
    trial_until: int = 0
    permits: int = field(default=0)

    def open(self) -> None:
        self.state, self.opened_at, self.trial, self.successes = "OPEN", self.now, None, 0

    def ask(self) -> bool:
        if self.state == "OPEN" and self.now >= self.opened_at + COOLDOWN:
            self.state, self.successes, self.trial = "HALF_OPEN", 0, None
        allowed = self.state == "CLOSED" or (
            self.state == "HALF_OPEN" and (self.trial is None or self.now >= self.trial_until)
        )
        if allowed:
            self.permits += 1
            if self.state == "HALF_OPEN":
                self.trial, self.trial_until = self.permits, self.now + LEASE
        return allowed

    def report(self, success: bool, error: str, permit: int | None) -> None:
        if self.state == "CLOSED" and success:
            self.failures, self.repeats, self.error = 0, 0, None
        elif self.state == "CLOSED":
            self.failures += 1
            self.repeats = self.repeats + 1 if self.error == error else 0
            self.error = error
            too_often = self.max_repeats is not None and self.repeats > self.max_repeats
            if self.failures >= self.threshold or too_often:
                self.open()
        elif self.state == "HALF_OPEN" and permit is not None and permit == self.trial:
            if not success:
                self.open()
            else:
                self.trial, self.successes = None, self.successes + 1
                if self.successes >= self.success_threshold:
                    self.state, self.failures, self.repeats, self.successes = "CLOSED", 0, 0, 0


MOVES = st.one_of(
    st.just(("ask",)),
    st.tuples(st.just("report"), st.sampled_from([False, False, True]), st.sampled_from("aab"), st.integers(0, 3)),
    st.just(("report", False, "a", 0)),
    st.tuples(st.just("wait"), st.sampled_from([1, 29, 31, 61])),
    st.just(("reset",)),
)


@on_one_server
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    threshold=st.integers(1, 6),
    success_threshold=st.integers(1, 2),
    max_repeats=st.one_of(st.none(), st.integers(1, 2)),
    moves=st.lists(MOVES, max_size=25),
)
def test_every_history_ends_where_the_model_ends(
    engine: Engine, threshold: int, success_threshold: int, max_repeats: int | None, moves: list[tuple[Any, ...]]
) -> None:
    model = Model(threshold, success_threshold, max_repeats)
    tool = f"tool{next(_names)}"
    engine.rows(
        "select tasker.configure_breaker(%s, %s, make_interval(secs => %s), %s, %s)",
        tool,
        threshold,
        COOLDOWN,
        success_threshold,
        max_repeats,
    )
    engine.shift_clock("0 s")
    given_out: list[Any] = []
    for move in moves:
        if move[0] == "wait":
            model.now += move[1]
            engine.shift_clock(f"{model.now} s")
        elif move[0] == "ask":
            answer = engine.row("select * from tasker.breaker_permit(%s, make_interval(secs => %s))", tool, LEASE)
            assert answer["allowed"] == model.ask()
            if answer["allowed"]:
                given_out.append(answer["permit_uuid"])
        elif move[0] == "reset":
            if model.state != "CLOSED":
                engine.rows("select tasker.reset_breaker(%s, 'a test', 'ada')", tool)
                model.state, model.failures, model.repeats, model.successes, model.trial = "CLOSED", 0, 0, 0, None
        else:
            _, success, error, back = move
            number = len(given_out) - back if back and back <= len(given_out) else None
            engine.rows(
                "select tasker.record_breaker_result(%s, %s, jsonb_build_object('message', %s::text), %s)",
                tool,
                success,
                error,
                given_out[number - 1] if number else None,
            )
            model.report(success, error, number)
        assert engine.one("select tasker.breaker_state(%s)", tool) == model.state
