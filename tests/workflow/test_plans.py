"""Plans: no hot call ever reads the logs, the steps or the edges from end to end, whatever the planner knew or forgot.

A plan that was made while the tables were empty lives as long as the session. So these tests warm every statement up on
empty tables, load a history of 20,000 finished steps beside them without telling the planner, and look at what the same
session reads then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.workflow.engine import BY, Engine, graph, report_of, step
from tests.workflow.fixtures import OpenEngine

BIG = (
    "workflow_steps",
    "workflow_step_transitions",
    "workflow_step_edges",
    "task_transitions",
    "tasks",
    "workflow_step_result_audit",
    "changes",
    "timers",
)

A_FEW = 200
"""Rows that may be read from end to end: a table that small is read faster that way."""

# 1,000 tasks of 20 finished steps each, in a chain of edges. The history is the shortest that the walls let in (to take them
# down would make the server forget its plans): every step was resolved by hand before it ran.
HISTORY = """
set session_replication_role = replica;
create temp table made_tasks as select tasker.uuid_generate_v7() as task_uuid, n from generate_series(1, 1000) n;
insert into tasker.tasks (task_uuid, namespace, name, vocabulary, lifecycle, correlation_id, total_steps, satisfied_steps)
  select task_uuid, 'default', 'old', 'tasker', 'tasker.task', task_uuid, 20, 20 from made_tasks;
insert into tasker.task_transitions (task_uuid, namespace, lifecycle, to_state, from_state, event, sort_key, most_recent)
  select task_uuid, 'default', 'tasker.task', s.to_state, s.from_state, s.event, s.n, s.n = 6
    from made_tasks cross join (values
      (1, null, 'create', 'pending'), (2, 'pending', 'start', 'initializing'),
      (3, 'initializing', 'ready_steps_found', 'enqueuing_steps'), (4, 'enqueuing_steps', 'steps_enqueued', 'steps_in_process'),
      (5, 'steps_in_process', 'all_steps_completed', 'evaluating_results'), (6, 'evaluating_results', 'all_steps_successful', 'complete')
    ) as s(n, from_state, event, to_state);
create temp table made_steps as
  select tasker.uuid_generate_v7() as step_uuid, tasker.uuid_generate_v7() as result_uuid, t.task_uuid, o.n
    from made_tasks t cross join generate_series(1, 20) as o(n);
insert into tasker.workflow_steps (workflow_step_uuid, task_uuid, namespace, name, handler, lifecycle, ordinal, attempts,
                                   max_attempts, base_delay, max_delay, jitter, timeout, result_transition_uuid)
  select step_uuid, task_uuid, 'default', 's' || n, 'h', 'tasker.workflow_step', n, 1, 5, '2 s', '60 s', 0.25, '300 s', result_uuid
    from made_steps;
insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
  select p.task_uuid, p.step_uuid, c.step_uuid from made_steps p join made_steps c on c.task_uuid = p.task_uuid and c.n = p.n + 1;
insert into tasker.workflow_step_transitions
    (workflow_step_transition_uuid, workflow_step_uuid, task_uuid, namespace, lifecycle, to_state, from_state, event, metadata,
     sort_key, most_recent)
  select case when s.n = 2 then m.result_uuid else tasker.uuid_generate_v7() end, m.step_uuid, m.task_uuid, 'default',
         'tasker.workflow_step', s.to_state, s.from_state, s.event, '{"result": 1}', s.n, s.n = 2
    from made_steps m cross join (values
      (1, null, 'create', 'pending'), (2, 'pending', 'resolve_manually', 'resolved_manually')) as s(n, from_state, event, to_state);
insert into tasker.workflow_step_result_audit
    (workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, success)
  select step_uuid, result_uuid, task_uuid, 'default', true from made_steps;
insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key)
  select clock_timestamp() + interval '1 day', 'retry', task_uuid, 'default', step_uuid, 99 from made_steps;
