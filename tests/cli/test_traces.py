"""All real workflow traces, each run to its end; the proofs are taken from the transition log by SQL of this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

Cli = Callable[..., Any]

# The longest trace runs 3,012 s along its critical path, all together 9,400 s: scaled to some seconds.
SPEEDUP = 2000

UNORDERED_EDGES = """
select t.name, parent.name, child.name
  from tasker.workflow_step_edges e
  join tasker.tasks t on t.task_uuid = e.task_uuid
  join tasker.workflow_steps parent on parent.workflow_step_uuid = e.from_step_uuid
  join tasker.workflow_steps child on child.workflow_step_uuid = e.to_step_uuid
  left join lateral (select min(created_at) as at from tasker.workflow_step_transitions
                      where workflow_step_uuid = e.from_step_uuid and to_state = 'complete') done on true
  left join lateral (select min(created_at) as at from tasker.workflow_step_transitions
                      where workflow_step_uuid = e.to_step_uuid and to_state = 'in_progress') claimed on true
 where done.at is null or claimed.at is null or claimed.at < done.at
"""

TOTALS = """
select (select count(*) from tasker.tasks t join tasker.task_overview o using (task_uuid) where o.state = 'complete'),
       (select count(*) from tasker.workflow_steps),
       (select count(*) from tasker.workflow_step_edges),
       (select count(*) from tasker.workflow_step_result_audit),
       (select count(distinct workflow_step_uuid) from tasker.workflow_step_result_audit where success),
       (select count(*) from tasker.workflow_step_transitions where to_state = 'in_progress')
"""


@pytest.fixture
def traces(shared: Path) -> list[Path]:
    files = sorted((shared / "data" / "wfcommons").glob("*.json"))
    if not files:
        pytest.skip("no traces in ../shared/data/wfcommons")
    return files


def test_all_traces_complete_in_order(cli: Cli, conn: psycopg.Connection[Any], traces: list[Path]) -> None:
    ran = cli("run", *traces, "--speedup", SPEEDUP, "--concurrency", 64, "--verify", "--json", timeout=600)
    summaries = ran.json_lines
    assert [summary["name"] for summary in summaries] == [trace.stem for trace in traces]
    for summary in summaries:
        name = summary["name"]
        assert summary["state"] == "complete", name
        assert summary["audit_rows"] == summary["steps"] == summary["satisfied_steps"], name
        assert summary["order_violations"] == summary["findings"] == [], name

    assert conn.execute(UNORDERED_EDGES.encode()).fetchall() == []
    steps, edges = (sum(summary[key] for summary in summaries) for key in ("steps", "edges"))
    assert (len(traces), steps, edges) == (13, 6927, 15084)
    # Every step was claimed exactly once and has exactly one result.
    assert conn.execute(TOTALS.encode()).fetchone() == (13, steps, edges, steps, steps, steps)
    assert cli("check", "--json").json == []
    assert cli("tick", "--json").json["timers_fired"] == 0
