"""What the pages of the dashboard read, besides what the client reads for everybody."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row, scalar_row

from pgtasker._statements import Statement

Row = dict[str, Any]


def _rows(text: str) -> Statement[Row]:
    return Statement(text.encode(), dict_row, repeatable=True)


NAMESPACES: Statement[str] = Statement(
    b"SELECT namespace FROM tasker.task_namespaces ORDER BY namespace LIMIT 1000", scalar_row, repeatable=True
)
PAUSED: Statement[str] = Statement(
    b"SELECT namespace FROM tasker.task_namespaces WHERE paused_at IS NOT NULL", scalar_row, repeatable=True
)
PHASES = _rows("SELECT phase, applies_to, description FROM tasker.lifecycle_phases ORDER BY ordinal")
COUNTS = _rows("SELECT * FROM tasker.count_tasks()")
THROUGHPUT = _rows("SELECT * FROM tasker.recent_throughput(30)")
QUEUES = _rows("SELECT * FROM tasker.metrics_queues ORDER BY depth DESC, namespace NULLS FIRST LIMIT 100")
WAITS = _rows("SELECT * FROM tasker.metrics_waits ORDER BY oldest_seconds DESC, waits_for, name, namespace LIMIT 100")
WORKER_PHASES = _rows(
    "SELECT phase, count(*)::int AS workers, sum(held_steps)::int AS held_steps, sum(max_concurrent)::bigint AS room"
    " FROM tasker.worker_overview WHERE NOT is_terminal GROUP BY phase ORDER BY phase"
)

# A task's steps without their contents, and its edges: all that its graph needs.
GRAPH_STEPS = _rows(
    "SELECT workflow_step_uuid, name, handler, ordinal, state, phase, attempts, max_attempts, left_out"
    " FROM tasker.step_overview WHERE task_uuid = %(task_uuid)s::uuid ORDER BY ordinal"
)
GRAPH_EDGES = _rows(
    "SELECT e.from_step_uuid, e.to_step_uuid FROM tasker.workflow_steps s"
    " JOIN tasker.workflow_step_edges e ON e.to_step_uuid = s.workflow_step_uuid"
    " WHERE s.task_uuid = %(task_uuid)s::uuid"
)
NEIGHBOURS = _rows(
    "SELECT 'needs' AS side, o.workflow_step_uuid, o.task_uuid, o.name, o.state, o.phase, o.ordinal"
    " FROM tasker.workflow_step_edges e JOIN tasker.step_overview o ON o.workflow_step_uuid = e.from_step_uuid"
    " WHERE e.to_step_uuid = %(step_uuid)s::uuid"
    " UNION ALL"
    " SELECT 'feeds', o.workflow_step_uuid, o.task_uuid, o.name, o.state, o.phase, o.ordinal"
    " FROM tasker.workflow_step_edges e JOIN tasker.step_overview o ON o.workflow_step_uuid = e.to_step_uuid"
    " WHERE e.from_step_uuid = %(step_uuid)s::uuid"
    " ORDER BY side DESC, ordinal LIMIT 200"
)
INPUTS = _rows(
    "SELECT o.name, o.result FROM tasker.workflow_step_edges e"
    " JOIN tasker.step_overview o ON o.workflow_step_uuid = e.from_step_uuid"
    " WHERE e.to_step_uuid = %(step_uuid)s::uuid ORDER BY o.ordinal LIMIT 50"
)
STEPS = _rows(
    "SELECT workflow_step_uuid, name, handler, ordinal, state, phase, attempts, max_attempts, unmet_dependencies,"
    " worker_uuid, lease_expires_at, next_retry_at, state_since, left_out, waits_for,"
    " coalesce(last_error ->> 'message', left(last_error::text, 300)) AS error"
    " FROM tasker.step_overview WHERE task_uuid = %(task_uuid)s::uuid AND ordinal > %(after)s::int"
    " AND (%(phase)s::text IS NULL OR phase = %(phase)s::text)"
    " AND (%(name)s::text IS NULL OR strpos(lower(name), lower(%(name)s::text)) > 0)"
    " ORDER BY ordinal LIMIT %(limit)s::int"
)
STEP_PHASES = _rows(
    "SELECT phase, count(*)::int AS steps FROM tasker.step_overview WHERE task_uuid = %(task_uuid)s::uuid"
    " GROUP BY phase ORDER BY min(ordinal)"
)
SPANS = _rows("SELECT * FROM tasker.step_spans(%(task_uuid)s::uuid, %(after)s::int, %(limit)s::int)")
STEP_LOG = _rows(
    "SELECT t.sort_key, t.created_at AS at, t.from_state, t.event, t.to_state, s.phase, t.metadata"
    " FROM tasker.workflow_step_transitions t"
    " JOIN tasker.lifecycle_states s ON s.lifecycle = t.lifecycle AND s.state = t.to_state"
    " WHERE t.workflow_step_uuid = %(step_uuid)s::uuid ORDER BY t.sort_key DESC LIMIT 500"
)
TASK_LOG = _rows(
    "SELECT t.sort_key, t.created_at AS at, t.from_state, t.event, t.to_state, s.phase, t.metadata"
    " FROM tasker.task_transitions t"
    " JOIN tasker.lifecycle_states s ON s.lifecycle = t.lifecycle AND s.state = t.to_state"
    " WHERE t.task_uuid = %(task_uuid)s::uuid ORDER BY t.sort_key DESC LIMIT 500"
)
CHECKPOINT = _rows(
    "SELECT checkpoint, attempt, saved_at FROM tasker.step_checkpoints"
    " WHERE workflow_step_uuid = %(step_uuid)s::uuid ORDER BY attempt DESC LIMIT 1"
)
CHILDREN = _rows(
    "SELECT task_uuid, name, state, phase FROM tasker.task_overview"
    " WHERE parent_task_uuid = %(task_uuid)s::uuid ORDER BY task_uuid LIMIT 100"
)
WORKER_LOG = _rows(
    "SELECT t.sort_key, t.created_at AS at, t.from_state, t.event, t.to_state, s.phase, t.metadata"
    " FROM tasker.worker_transitions t"
    " JOIN tasker.lifecycle_states s ON s.lifecycle = t.lifecycle AND s.state = t.to_state"
    " WHERE t.worker_uuid = %(worker_uuid)s::uuid ORDER BY t.sort_key DESC LIMIT 200"
)
HELD_STEPS = _rows(
    "SELECT o.workflow_step_uuid, o.task_uuid, o.name, o.state, o.phase, o.lease_expires_at"
    " FROM tasker.step_overview o WHERE o.workflow_step_uuid IN (SELECT tasker.held_claims(%(worker_uuid)s::uuid))"
    " ORDER BY o.lease_expires_at, o.name LIMIT 200"
)
BREAKER_LOG = _rows(
    "SELECT t.sort_key, t.created_at AS at, t.from_state, t.event, t.to_state, s.phase, t.metadata"
    " FROM tasker.circuit_breakers b"
    " JOIN tasker.circuit_breaker_transitions t ON t.circuit_breaker_uuid = b.circuit_breaker_uuid"
    " JOIN tasker.lifecycle_states s ON s.lifecycle = t.lifecycle AND s.state = t.to_state"
    " WHERE b.tool = %(tool)s::text ORDER BY t.sort_key DESC LIMIT 200"
)
LIFECYCLES = _rows("SELECT lifecycle, kind, description FROM tasker.lifecycles ORDER BY lifecycle")
STATES = _rows(
    "SELECT state, phase, description, is_terminal FROM tasker.lifecycle_states"
    " WHERE lifecycle = %(lifecycle)s::text ORDER BY ordinal"
)
TRANSITIONS = _rows(
    "SELECT from_state, event, to_state, fired_by, guard, is_legacy, is_addition FROM tasker.lifecycle_transitions"
    " WHERE lifecycle = %(lifecycle)s::text ORDER BY ordinal"
)
INITIAL: Statement[str] = Statement(
    b"SELECT initial_state FROM tasker.lifecycles WHERE lifecycle = %(lifecycle)s::text", scalar_row, repeatable=True
)
COMMANDS = _rows("SELECT command, says FROM tasker.allowed_commands(%(kind)s::text, %(target)s::text)")
REVISION: Statement[int | None] = Statement(
    b"SELECT tasker.task_revision(%(task_uuid)s::uuid)", scalar_row, repeatable=True
)
# Which kinds of thing have this key; a correlation id stands for its tasks.
FIND_KEY = _rows(
    "SELECT 'task' AS kind, task_uuid AS key FROM tasker.tasks WHERE task_uuid = %(key)s::uuid"
    " UNION ALL SELECT 'step', workflow_step_uuid FROM tasker.workflow_steps WHERE workflow_step_uuid = %(key)s::uuid"
    " UNION ALL SELECT 'worker', worker_uuid FROM tasker.workers WHERE worker_uuid = %(key)s::uuid"
    " UNION ALL (SELECT 'correlation', correlation_id FROM tasker.tasks WHERE correlation_id = %(key)s::uuid LIMIT 1)"
)
ACTIONS = _rows(
    "SELECT * FROM tasker.report_actions_of(%(name)s::text, clock_timestamp() - %(days)s::int * interval '1 day',"
    " 'infinity') ORDER BY at DESC LIMIT %(limit)s::int"
)
INTERVENTIONS = _rows(
    "SELECT * FROM tasker.report_interventions(clock_timestamp() - %(days)s::int * interval '1 day', 'infinity')"
    " ORDER BY at DESC LIMIT %(limit)s::int"
)
FAILURES = _rows(
    "SELECT * FROM tasker.report_failures(clock_timestamp() - %(days)s::int * interval '1 day', 'infinity')"
    " ORDER BY at DESC LIMIT %(limit)s::int"
)
REFUSALS = _rows(
    "SELECT created_at AS at, code, entity_kind, entity_uuid, task_uuid, namespace, message, login,"
    " detail ->> 'requested_by' AS requested_by FROM tasker.rejected_transitions"
    " WHERE created_at >= statement_timestamp() - %(days)s::int * interval '1 day'"
    " ORDER BY created_at DESC LIMIT %(limit)s::int"
)
