"""Finished work beside what is measured: tasks of 50 steps in a chain, with all their log, edge and audit rows."""

from __future__ import annotations

import psycopg

from bench.server import Database

STEPS = 50
_BATCH = 1000
"""Most tasks of one transaction."""

_FILL = """
create temp table made_tasks on commit drop as
  select tasker.uuid_generate_v7() as task_uuid from generate_series(1, %(tasks)s);
insert into tasker.tasks (task_uuid, namespace, name, vocabulary, lifecycle, correlation_id, total_steps,
                          satisfied_steps, created_at, started_at, completed_at)
  select task_uuid, 'default', 'old', 'tasker', 'tasker.task', task_uuid,
         %(steps)s, %(steps)s, now(), now(), now()
    from made_tasks;
insert into tasker.task_transitions (task_uuid, namespace, lifecycle, to_state, from_state, event, sort_key,
                                     most_recent)
  select task_uuid, 'default', 'tasker.task', s.to_state, s.from_state, s.event, s.n, s.n = 6
    from made_tasks
   cross join (values (1, null, 'create', 'pending'), (2, 'pending', 'start', 'initializing'),
                      (3, 'initializing', 'ready_steps_found', 'enqueuing_steps'),
                      (4, 'enqueuing_steps', 'steps_enqueued', 'steps_in_process'),
                      (5, 'steps_in_process', 'all_steps_completed', 'evaluating_results'),
                      (6, 'evaluating_results', 'all_steps_successful', 'complete')
              ) as s(n, from_state, event, to_state);
create temp table made_steps on commit drop as
  select tasker.uuid_generate_v7() as step_uuid, tasker.uuid_generate_v7() as result_uuid, t.task_uuid, o.n
    from made_tasks t cross join generate_series(1, %(steps)s) as o(n);
insert into tasker.workflow_steps (workflow_step_uuid, task_uuid, namespace, name, handler, lifecycle, ordinal,
                                   attempts, max_attempts, base_delay, max_delay, jitter, timeout,
                                   result_transition_uuid)
  select step_uuid, task_uuid, 'default', 's' || n, 'h', 'tasker.workflow_step', n, 1, 5, '2 s', '60 s', 0.25, '300 s',
         result_uuid
    from made_steps;
insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
  select p.task_uuid, p.step_uuid, c.step_uuid
    from made_steps p join made_steps c on c.task_uuid = p.task_uuid and c.n = p.n + 1;
insert into tasker.workflow_step_transitions (workflow_step_transition_uuid, workflow_step_uuid, task_uuid, namespace,
                                              lifecycle, to_state, from_state, event, metadata, sort_key, most_recent)
  select case s.n when 4 then m.result_uuid else tasker.uuid_generate_v7() end, m.step_uuid, m.task_uuid, 'default',
         'tasker.workflow_step', s.to_state, s.from_state, s.event,
         case s.n when 4 then
           jsonb_build_object('success', true, 'result', m.n, 'correlation_id', m.task_uuid) end,
         s.n, s.n = 5
    from made_steps m
   cross join (values (1, null, 'create', 'pending'), (2, 'pending', 'enqueue', 'enqueued'),
                      (3, 'enqueued', 'start', 'in_progress'),
                      (4, 'in_progress', 'enqueue_for_orchestration', 'enqueued_for_orchestration'),
                      (5, 'enqueued_for_orchestration', 'complete', 'complete')) as s(n, from_state, event, to_state)
"""


def fill(database: Database, steps: int) -> None:
    """Insert finished tasks with so many steps in all, a multiple of 50; every check and the audit trigger see them."""
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute("select tasker.ensure_namespace('default')")
        tasks = steps // STEPS
        for made in range(0, tasks, _BATCH):
            with conn.transaction():
                for statement in _FILL.split(";\n"):
                    values = {"tasks": min(_BATCH, tasks - made), "steps": STEPS}
                    conn.execute(statement.encode(), values, prepare=False)
        conn.execute("vacuum analyze")
