"""The SQLAlchemy maps: every mapped column exists, everything can be read, nothing can be written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, configure_mappers

from pgtasker import Client, Worker, models

from .conftest import graph


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    engine = sa.create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield session
    engine.dispose()


@pytest.fixture
def task_uuid(database: str, client: Client) -> uuid.UUID:
    """A finished task of four steps."""
    worker = Worker(database, name="w")
    worker.step("work")(lambda ctx: ctx.name)
    task_uuid = client.create_task_from_graph(graph("a", "b<a", "c<a", "d<b,c"))
    worker.run_until(task_uuid, timeout=30)
    return task_uuid


MAPPED = models.Base.__subclasses__()


def test_every_map_can_be_configured_and_is_exported() -> None:
    configure_mappers()
    assert {cls.__name__ for cls in MAPPED} <= set(models.__all__)


@pytest.mark.parametrize("cls", MAPPED, ids=lambda cls: str(cls.__name__))
def test_every_mapped_column_exists_with_its_type(cls: type[models.Base], conn: psycopg.Connection[Any]) -> None:
    table = cls.__table__
    assert isinstance(table, sa.Table)
    assert table.schema == "tasker"
    there = {
        name: (kind, required)
        for name, kind, required in conn.execute(
            "select attname, atttypid::regtype::text, attnotnull from pg_attribute"
            " where attrelid = ('tasker.' || %s)::regclass and attnum > 0 and not attisdropped",
            [table.name],
        )
    }
    kinds = {
        "UUID": {"uuid"},
        "TEXT": {"text"},
        "JSONB": {"jsonb"},
        "BOOLEAN": {"boolean"},
        "INTEGER": {"integer"},
        "BIGINT": {"bigint"},
        "FLOAT": {"real"},
        "DOUBLE PRECISION": {"real"},
        "TIMESTAMP WITH TIME ZONE": {"timestamp with time zone"},
        "INTERVAL": {"interval"},
        "TEXT[]": {"text[]"},
    }
    dialect = sa.create_engine("postgresql+psycopg://").dialect
    is_view = conn.execute("select relkind = 'v' from pg_class where oid = ('tasker.' || %s)::regclass", [table.name])
    view = is_view.fetchone() == (True,)
    for column in table.columns:
        kind, required = there[column.name]
        assert kind in kinds[column.type.compile(dialect)], column
        if not view and not isinstance(column.type, sa.JSON):
            assert required == (not column.nullable), column


def test_tables_and_views_can_be_read(session: Session, task_uuid: uuid.UUID) -> None:
    for cls in MAPPED:
        session.scalars(sa.select(cls).limit(3)).all()
    task = session.get_one(models.Task, task_uuid)
    assert [step.name for step in task.steps] == ["a", "b", "c", "d"]
    assert [step.name for step in task.steps[3].depends_on] == ["b", "c"]
    assert [t.sort_key for t in task.transitions] == list(range(1, len(task.transitions) + 1))
    current = models.TaskTransition.get_current(session, task_uuid)
    overview = session.get_one(models.TaskOverview, task_uuid)
    assert current is not None and current.to_state == overview.state and current == task.transitions[-1]
    step = task.steps[0]
    current_step = models.WorkflowStepTransition.get_current(session, step.workflow_step_uuid)
    assert current_step is not None and current_step.to_state == step.transitions[-1].to_state
    assert models.TaskTransition.get_current(session, uuid.uuid4()) is None
    lines = session.scalars(sa.select(models.Timeline).where(models.Timeline.task_uuid == task_uuid)).all()
    assert len(lines) == len(task.transitions) + sum(len(step.transitions) for step in task.steps)
    lifecycle = session.get_one(models.Lifecycle, "tasker.task")
    assert len(lifecycle.states) == 12 and lifecycle.transitions


def test_the_audit_queries_via_model(session: Session, task_uuid: uuid.UUID, client: Client) -> None:
    task = session.get_one(models.Task, task_uuid)
    audit = models.WorkflowStepResultAudit
    records = audit.get_task_audit_history(session, task_uuid)
    assert [record.step.name for record in records][-1] == "a"
    assert len(records) == 4
    assert [r.workflow_step_result_audit_uuid for r in records] == [
        r.workflow_step_result_audit_uuid for r in client.get_task_audit_history(task_uuid)
    ]
    (record,) = audit.get_audit_history(session, task.steps[1].workflow_step_uuid)
    assert record.success and record.transition.transition_metadata["result"] == "b"
    assert record.worker_uuid is not None
    assert len(audit.get_by_worker(session, record.worker_uuid, 3)) == 3
    assert len(audit.get_by_worker(session, record.worker_uuid)) == 4
    assert len(audit.get_by_worker(session, record.worker_uuid, None)) == 4
    assert audit.get_by_correlation_id(session, task.correlation_id) == records
    assert audit.get_by_worker(session, uuid.uuid4()) == []


def test_changes_are_refused_at_the_flush(session: Session, task_uuid: uuid.UUID, client: Client) -> None:
    task = session.get_one(models.Task, task_uuid)
    task.priority = 7
    with pytest.raises(models.ReadOnlyModelError, match="Task is read-only"):
        session.commit()
    session.rollback()
    session.delete(session.scalars(sa.select(models.WorkflowStepResultAudit).limit(1)).one())
    with pytest.raises(models.ReadOnlyModelError):
        session.flush()
    session.rollback()
    session.add(models.TaskNamespace(namespace="n", queue_name="q"))
    with pytest.raises(models.ReadOnlyModelError):
        session.flush()
    session.rollback()
    assert client.task(task_uuid).priority == 0
