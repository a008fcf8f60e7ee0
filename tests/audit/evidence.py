"""A database with rows of evidence in every log, and what an owner or superuser can do to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from uuid import uuid4

from tests.export import history
from tests.kernel.engine import Engine, Row, chain

LOGS: dict[str, tuple[str, str, str]] = {
    "task": ("task_transitions", "task_transition_uuid", "event"),
    "step": ("workflow_step_transitions", "workflow_step_transition_uuid", "event"),
    "worker": ("worker_transitions", "worker_transition_uuid", "event"),
    "circuit_breaker": ("circuit_breaker_transitions", "circuit_breaker_transition_uuid", "event"),
    "attached": ("attached_transitions", "attached_transition_uuid", "event"),
    "rejection": ("rejected_transitions", "rejected_transition_uuid", "message"),
    "event": ("audit_events", "audit_event_uuid", "event"),
    "binding": ("login_binding_changes", "login_binding_change_uuid", "reason"),
}
"""Log as `changes` names it -> table, key, a column of text."""


def live(engine: Engine) -> None:
    """Work under every vocabulary, commands, a breaker, a table with a lifecycle, a refused report, a login bound and unbound."""
    history.live(engine.conn)
    work(engine)
    step = engine.one("select workflow_step_uuid from tasker.workflow_steps limit 1")
    (outcome,) = engine.report({"step_uuid": step, "claim_uuid": uuid4()})
    assert outcome["code"] is not None
    for command in ("bind_login('public', null, 'why', 'ada')", "unbind_login('public', 'why', 'ada')"):
        engine.run(f"select tasker.{command}")


def work(engine: Engine) -> None:
    """One task more."""
    engine.task(chain("first", "second"))
    engine.finish(engine.worker())


def seal(engine: Engine, limit: int = 100_000) -> list[Row]:
    """Seal until nothing is left; the seals that were made."""
    seals: list[Row] = []
    while True:
        made = engine.row("select * from tasker.seal_audit(%s)", limit)
        seals.append(made)
        if not made["more"]:
            return [made for made in seals if made["changes"]]


def verify(engine: Engine) -> list[Row]:
    return engine.rows("select * from tasker.verify_audit()")


@contextlib.contextmanager
def triggers_off(engine: Engine, *tables: str) -> Iterator[None]:
    """What SQL can not keep an owner or superuser from doing."""
    for table in tables:
        engine.run(f"alter table tasker.{table} disable trigger all")
    yield
    for table in tables:
        engine.run(f"alter table tasker.{table} enable trigger all")