insert into tasker.changes (log, transition_uuids) select 'step', array[result_uuid] from made_steps;
drop table made_steps, made_tasks;
set session_replication_role = origin;
"""


class Rehearsal:
    """Every hot call once, on one small task after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        engine.worker(p_heartbeat_interval="1 year")  # the clock is shifted past many leases
        self.task: UUID = UUID(int=0)
        self.watching = False
        self.read: dict[str, dict[str, int]] = {}

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """The call in a transaction of its own; notes which big tables it read from end to end, and how many rows."""
        if not self.watching:
            return call()
        self.engine.begin()
        before = self._rows_read()
        answer = call()
        after = self._rows_read()
        self.engine.commit()
        for table, rows in after.items():
            if rows - before.get(table, 0) > A_FEW:
                self.read.setdefault(name, {})[table] = rows - before.get(table, 0)
        return answer

    def _rows_read(self) -> dict[str, int]:
        # counts of this session; they are flushed between transactions only
        rows = self.engine.rows(
            "select relname, seq_tup_read from pg_stat_xact_user_tables where relname = any (%s)", list(BIG)
        )
        return {row["relname"]: row["seq_tup_read"] for row in rows}

    def everything(self) -> None:
        engine, run = self.engine, self.run
        flow = graph(
            step("a"),
            step("b", "a"),
            step("c", "a"),
            step("fails", retry={"base_delay": 5, "jitter": 0}),
            step("expires", retry={"base_delay": 5, "jitter": 0}),
            step("d", "b", "c", "fails"),
        )
        self.task = run(
            "create", lambda: engine.create(flow, p_idempotency_key=str(engine.one("select gen_random_uuid()")))
        )
        run(
            "create_tasks",
            lambda: engine.rows(
                "select * from tasker.create_tasks(%s)", Jsonb([{"name": "small", "start": False}] * 3)
            ),
        )
        claims = {c["name"]: c for c in run("claim", lambda: engine.claim(3)) + run("claim", lambda: engine.claim(3))}
        run("extend", lambda: engine.call("extend_leases", p_worker_uuid=engine.worker()))
        run("held", lambda: engine.table("held_claims", p_worker_uuid=engine.worker()))
        reports = [report_of(claims["a"], result=1), report_of(claims["fails"], success=False), {"step_uuid": "bad"}]
        run("report", lambda: engine.report([*reports, report_of(claims["a"], result=1)]))
        run("orchestrate", engine.orchestrate)
        run("tick", engine.tick)
        engine.shift_clock("1 hour")
        run("tick", engine.tick)
        engine.shift_clock("2 hours")
        run("orchestrate", engine.orchestrate)
        run("tick", engine.tick)
        engine.shift_clock("0")
        engine.shift_clock("3 hours")
        run("tick", engine.tick)
        more = run("claim", lambda: engine.claim(1, lease="1 day")) + run(
            "claim", lambda: engine.claim(9, lease="1 day")
        )
        one = more.pop()
        key = {"p_step_uuid": one["workflow_step_uuid"], "p_claim_uuid": one["claim_uuid"]}
        run("complete_step", lambda: engine.call("complete_step", **key))
        run("report", lambda: engine.complete(more))
        run("orchestrate", engine.orchestrate)
        run("status", lambda: engine.task(self.task))
        run("explain", lambda: engine.call("explain_task", p_task_uuid=self.task))
        run("readiness", lambda: engine.table("get_step_readiness_status", p_task_uuid=self.task))
        run("context", lambda: engine.table("get_task_execution_context", p_task_uuid=self.task))
        run("allowed", lambda: engine.table("allowed_events", p_kind="task", p_uuid=self.task))
        run("history", lambda: engine.table("get_task_audit_history", p_task_uuid=self.task))
        run("changes", lambda: engine.table("changes_after", p_cursor=engine.call("current_cursor"), p_limit=10))
        last = {row["name"]: row["workflow_step_uuid"] for row in engine.steps(self.task).values()}
        run("resolve", lambda: engine.call("resolve_step", p_step_uuid=last["d"], **BY))
        other = engine.create(graph(step("x"), step("y", "x")))
        held = [report_of(claimed) for claimed in engine.claim(9)]
        _, taken = run("report and claim", lambda: engine.report_and_claim(held))
        assert [claimed["name"] for claimed in taken] == ["y"]
        run("report and claim", lambda: engine.report_and_claim([report_of(claimed) for claimed in taken]))
        other = engine.create(graph(step("x"), step("y", "x")))
        run("cancel", lambda: engine.call("cancel_task", p_task_uuid=other, **BY))
        engine.shift_clock("0")


PLANS = ("auto", "force_generic_plan", "force_custom_plan")


def test_no_hot_call_reads_a_big_table_from_end_to_end(engine: Engine, open_engine: OpenEngine) -> None:
    engine.call("register_template", p_template=graph(step("one"), name="small"))
    rehearsals = {plans: Rehearsal(open_engine()) for plans in PLANS}
    for plans, rehearsal in rehearsals.items():
        rehearsal.engine.rows(f"set plan_cache_mode = {plans}")
        for _ in range(7):  # from the sixth time on the server may keep a plan for good
            rehearsal.everything()
    open_engine().connection.execute(HISTORY.encode())
    for knowledge in ("never analyzed", "analyzed"):
        if knowledge == "analyzed":
            engine.rows("analyze")
        for plans, rehearsal in rehearsals.items():
            rehearsal.watching = True
            rehearsal.everything()
            assert rehearsal.read == {}, f"{knowledge}, {plans}"
    # a view has no settings of its own: it needs a server that knows its tables
    looks = Rehearsal(engine)
    looks.watching = True
    for view in ("task_overview", "step_overview", "timeline"):
        query = f"select * from tasker.{view} where task_uuid = %s"
        looks.run(view, partial(engine.rows, query, rehearsals["auto"].task))
    assert looks.read == {}


