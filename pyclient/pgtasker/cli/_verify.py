"""Proofs taken from the transition log: did every step start after all that it depends on?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pgtasker.cli._database import Database

ORDER_VIOLATIONS = """
with moves as (
  select t.workflow_step_uuid,
         min(t.created_at) filter (where s.phase = 'running') as started_at,
         min(t.created_at) filter (where s.satisfies_dependencies) as satisfied_at
    from tasker.workflow_step_transitions t
    join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
   where t.task_uuid = %(task)s
   group by t.workflow_step_uuid
)
select parent.name as parent, child.name as child, p.satisfied_at, c.started_at
  from tasker.workflow_step_edges e
  join moves c on c.workflow_step_uuid = e.to_step_uuid
  left join moves p on p.workflow_step_uuid = e.from_step_uuid
  join tasker.workflow_steps parent on parent.workflow_step_uuid = e.from_step_uuid
  join tasker.workflow_steps child on child.workflow_step_uuid = e.to_step_uuid
 where e.task_uuid = %(task)s
   and c.started_at is not null
   and (p.satisfied_at is null or c.started_at < p.satisfied_at)
 order by c.started_at, parent.name
"""
"""Edges whose dependent was claimed before its dependency was satisfied, by the log's own times; one row each."""


def order_violations(db: Database, task_uuid: UUID) -> list[dict[str, Any]]:
    """Every edge of a task that the log says was not respected; must be empty."""
    return db.rows(ORDER_VIOLATIONS.encode(), {"task": task_uuid})


def edge_count(db: Database, task_uuid: UUID) -> int:
    """Number of a task's edges in the database."""
    return int(db.value("select count(*) from tasker.workflow_step_edges where task_uuid = %s", (task_uuid,)))


def audit_row_count(db: Database, task_uuid: UUID) -> int:
    """Number of a task's recorded results."""
    return int(db.value("select count(*) from tasker.workflow_step_result_audit where task_uuid = %s", (task_uuid,)))