# What is appended with every step: each index costs every step, so each has a question that it answers.
QUESTIONS = {
    "task_transitions_pkey": "task_transitions where task_transition_uuid = {key}",
    "task_transitions_task_uuid_sort_key_idx": "task_transitions where task_uuid = {key} order by sort_key",
    "task_transitions_most_recent_idx": "task_transitions where task_uuid = {key} and most_recent = true",
    "task_transitions_state_idx": "task_transitions where namespace = 'n' and to_state = 's' and most_recent = true"
    " and sort_key > 0 order by task_uuid desc",
    "task_transitions_created_at_idx": "task_transitions where created_at between {period}",
    "task_transitions_first_idx": "task_transitions where created_at between {period} and sort_key = 1"
    " order by created_at",
    "task_transitions_manual_idx": "task_transitions where metadata ? 'manual' and metadata ->> 'requested_by' = 'me'"
    " order by created_at",
    "workflow_step_transitions_pkey": "workflow_step_transitions where workflow_step_transition_uuid = {key}",
    "workflow_step_transitions_step_uuid_sort_key_idx": "workflow_step_transitions where workflow_step_uuid = {key}"
    " order by sort_key",
    "workflow_step_transitions_most_recent_idx": "workflow_step_transitions where workflow_step_uuid = {key}"
    " and most_recent = true",
    "workflow_step_transitions_created_at_idx": "workflow_step_transitions where created_at between {period}",
    "workflow_step_transitions_manual_idx": "workflow_step_transitions where metadata ? 'manual'"
    " and metadata ->> 'requested_by' = 'me' order by created_at",
    "workflow_step_result_audit_pkey": "workflow_step_result_audit where workflow_step_result_audit_uuid = {key}",
    "workflow_step_result_audit_workflow_step_uuid_workflow_step_key": "workflow_step_result_audit"
    " where workflow_step_uuid = {key} and workflow_step_transition_uuid = {key}",
    "workflow_step_result_audit_transition_uuid_idx": "workflow_step_result_audit"
    " where workflow_step_transition_uuid = {key}",
    "idx_audit_step_uuid": "workflow_step_result_audit where workflow_step_uuid = {key}",
    "idx_audit_task_uuid": "workflow_step_result_audit where task_uuid = {key}",
    "idx_audit_recorded_at": "workflow_step_result_audit where recorded_at between {period} order by recorded_at",
    "idx_audit_worker_uuid": "workflow_step_result_audit where worker_uuid = {key} order by recorded_at",
    "idx_audit_correlation_id": "workflow_step_result_audit where correlation_id = {key}",
    "idx_audit_success": "workflow_step_result_audit where success = false and recorded_at between {period}"
    " order by recorded_at",
}


def test_every_index_of_the_logs_answers_a_question(engine: Engine) -> None:
    """And no other is taken for it, also while the log is empty: a session keeps such a plan."""
    engine.rows("set enable_seqscan = off")
    given = {"key": "'01900000-0000-7000-8000-000000000000'", "period": "'2026-01-01' and '2026-01-02'"}
    for index, question in QUESTIONS.items():
        plan = engine.column(f"explain select 1 from tasker.{question.format(**given)}")
        assert index in " ".join(plan), (index, plan)
    there = engine.column(
        "select indexname from pg_indexes where schemaname = 'tasker' and tablename = any (%s)",
        ["task_transitions", "workflow_step_transitions", "workflow_step_result_audit"],
    )
    assert set(there) == set(QUESTIONS)


def test_no_hot_call_compares_each_row_of_a_batch_with_each_other(engine: Engine) -> None:
    """A batch of hundreds costs no more a row than one of a few: arrays are joined by hashes, tables by their keys."""
    batch, plans = 150, []
    engine.call("register_template", p_template=graph(step("one"), step("two", "one"), name="pair"))
    engine.worker()
    engine.connection.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
    engine.rows(
        "load 'auto_explain'; set client_min_messages = log; set auto_explain.log_level = log;"
        " set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on; set auto_explain.log_timing = off;"
        " set auto_explain.log_nested_statements = on; set auto_explain.log_format = json"
    )
    engine.rows("select * from tasker.create_tasks(%s)", Jsonb([{"name": "pair"}] * batch))
    _, taken = engine.report_and_claim([report_of(claimed) for claimed in engine.claim(batch)], batch)
    assert len(taken) == batch
    engine.report([report_of(claimed) for claimed in taken])
    engine.orchestrate()
    engine.rows("reset auto_explain.log_min_duration")
    assert not engine.rows("select from tasker.tasks where completed_at is null")
    seen = [json.loads(plan[plan.index("{") :]) for plan in plans if "{" in plan]
    assert len(seen) > batch  # foreign keys look for a row each
    wasteful = {
        query["Query Text"]: removed
        for query in seen
        if (removed := max(map(_removed_by_joins, _nodes(query["Plan"])))) > 10 * batch
    }
    assert wasteful == {}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _removed_by_joins(node: dict[str, Any]) -> float:
    return float(node.get("Rows Removed by Join Filter", 0) * node.get("Actual Loops", 1))
